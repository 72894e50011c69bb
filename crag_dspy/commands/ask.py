"""`crag-dspy ask`: questions in, answers with their evidence out.

crag-dspy ask "How long is the bridge?" --config crag.toml
crag-dspy ask "How long is the bridge?" --index my-index --lm openai/gpt-4o-mini
crag-dspy ask --config crag.toml --json < questions.txt

The exit status is 0 when every question was answered or declined, and 1 when some failed: the language model could not
be reached, refused, or wrote nothing that can be read. 2 is for what you can mend before: a missing file or part.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.output import answer_json, note, show
from crag_dspy.commands.sealed import seal_cache
from crag_dspy.commands.status import OK, SOME_FAILED
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from crag_dspy.config.reading import Config

EXAMPLE = 'crag-dspy ask "How long is the bridge?" --config crag.toml'
ACTIONS = ("correct", "incorrect", "ambiguous")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "questions",
        nargs="*",
        metavar="QUESTION",
        help="each in quotes; without any, one is read from each line of stdin",
    )
    parser.add_argument("--config", metavar="FILE", help="crag.toml: retriever, grader, search, lm, settings")
    parser.add_argument("--program", metavar="FILE", help="a saved program: its prompts and settings")
    parser.add_argument(
        "--index", metavar="FOLDER", help="retrieve from this index (crag-dspy index makes one)"
    )
    parser.add_argument(
        "--lm", metavar="MODEL", help="what dspy.LM takes, such as openai/gpt-4o-mini; or local"
    )
    parser.add_argument("--action", choices=ACTIONS, help="take this branch, whatever the grader says")
    parser.add_argument("--json", action="store_true", help="one JSON object a question")


def run(args: argparse.Namespace) -> int:
    """Answer every question; returns 0 also when the answer is that the evidence is not there, 1 when some failed."""
    asked, failed = 0, 0
    questions = _questions(args.questions)
    config = _configured(args)

    from crag_dspy.config.reading import build, language_model

    seal_cache()
    with language_model(config) as lm:
        if lm is None:
            raise ConfigError(
                "no language model: add [lm] to the configuration, or give --lm MODEL (or --lm local)"
            )
        crag = build(config, program=args.program)
        for question in questions:
            prediction = crag(question=question, action=args.action)
            if args.json:
                answer_json(_plain(question, prediction))
            else:
                show(prediction.trace.tree())
            asked += 1
            if prediction.failed is not None:
                failed += 1
                note(f"crag-dspy: {question!r} failed: {prediction.failed}")
    if failed and asked > 1:
        note(f"crag-dspy: {failed} of {asked} questions failed")
    return SOME_FAILED if failed else OK


def _plain(question: str, prediction: Any) -> dict[str, Any]:
    return {
        "question": question,
        "answer": prediction.answer,
        "failed": prediction.failed,
        "action": prediction.action.value,
        "grounded": prediction.grounded,
        "confidence": prediction.confidence,
        "supported_by": [place.to_json() for place in prediction.supported_by],
        "evidence": [strip.to_json() for strip in prediction.evidence],
        "knowledge": prediction.knowledge,
        "queries": prediction.queries,
        "warnings": prediction.warnings,
        "trace": prediction.trace.to_json(),
    }


def _questions(given: list[str]) -> Iterator[str]:
    if len(given) > 1 and not any(len(words.split()) > 1 or not words.isascii() for words in given):
        raise ConfigError(
            f'{len(given)} questions of one word each: put a question in quotes, "{" ".join(given)}"'
        )
    if any(not question.strip() for question in given):
        raise ConfigError("a question is empty")
    if given:
        return iter(given)
    if sys.stdin.isatty():
        note("One question a line; Ctrl-D ends.")
    # A line at a time, so that a conversation over a pipe gets each answer before its next question.
    return (line.strip() for line in iter(sys.stdin.readline, "") if line.strip())


def _configured(args: argparse.Namespace) -> Config:
    """The configuration of the file, with what the command line says in its place."""
    from crag_dspy.config.reading import Config, load_config, read_config

    config = load_config(args.config) if args.config else Config()
    given: dict[str, Any] = {}
    if args.index:
        given["retriever"] = {"kind": "local", "path": str(Path(args.index).absolute())}
    if args.lm:
        given["lm"] = {"kind": "local"} if args.lm == "local" else {"model": args.lm}
    parts = {**config.parts, **read_config(given, Path("command line")).parts}
    if "retriever" not in parts:
        here = " (there is a crag.toml here: --config crag.toml)" if Path("crag.toml").is_file() else ""
        raise ConfigError(
            f"nothing to retrieve from: give --config FILE with a [retriever], or --index FOLDER{here}"
        )
    return replace(config, parts=parts)
