"""The weights by which `mini` checks answers (`CheckWeights`), and how well they tell right answers from wrong ones.

    python -m crag_dspy.evaluator_train.mini.answer_check DATASETS --grader crag_dspy/weights/mini --rows ROWS.jsonl

Questions of XQuAD's training articles, in English and Chinese, are asked over all training paragraphs; of a quarter of
them their own paragraph is left out. What is judged: answers of the bundled language model, spans of the evidence that
are right and wrong, and answers to other questions. A logistic regression of the three signals, in which the
model's answers count most, goes into the grader's folder. The development articles measure it, on the model's answers
alone: AUC and calibration error, with 95% intervals by article. Rows are kept in the file, and not made again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import numpy as np

from crag_dspy import CRAG, Passage, PlainTextAdapter, local_lm
from crag_dspy.check.by_signals import SignalsCheck
from crag_dspy.check.holding import place_of
from crag_dspy.evaluator_train.mini.as_script import run_script
from crag_dspy.evaluator_train.mini.kept_apart import DEV, TEST
from crag_dspy.graders.artefact import CheckWeights, update_spec
from crag_dspy.graders.t5 import T5Grader
from crag_dspy.refine import titled
from crag_dspy.retrievers.bm25 import BM25
from crag_dspy.text.matching import contains_answer
from crag_dspy.text.replies import is_abstention

ABSENT = 4  # of one question in so many, its own paragraph is not there
SIGNALS = ("qa", "prox", "s_ans")
OF_MODEL = 4.0  # what an answer of the model counts, where one that was made counts 1
_SPANS = re.compile(
    r"\d[\d,.]*\d|\d|[A-ZÀ-Þ]\w+(?: (?:of |the )?[A-ZÀ-Þ]\w+)*|\w{5,}(?: \w{4,})?|[\u4e00-\u9fff]{2,5}"
)


def asked(file: Path, articles: Any) -> tuple[list[Passage], list[dict[str, Any]]]:
    """Paragraphs and questions of the articles, questions of different articles in turn."""
    passages: list[Passage] = []
    by_article: dict[int, list[dict[str, Any]]] = {}
    for number, article in enumerate(json.loads(file.read_text(encoding="utf-8"))["data"]):
        title = str(article.get("title", "")).replace("_", " ")
        for paragraph in article["paragraphs"] if articles(number) else ():
            passages.append(Passage(paragraph["context"], id=str(len(passages)), title=title))
            for row in paragraph["qas"]:
                golds = [answer["text"] for answer in row["answers"]]
                by_article.setdefault(number, []).append(
                    {"id": row["id"], "article": number, "question": row["question"], "golds": golds}
                    | {"own": passages[-1].id}
                )
    for rows in by_article.values():
        random.Random(0).shuffle(rows)
    longest = max(map(len, by_article.values()))
    turns = [rows[turn] for turn in range(longest) for rows in by_article.values() if turn < len(rows)]
    return passages, turns


def retriever(passages: list[Passage], asked: list[dict[str, Any]]) -> Any:
    """BM25 over the passages, without a question's own where it is to be absent."""
    ranking = BM25([titled(passage, passage.text) for passage in passages])
    own = {row["question"]: row["own"] for row in asked if _share(row["id"]) % ABSENT == 0}

    def found(query: str, k: int) -> list[Passage]:
        best = [passages[place] for place, _ in ranking.top(query, k + 1)]
        return [passage for passage in best if passage.id != own.get(query)][:k]

    return found


def made(row: dict[str, Any], evidence: Any, others: list[str]) -> Iterator[tuple[str, bool]]:
    """(answer, whether it is right): spans of the evidence, and the answer to another question."""
    drawn = random.Random(row["id"])
    for strip in evidence:
        if not contains_answer(strip.text, row["golds"][0]):
            continue
        start, end = place_of(row["golds"][0], strip.text)
        yield row["golds"][0], True
        before = strip.text[:start].rstrip().rfind(" ")
        yield strip.text[before + 1 : end + 12].strip(), True
        break
    digits = any(map(str.isdigit, row["golds"][0]))
    spans = [found[0] for strip in evidence for found in _SPANS.finditer(strip.text)]
    alike = [span for span in spans if any(map(str.isdigit, span)) == digits] or spans
    wrong = [*drawn.sample(alike, min(2, len(alike))), drawn.choice(others)]
    yield from ((span, False) for span in wrong if not _overlap(span, row["golds"]))


def rows_of(file: Path, language: str, dev: bool, grader: T5Grader, answers: int) -> Iterator[dict[str, Any]]:
    """A row an answer, with its signals; the first `answers` questions are asked of the bundled model too."""
    kept = {*DEV, *TEST}
    passages, questions = asked(file, (lambda n: n in DEV) if dev else (lambda n: n not in kept))
    # No cut: what the evidence is worth is one of the signals.
    crag = CRAG(retriever(passages, questions), grader, check=None, evidence_threshold=-1.0)
    check = SignalsCheck(grader)
    others = [row["golds"][0] for row in questions]
    for place, row in enumerate(questions):
        of_model = place < answers
        if dev and not of_model:
            continue
        found = (crag if of_model else crag.corrective)(question=row["question"])
        evidence = found.evidence
        given = [] if dev else [(text, right, "made") for text, right in made(row, evidence, others)]
        if of_model and not is_abstention(found.answer):
            given.append((found.answer, contains_answer(found.answer, row["golds"]), "model"))
        for text, right, source in given:
            judged = check(row["question"], text, evidence)
            yield {
                **{name: row[name] for name in ("id", "article", "question", "golds")},
                "language": language,
                "dev": dev,
                "source": source,
                "answer": text,
                "right": right,
                "signals": dict(judged.signals),
                "why_not": judged.why_not,
                "evidence_score": found.trace.evidence_score,
            }


def fit(rows: list[dict[str, Any]], answer_threshold: float | None) -> CheckWeights:
    """Logistic regression on the training rows that the signals judge."""
    from sklearn.linear_model import LogisticRegression

    known = [row for row in rows if row["signals"] and not row["dev"]]
    inputs = [[row["signals"][name] for name in SIGNALS] for row in known]
    counts = [OF_MODEL if row["source"] == "model" else 1.0 for row in known]
    fitted = LogisticRegression(C=100, max_iter=2000)
    fitted.fit(inputs, [row["right"] for row in known], sample_weight=counts)
    # How many are right differs between what was made and what a model says: the bias is the model's.
    of_model = [row for row in known if row["source"] == "model"]
    logits = [
        [float(np.dot(fitted.coef_[0], [row["signals"][name] for name in SIGNALS]))] for row in of_model
    ]
    level = LogisticRegression(C=1e6).fit(logits, [row["right"] for row in of_model])
    slope = float(level.coef_[0][0])
    weights = {name: round(slope * float(one), 3) for name, one in zip(SIGNALS, fitted.coef_[0], strict=True)}
    return CheckWeights(
        bias=round(float(level.intercept_[0]), 3), answer_threshold=answer_threshold, **weights
    )


def measured(rows: list[dict[str, Any]], weights: CheckWeights) -> dict[str, Any]:
    """AUC and calibration error of some answers, with the 95% interval of draws of whole articles."""
    known = [row for row in rows if row["signals"]]
    sure = np.array([weights.confidence(**row["signals"]) for row in known])
    right = np.array([row["right"] for row in known])
    article = np.array([row["article"] for row in known])
    drawn = np.random.default_rng(0)
    several = []
    for _ in range(1000):
        parts = drawn.choice(np.unique(article), len(np.unique(article)))
        chosen = np.concatenate([np.flatnonzero(article == part) for part in parts])
        several.append(_auc(sure[chosen], right[chosen]))
    edges = np.quantile(sure, np.linspace(0, 1, 11)[1:-1])
    bins = np.digitize(sure, edges)
    gaps = [abs(float(np.sum(sure[bins == b] - right[bins == b]))) for b in np.unique(bins)]
    below = sure < (weights.answer_threshold or 0.0)
    return {
        "answers": len(rows),
        "judged": len(known),
        "right": int(right.sum()),
        "auc": round(_auc(sure, right), 3),
        "auc_95": [round(float(x), 3) for x in np.nanquantile(several, [0.025, 0.975])],
        "ece": round(sum(gaps) / len(known), 3),
        "right_below_cut": int((below & right).sum()),
        "wrong_below_cut": int((below & ~right).sum()),
    }


def _auc(sure: Any, right: Any) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(right, sure)) if 0 < right.sum() < len(right) else float("nan")


def _overlap(span: str, golds: list[str]) -> bool:
    return any(contains_answer(span, gold) or contains_answer(gold, span) for gold in golds)


def _share(identity: str) -> int:
    return int(hashlib.sha256(identity.encode()).hexdigest(), 16)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="answer_check", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", type=Path, metavar="DATASETS", help="a folder with xquad/")
    parser.add_argument("--grader", type=Path, required=True, metavar="FOLDER", help="changed in place")
    parser.add_argument("--rows", type=Path, required=True, metavar="FILE", help="kept, and read where there")
    parser.add_argument("--answers", type=int, default=150, help="of the model, a language and split")
    parser.add_argument("--threshold", type=float, help="answer_threshold, stored with the weights")
    given = parser.parse_args(arguments)
    if not given.rows.is_file():
        grader = T5Grader.from_pretrained(given.grader)
        with dspy.context(lm=local_lm(), adapter=PlainTextAdapter()), given.rows.open("w") as out:
            for dev in (True, False):
                for language in ("en", "zh"):
                    file = given.datasets / f"xquad/xquad.{language}.json"
                    for row in rows_of(file, language, dev, grader, given.answers):
                        out.write(json.dumps(row, ensure_ascii=False) + "\n")
    rows = [json.loads(line) for line in given.rows.read_text(encoding="utf-8").splitlines()]
    weights = fit(rows, given.threshold)
    update_spec(given.grader, check=weights)
    shown: dict[str, Any] = {"weights": weights.model_dump()}
    for language in ("en", "zh"):
        held = [row for row in rows if row["dev"] and row["language"] == language]
        shown[language] = measured(held, weights)
    sys.stdout.write(json.dumps(shown) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
