"""`crag-dspy`: a table of commands. A command's module is imported when that command runs, and not before."""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import logging
import os
import sys
from typing import TYPE_CHECKING, NoReturn

import crag_dspy
from crag_dspy.errors import CragError

if TYPE_CHECKING:
    from collections.abc import Sequence

# command: (module with `add_arguments(parser)` and `run(args) -> exit status`, what it does)
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("crag_dspy.commands.demo", "answer sample questions offline, and show how"),
    "ask": ("crag_dspy.commands.ask", "answer your questions from your documents"),
    "index": ("crag_dspy.commands.index", "build or update an index on disk"),
    "doctor": ("crag_dspy.commands.doctor", "say what is configured, installed and missing; sends nothing"),
    "thresholds": (
        "crag_dspy.commands.thresholds",
        "find the best thresholds on your questions, exactly",
    ),
    "compile": (
        "crag_dspy.commands.compile",
        "improve the prompts by your questions; says if it helped",
    ),
    "compare": (
        "crag_dspy.commands.compare",
        "measure no retrieval, RAG, CRAG and others side by side",
    ),
    "robustness": (
        "crag_dspy.commands.robustness",
        "how the systems hold up as retrieval gets worse",
    ),
    "make-benchmark": (
        "crag_dspy.commands.make_benchmark",
        "make a benchmark with a web out of a SQuAD file",
    ),
    "paper-data": (
        "crag_dspy.commands.paper_data",
        "read the paper's own data, and refine its passages beside it",
    ),
    "report": ("crag_dspy.commands.report", "write the page of a run: one file, no server"),
    "make-pairs": (
        "crag_dspy.evaluator_train.pairs.weak_labels",
        "label question-text pairs to train a grader on",
    ),
    "public-pairs": (
        "crag_dspy.evaluator_train.mini.public_pairs",
        "labelled pairs out of the published sets, split so that nothing leaks",
    ),
    "near-pairs": (
        "crag_dspy.evaluator_train.pairs.near",
        "find near texts for questions, for a teacher to judge",
    ),
    "soften-pairs": ("crag_dspy.evaluator_train.pairs.soften", "let a teacher give pairs soft labels"),
    "train-grader": (
        "crag_dspy.evaluator_train.training.grader",
        "train a T5 grader, with LoRA or all weights",
    ),
    "calibrate-grader": (
        "crag_dspy.evaluator_train.measuring.calibration",
        "make a grader's scores probabilities, and suggest thresholds",
    ),
    "distil-base": ("crag_dspy.evaluator_train.mini.distil", "make a small T5 out of a sentence encoder"),
    "merge-grader": ("crag_dspy.evaluator_train.training.merge", "fold a LoRA adapter into its base"),
    "benchmark-grader": (
        "crag_dspy.evaluator_train.measuring.benchmarking",
        "compare graders on labelled pairs",
    ),
    "time-grader": (
        "crag_dspy.evaluator_train.measuring.speed",
        "measure how fast a grader is on this machine",
    ),
}

OK, FAILED, INTERRUPTED, BROKEN_PIPE = 0, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns its exit status. What a user can mend (a `CragError`, a file that cannot be read) is one line on stderr
    and status 2, an interruption is 130, and a reader that went away (`| head`) ends the command quietly.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):  # a terminal without Unicode shows escapes, and nothing crashes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    debug = "--debug" in arguments
    _log_to_stderr(debug)
    try:
        try:
            args = parser(arguments).parse_args(arguments)
            return int(importlib.import_module(COMMANDS[args.command][0]).run(args))
        finally:  # now, where a reader that went away is noticed
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (CragError, OSError) as error:
        if debug:
            raise
        sys.stderr.write(f"crag-dspy: {_one_line(error)}\n")
        return FAILED


class _Parser(argparse.ArgumentParser):
    """A wrong command line also names the nearest command."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"{self.prog}: {message}\n")


def parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all commands; only the chosen one has its arguments, because only its module is imported."""
    top = _Parser(
        prog="crag-dspy",
        description="Corrective RAG: answers whose evidence was graded, corrected and refined.",
        epilog="crag-dspy COMMAND --help explains a command.",
    )
    top.add_argument("--version", action="version", version=f"crag-dspy {crag_dspy.__version__}")
    top.add_argument("--debug", action="store_true", help="show tracebacks and the log")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    if chosen is not None and chosen not in COMMANDS:
        near = difflib.get_close_matches(chosen, COMMANDS, 1)
        top.error(
            f"no command {chosen!r}: "
            + (f"did you mean {near[0]!r}?" if near else f"use {', '.join(COMMANDS)}")
        )
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
        )
        command.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        if name == chosen:
            importlib.import_module(module).add_arguments(command)
    return top


def _log_to_stderr(debug: bool) -> None:
    """Answers go to stdout and everything else to stderr; other libraries' chatter only with --debug."""
    logging.basicConfig(
        level=logging.INFO if debug else logging.ERROR, format="%(levelname)s: %(message)s", stream=sys.stderr
    )
    logging.getLogger("crag_dspy").setLevel(logging.INFO if debug else logging.WARNING)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
