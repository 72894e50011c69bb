"""How well graders tell relevant texts from irrelevant ones, on labelled pairs (`crag-dspy grader benchmark`).

What a grader could not judge (None) is counted, is wrong for accuracy, and is left out of everything else.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from crag_dspy.contracts import CutGrader, PairsGrader
from crag_dspy.errors import GraderError
from crag_dspy.evaluator_train.measuring import ranking
from crag_dspy.evaluator_train.measuring.reliability import calibration_error
from crag_dspy.evaluator_train.measuring.results import Result, Row
from crag_dspy.evaluator_train.pairs.labels import verdicts
from crag_dspy.state.arguments import check_whole
from crag_dspy.state.files import replacing, write_whole
from crag_dspy.state.plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from crag_dspy.contracts import Grader
    from crag_dspy.evaluator_train.pairs.pair_files import Pair

logger = logging.getLogger(__name__)

CHUNK = 512  # pairs scored between two steps of the progress bar
OWN_CUT = 0.0  # the middle of the scale: as likely relevant as not


def benchmark(grader: Grader, pairs: Sequence[Pair], *, name: str = "", file: str = "") -> Result:
    """Score `pairs` with `grader` and measure it.

    The first pair is scored once before the clock starts, so that loading a model does not count as scoring.

    Args:
        grader: fits `Grader`; `score_pairs`, where it has one, batches pairs of many questions together.
        pairs: with both labels.
        name, file: for the row; the name of the grader itself by default.

    Raises:
        ConfigError: a set with one label only: nothing can be ranked.
        GraderError: the grader breaks its contract, or could judge nothing at all.
    """
    labels = tuple(verdicts(pairs, file or "pairs"))
    _scored(grader, pairs[:1])
    started = time.perf_counter()
    scores = tuple(_scored(grader, pairs, progress=name or grader.name))
    seconds = time.perf_counter() - started
    if all(score is None for score in scores):
        raise GraderError(
            f"grader {grader.name!r} could judge none of {len(pairs)} pairs of {file or 'pairs'}"
        )
    return Result(_row(grader, pairs, scores, seconds, name, file), labels, scores)


def _row(
    grader: Grader,
    pairs: Sequence[Pair],
    scores: Sequence[float | None],
    seconds: float,
    name: str,
    file: str,
) -> Row:
    labels = [int(pair.relevant) for pair in pairs]
    judged = [index for index, score in enumerate(scores) if score is not None]
    known = [labels[index] for index in judged]
    values = [float(score) for score in scores if score is not None]
    cut = float(grader.cut) if isinstance(grader, CutGrader) else OWN_CUT
    both = len(set(known)) == 2
    asked = [pairs[i].question for i in judged]
    low, high = ranking.auc_bounds(known, values, asked) if both else (None, None)
    best, best_cut = ranking.best_accuracy(known, values) if both else (None, None)
    return Row(
        grader=name or grader.name,
        fingerprint=grader.fingerprint,
        file=file,
        pairs=len(pairs),
        relevant=sum(labels),
        auc=ranking.auc(known, values) if both else None,
        auc_low=low,
        auc_high=high,
        average_precision=ranking.average_precision(known, values) if both else None,
        cut=cut,
        accuracy=ranking.accuracy_at(labels, scores, cut),
        best_cut=best_cut,
        best_accuracy=best,
        calibration_error=calibration_error(known, [(value + 1) / 2 for value in values]),
        unjudged=1 - len(judged) / len(pairs),
        pairs_per_second=len(pairs) / max(seconds, 1e-9),
    )


def _scored(grader: Grader, pairs: Sequence[Pair], progress: str = "") -> list[float | None]:
    from tqdm import tqdm

    scores: list[float | None] = [None] * len(pairs)
    hidden = None if progress else True  # None: shown on a terminal only
    with tqdm(
        total=len(pairs), desc=progress, unit="pair", file=sys.stderr, disable=hidden, leave=False
    ) as bar:
        for places, found in _batches(grader, pairs):
            for place, score in zip(places, _checked(grader, found, len(places)), strict=True):
                scores[place] = score
            bar.update(len(places))
    return scores


def _batches(grader: Grader, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], list[float | None]]]:
    if isinstance(grader, PairsGrader):
        for start in range(0, len(pairs), CHUNK):
            chunk = pairs[start : start + CHUNK]
            places = list(range(start, start + len(chunk)))
            yield places, grader.score_pairs([(pair.question, pair.text) for pair in chunk])
        return
    by_question: dict[str, list[int]] = defaultdict(list)
    for place, pair in enumerate(pairs):
        by_question[pair.question].append(place)
    for question, places in by_question.items():
        try:
            yield places, grader.score(question, [pairs[place].text for place in places])
        except GraderError as error:  # one question that a language model refuses must not end the benchmark
            logger.warning("grader %s failed on %r: %s", grader.name, question[:80], error)
            yield places, [None] * len(places)


def _checked(grader: Grader, scores: Sequence[float | None], count: int) -> Sequence[float | None]:
    if len(scores) != count:
        raise GraderError(f"grader {grader.name!r} gave {len(scores)} scores for {count} texts")
    wrong = next((score for score in scores if score is not None and not -1 <= score <= 1), None)
    if wrong is not None:
        raise GraderError(f"grader {grader.name!r} gave the score {wrong!r}: scores are in [-1, 1] or None")
    return scores


def drawn(pairs: Sequence[Pair], limit: int, seed: int = 0) -> list[Pair]:
    """Whole questions, drawn at random until they have `limit` pairs or more, in their order in `pairs`."""
    check_whole("limit", limit)
    questions = list(dict.fromkeys(pair.question for pair in pairs))
    Random(seed).shuffle(questions)
    sizes: dict[str, int] = defaultdict(int)
    for pair in pairs:
        sizes[pair.question] += 1
    chosen: set[str] = set()
    count = 0
    for question in questions:
        if count >= limit:
            break
        chosen.add(question)
        count += sizes[question]
    return [pair for pair in pairs if pair.question in chosen]


def write_results(results: Sequence[Result], folder: Path) -> None:
    """Write rows.jsonl (one line a grader and file), scores.jsonl (one line a pair) and report.html."""
    from crag_dspy.evaluator_train.measuring.benchmark_report import report_html

    folder.mkdir(parents=True, exist_ok=True)
    rows = "".join(json.dumps(plain(result.row)) + "\n" for result in results)
    write_whole(folder / "rows.jsonl", rows)
    with replacing(folder / "scores.jsonl") as part, part.open("w", encoding="utf-8") as out:
        for result in results:
            for number, (label, score) in enumerate(zip(result.labels, result.scores, strict=True), 1):
                line: Mapping[str, Any] = {
                    "grader": result.row.grader,
                    "file": result.row.file,
                    "pair": number,
                    "label": label,
                    "score": score,
                }
                out.write(json.dumps(line) + "\n")
    write_whole(folder / "report.html", report_html(results))
