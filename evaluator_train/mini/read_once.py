"""What `mini` needs to judge passages that were read once: a single vector, and the weights of a strip's logit.

    python -m crag_dspy.evaluator_train.mini.read_once DATASETS --grader crag_dspy/weights/mini --steps 400

The encoder and the late interaction stay as they are. The single vector (`SingleVector`) learns on the questions of the
training articles: which passage is the right one, and to rank as the token vectors do. The weights (`OnceWeights`) are
fitted on the development articles, each question once with its passage among the ten found, and once without it. Both
write into the grader's folder. Some twelve minutes on one core. (The shipped ones saw SelQA's and QNLI's training
questions too: expect the same quality, not the same numbers.)
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from crag_dspy.evaluator_train.mini.as_script import run_script
from crag_dspy.evaluator_train.mini.kept_apart import DEV, TEST
from crag_dspy.graders.artefact import SINGLE_FILE, OnceWeights, save_tensors, update_spec
from crag_dspy.graders.t5 import T5Grader
from crag_dspy.passages import Passage
from crag_dspy.read_once.encoding import PassageEncoder
from crag_dspy.read_once.judging import word_shares
from crag_dspy.read_once.single import SingleVector
from crag_dspy.read_once.vectors import matches
from crag_dspy.refine import context_of, shown_of, strips_of, titled
from crag_dspy.retrievers.bm25 import BM25
from crag_dspy.text.matching import contains_answer

BATCH = 24
# Added to the fitted biases: one strip in sixty holds the answer, and thresholds are read as if one in two did.
STRIP_SHIFT, PASSAGE_SHIFT = 2.2, 2.6


@dataclass(frozen=True)
class Labelled:
    """A question, its answers, and the number of the passage that answers it."""

    question: str
    answers: list[str]
    gold: int


Set = tuple[list[Passage], list[Labelled]]


def read(file: Path, wanted: Any) -> Set:
    """Passages and questions of the articles (number, title) that are wanted."""
    passages: list[Passage] = []
    asked: list[Labelled] = []
    for number, article in enumerate(json.loads(file.read_text(encoding="utf-8"))["data"]):
        title = str(article.get("title", "")).replace("_", " ")
        for paragraph in article["paragraphs"] if wanted(number, title) else ():
            passages.append(Passage(paragraph["context"], title=title))
            for row in paragraph["qas"]:
                golds = [answer["text"] for answer in row["answers"] if answer["text"].strip()]
                if golds:
                    asked.append(Labelled(row["question"], golds, len(passages) - 1))
    return passages, asked


def sets_of(folder: Path) -> tuple[list[Set], list[Set]]:
    """Training and development sets; nothing of the test articles, and every title of CMRC in one of the two."""
    kept = {*DEV, *TEST}
    training, dev = [], []
    for language in ("en", "zh"):
        file = folder / f"xquad/xquad.{language}.json"
        training.append(read(file, lambda number, title: number not in kept))
        dev.append(read(file, lambda number, title: number in DEV))
    file = folder / "cmrc2018/dev.json"
    titles = sorted({article["title"] for article in json.loads(file.read_text(encoding="utf-8"))["data"]})
    of_dev = set(random.Random(0).sample(titles, len(titles) // 16))
    training.append(read(file, lambda number, title: title not in of_dev))
    dev.append(read(file, lambda number, title: title in of_dev))
    return training, dev


def train_single(grader: T5Grader, sets: list[Set], steps: int, seed: int = 3) -> SingleVector:
    """A single vector that finds the passage, and ranks as the token vectors do (a softened cross-entropy)."""
    drawn = random.Random(seed)
    torch.manual_seed(seed)
    head: Any = grader.scorer.head
    passages = [passage for found, _ in sets for passage in found]
    pairs, texts, start = [], [], 0
    for found, asked in sets:
        pairs += [(len(texts) + place, start + one.gold) for place, one in enumerate(asked)]
        texts += [one.question for one in asked]
        start += len(found)
    half = len(sets[0][1])  # the first two sets are the same questions in two languages
    english, chinese = pairs[:half], pairs[half : 2 * half]
    pairs += [(q, p) for (q, _), (_, p) in zip(english, chinese, strict=False)]
    pairs += [(q, p) for (_, p), (q, _) in zip(english, chinese, strict=False)]
    states = _states(grader, [titled(passage, passage.text) for passage in passages])
    asked_states = _states(grader, texts)
    single = SingleVector(states[0].shape[1])
    single.start_from(torch.stack([one.mean(0) for one in states]))
    with torch.no_grad():
        tokens = [head.late.tokens(one) for one in states]
        asked_tokens = [
            (head.late.tokens(one), head.late.importance(one)[:, 0].softmax(-1)) for one in asked_states
        ]
    optimizer = torch.optim.AdamW(single.parameters(), lr=1e-3, weight_decay=0.01)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * step / steps))
        batch = drawn.sample(pairs, min(BATCH, len(pairs)))
        pool = list(
            dict.fromkeys([p for _, p in batch] + drawn.sample(range(len(states)), min(BATCH, len(states))))
        )
        rows = torch.cat([_one(single, states[p]) for p in pool])
        scores = single.scale * (torch.cat([_one(single, asked_states[q]) for q, _ in batch]) @ rows.T)
        with torch.no_grad():
            teacher = torch.stack(
                [
                    torch.stack(
                        [1.5 * head.late.scale[0] * ((v @ tokens[p].T).amax(1) * w).sum() for p in pool]
                    )
                    for v, w in (asked_tokens[q] for q, _ in batch)
                ]
            )
        gold = torch.tensor([pool.index(p) for _, p in batch])
        loss = nn.functional.cross_entropy(scores, gold)
        loss = loss + nn.functional.kl_div(scores.log_softmax(1), teacher.softmax(1), reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return single


def fit_weights(grader: T5Grader, dev: list[Set], others: list[Set]) -> OnceWeights:
    """Logistic regression of passages and strips on what `OnceWeights` weighs; `others` lend passages that mislead."""
    from sklearn.linear_model import LogisticRegression

    encoder = _encoder(grader)
    strips_x, strips_y, whole_x, whole_y = [], [], [], []
    for (found, asked), (lent, _) in zip(dev, others, strict=True):
        pool = [*found, *lent[:120]]
        vectors = encoder.passages([(passage.title, passage.text) for passage in pool])
        cut = [strips_of([passage], "internal") for passage in pool]
        ranking = BM25([titled(passage, passage.text) for passage in pool])
        for one, question in zip(asked, encoder.questions([one.question for one in asked]), strict=True):
            matched = np.array([matches(question, each, [])[0] for each in vectors])
            ranks = np.zeros(len(pool))
            words = [place for place, _ in ranking.top(one.question, len(pool))]
            for order in (list(np.argsort(-matched)), words):
                ranks[order] += 1 / (60 + np.arange(len(order)))
            order = np.argsort(-ranks, kind="stable")
            absent = [i for i in order if not contains_answer(pool[i].text, one.answers)]
            for near in (order[:10], absent[:10]):
                shown = [shown_of(s) for i in near for s in cut[i]]
                shares = iter(word_shares(one.question, shown))
                for i in near:
                    whole, each = matches(
                        question,
                        vectors[i],
                        [(s.start, s.end) for s in cut[i]],
                        list(map(context_of, cut[i])),
                    )
                    whole_x.append([whole])
                    whole_y.append(i == one.gold)
                    strips_x += [[float(match), whole, next(shares)] for match in each]
                    strips_y += [i == one.gold and contains_answer(s.text, one.answers) for s in cut[i]]
    strip = LogisticRegression(C=100, max_iter=2000).fit(strips_x, strips_y)
    whole_fit = LogisticRegression(C=100, max_iter=2000).fit(whole_x, whole_y)
    bias, (own, around, shared) = float(strip.intercept_[0]) + STRIP_SHIFT, map(float, strip.coef_[0])
    passage = (float(whole_fit.intercept_[0]) + PASSAGE_SHIFT, float(whole_fit.coef_[0][0]))
    return OnceWeights(passage=passage, strip=(bias, own, around, shared))


def _one(single: SingleVector, states: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = single(states[None], torch.ones(1, len(states), dtype=torch.bool))
    return made


def _encoder(grader: T5Grader) -> PassageEncoder:
    return PassageEncoder(grader.scorer, grader.encoder._tokenizer, grader.spec.max_length, 4096)


def _states(grader: T5Grader, texts: list[str]) -> list[torch.Tensor]:
    encoder = _encoder(grader)
    found = []
    for text in encoder._tokenised(texts):
        ids = text.ids[:400] or [1]
        states, _ = encoder._states([ids])
        found.append(states[0, : len(ids)].clone())
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="read_once", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", type=Path, metavar="DATASETS", help="a folder with xquad/ and cmrc2018/")
    parser.add_argument(
        "--grader", type=Path, required=True, metavar="FOLDER", help="a grader, changed in place"
    )
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args(arguments)
    grader = T5Grader.from_pretrained(given.grader)
    training, dev = sets_of(given.datasets)
    single = train_single(grader, training, given.steps)
    save_tensors(
        {name: value.half() for name, value in single.state_dict().items()}, given.grader / SINGLE_FILE
    )
    spec = update_spec(given.grader, once=fit_weights(grader, dev, training))
    sys.stdout.write(json.dumps(spec.once.model_dump() if spec.once else None) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
