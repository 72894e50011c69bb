"""What the commands that improve or measure a program have in common: which program, which questions, which
metric.

Without arguments it is the sample: its knowledge base, web and questions, with a language model in this
process.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.parsing import Listed
from crag_dspy.commands.sealed import seal_cache
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import dspy

    from crag_dspy.optimize.metrics.objective import Objective, Prices

SAMPLE = "sample"


def add_program_arguments(parser: argparse.ArgumentParser) -> None:
    """--config, --program, --lm, --grader, --embedder, --cache."""
    group = parser.add_argument_group("program")
    group.add_argument(
        "--config",
        metavar="FILE",
        help="crag.toml: your retriever, grader, search, lm; default: the sample's parts",
    )
    group.add_argument(
        "--program", metavar="FILE", help="a saved program: begin with its prompts and settings"
    )
    group.add_argument(
        "--lm",
        metavar="MODEL",
        help="what dspy.LM takes, or local; default: that of the configuration, or local",
    )
    group.add_argument(
        "--grader",
        metavar="NAME",
        help="of the sample: mini (default), embedding, lm, a folder, ...",
    )
    group.add_argument(
        "--embedder", metavar="NAME", help="of the sample's indexes; none searches by words (default: mini)"
    )
    group.add_argument(
        "--cache", metavar="FOLDER", help="for the sample's indexes (default: the user's cache folder)"
    )
    group.add_argument("--threads", type=int, default=1, metavar="N", help="questions at a time")


def stop_argument(group: Any) -> None:
    """--stop-after: when an outage ends a run."""
    group.add_argument(
        "--stop-after",
        type=int,
        default=5,
        metavar="N",
        help="end the run when N questions in a row failed; what was answered before is kept (default: 5; 0: never)",
    )


def stop_after(args: argparse.Namespace) -> int | None:
    """The number of --stop-after, None for never."""
    if args.stop_after < 0:
        raise ConfigError(f"--stop-after must be at least 0, got {args.stop_after}")
    return args.stop_after or None


def add_question_arguments(parser: argparse.ArgumentParser, split: str = "dev", *, by: bool = False) -> None:
    """QUESTIONS, --split, --lang, --limit, and --by where results have intervals."""
    group = parser.add_argument_group("questions")
    group.add_argument(
        "questions",
        nargs="?",
        default=SAMPLE,
        metavar="QUESTIONS",
        help="a file (JSONL, CSV, SQuAD, ...) or a set by name (popqa, ...); default: the sample's",
    )
    group.add_argument(
        "--split", metavar="NAME", help=f"of a set or a file that names splits (the sample's: {split})"
    )
    group.add_argument("--lang", metavar="LANG", help="of the sample's questions: en, zh; default: all")
    group.add_argument("--limit", type=int, metavar="N", help="the first N questions")
    if by:
        group.add_argument(
            "--by",
            metavar="FIELD",
            help="of the questions: those with the same are not independent (default: document, relevant_ids, ...)",
        )
    parser.set_defaults(sample_split=split)


def add_metric_arguments(parser: argparse.ArgumentParser) -> None:
    """--metric, --price-search, --price-kilotoken, --price-second."""
    group = parser.add_argument_group("metric")
    group.add_argument(
        "--metric",
        action=Listed,
        metavar="A,B",
        help="contains_word (default), exact_match, token_f1, same_answer, choice_accuracy, claim_accuracy, "
        "grounded, answer_in_evidence, abstention, action_accuracy, contains, or python:module:function; "
        "NAME=WEIGHT,NAME=WEIGHT for a weighted mean",
    )
    for name, what in (("search", "a web search"), ("kilotoken", "1000 LM tokens"), ("second", "a second")):
        group.add_argument(
            f"--price-{name}",
            type=float,
            default=0.0,
            metavar="X",
            help=f"what {what} costs, in units of the metric",
        )


@contextmanager
def opened_program(args: argparse.Namespace) -> Iterator[Any]:
    """The program, with its language model set for what runs inside; without one where --no-lm says so."""
    if args.threads < 1:
        raise ConfigError(f"--threads must be at least 1, got {args.threads}")
    if getattr(args, "no_lm", False):
        from crag_dspy.optimize.comparison.no_lm import without_lm

        yield without_lm(program_alone(args))
        return
    if args.config is None:
        with _sample_program(args) as program:
            yield program
        return
    for name in ("grader", "embedder", "cache"):
        if getattr(args, name) is not None:
            raise ConfigError(f"--{name} is for the sample: with --config, set it in the file")

    from dataclasses import replace
    from pathlib import Path

    from crag_dspy.config.reading import build, language_model, load_config, read_config

    config = load_config(args.config)
    if args.lm:
        table = {"kind": "local"} if args.lm == "local" else {"model": args.lm}
        config = replace(
            config, parts={**config.parts, **read_config({"lm": table}, Path("command line")).parts}
        )
    seal_cache()
    with language_model(config) as lm:
        if lm is None:
            raise ConfigError(
                "no language model: add [lm] to the configuration, or give --lm MODEL (or --lm local)"
            )
        yield build(config, program=args.program)


def program_alone(args: argparse.Namespace) -> Any:
    """The program of --no-lm: as it will be used, but no language model is opened."""
    from crag_dspy.commands.demo_systems import EMBEDDER, sample_crag
    from crag_dspy.config.reading import build, load_config, load_program

    if args.lm is not None:
        raise ConfigError(f"give --lm {args.lm} or --no-lm, not both")
    if args.config is not None:
        return build(load_config(args.config), program=args.program)
    crag = sample_crag(args.grader or "mini", args.embedder or EMBEDDER, args.cache)
    if args.program is not None:
        load_program(crag, args.program)
    return crag


def read_questions(args: argparse.Namespace, *, labelled: bool = True) -> list[dspy.Example]:
    """The questions as examples."""
    if args.limit is not None and args.limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {args.limit}")
    if args.questions != SAMPLE:
        if args.lang is not None:
            raise ConfigError("--lang is for the sample's questions: name a file of one language")
        from crag_dspy.optimize.questions.datasets import load

        return load(args.questions, split=args.split, limit=args.limit, labelled=labelled)

    from crag_dspy import sample
    from crag_dspy.optimize.questions.datasets import from_rows

    try:
        rows = sample.questions(args.split or args.sample_split, args.lang)
    except ValueError as error:  # an unknown split or language, which it names
        raise ConfigError(str(error)) from error
    return from_rows(rows[: args.limit], SAMPLE)


def read_metric(args: argparse.Namespace) -> Objective:
    """The metrics and weights that were asked for, with the prices."""
    from crag_dspy.optimize.metrics.objective import combine

    parts = {}
    default = "answer_in_evidence" if getattr(args, "no_lm", False) else "contains_word"
    for given in args.metric or [default]:
        name, _, weight = given.partition("=")
        try:
            parts[_metric(name)] = float(weight or 1)
        except ValueError as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"--metric {given}: the weight must be a number, got {weight!r}") from error
    return combine(parts, read_prices(args))


def read_prices(args: argparse.Namespace) -> Prices:
    from crag_dspy.optimize.metrics.objective import Prices

    return Prices(search=args.price_search, kilotoken=args.price_kilotoken, second=args.price_second)


def check_target(file: str | None) -> None:
    """Whether a program can be saved there: told before the work that makes it, not after."""
    if file is None:
        return
    from pathlib import Path

    path = Path(file).expanduser()
    if path.suffix != ".json":
        raise ConfigError(f"--out must be a .json file, got {file}")
    if not path.parent.is_dir():
        raise ConfigError(f"--out {file}: there is no folder {path.parent}")


def recorded(args: argparse.Namespace) -> dict[str, Any]:
    """The command line as a run records it."""
    plain = (str, int, float, bool, list, type(None))
    return {name: value for name, value in vars(args).items() if isinstance(value, plain)}


@contextmanager
def _sample_program(args: argparse.Namespace) -> Iterator[Any]:
    from crag_dspy.commands.demo_systems import EMBEDDER, open_systems
    from crag_dspy.config.reading import load_program

    with open_systems(
        args.lm or "local", args.grader or "mini", args.embedder or EMBEDDER, args.cache
    ) as systems:
        if args.program is not None:
            load_program(systems.crag, args.program)
        yield systems.crag


def _metric(name: str) -> Any:
    from crag_dspy.optimize.metrics.answers import METRICS

    if name.startswith("python:"):
        from crag_dspy.live.python_name import imported

        found = imported(name)
        if not callable(found):
            raise ConfigError(
                f"--metric {name} must be a function (example, prediction, trace=None), got {found!r}"
            )
        return found
    if name not in METRICS:
        near = difflib.get_close_matches(name, METRICS, 1)
        raise ConfigError(
            f"--metric {name!r} is unknown: "
            + (f"did you mean {near[0]!r}?" if near else f"use {', '.join(METRICS)}")
        )
    return METRICS[name]
