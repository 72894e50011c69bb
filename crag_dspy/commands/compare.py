"""`crag-dspy compare`: systems side by side, on the same questions, with the same language model.

crag-dspy compare                                          # the sample's dev questions: no retrieval, RAG, CRAG
crag-dspy compare bench/questions.test.jsonl --config bench/crag.toml --run runs/bench \\
    --systems rag,rag:5,crag,none,selfrag,selfcrag --limit 100 --limit-slow 30
crag-dspy compare popqa.jsonl --task short --task claim:pubhealth.jsonl --config crag.toml
crag-dspy compare bench/questions.test.jsonl --config bench/crag.toml --graders mini,embedding,lm

The estimate comes first; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.options import (
    add_metric_arguments,
    add_program_arguments,
    add_question_arguments,
    opened_program,
    read_metric,
    read_questions,
)
from crag_dspy.commands.paying import add_paying_arguments, paying
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import dspy

    from crag_dspy.optimize.comparison.table import Comparison

EXAMPLE = "crag-dspy compare bench/questions.test.jsonl --config bench/crag.toml --systems rag,crag"
SYSTEMS = "none,rag,crag"
RUN = "runs/compare"
TABLES = "comparison.md"


@dataclass(frozen=True)
class Asked:
    """Questions of one task, how they are answered (None: as the program does) and where the answers are kept."""

    name: str
    task: str | None
    examples: Sequence[dspy.Example]
    run: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question_arguments(parser, split="dev", by=True)
    add_program_arguments(parser)
    add_metric_arguments(parser)
    add_paying_arguments(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--systems",
        default=SYSTEMS,
        metavar="A,B",
        help="none, rag, rag:N (on N passages), crag, selfrag, selfcrag, ablations, graders, or one of these such as "
        f"without-rewriting; the others are compared with the first (default: {SYSTEMS})",
    )
    group.add_argument(
        "--task",
        action="append",
        metavar="TASK[:FILE]",
        help="short, claim, choice or long: sets generator and metric; with a file, another task on its questions",
    )
    group.add_argument(
        "--judge",
        metavar="MODEL",
        help="of long answers: FActScore by this model (what dspy.LM takes, or local for that of the program), against "
        "the questions' own passages or the knowledge base; without it, the share of their words in the evidence",
    )
    group.add_argument(
        "--limit-slow",
        type=int,
        metavar="N",
        help="Self-RAG and Self-CRAG are asked the first N questions only, and compared with all on these",
    )
    group.add_argument(
        "--seeds",
        default="0",
        metavar="A,B",
        help="ask everything so often, as other samples of the language model; needs a temperature (default: 0)",
    )
    group.add_argument("--temperature", type=float, metavar="T", help="of the language model")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of intervals and tests (default: 0)")
    group.add_argument("--run", default=RUN, metavar="FOLDER", help=f"keeps the answers (default: {RUN})")
    group.add_argument("--fresh", action="store_true", help="throw away what the folder has")
    group.add_argument(
        "--probe",
        type=int,
        metavar="N",
        help="ask every system N questions before the estimate; they count (default: 2, and 0 with --dry-run)",
    )
    group.add_argument("--dry-run", action="store_true", help="print the estimate and stop")
    group.add_argument(
        "--graders",
        metavar="A,B",
        help="compare graders instead, by the actions they trigger on the same passages: mini, embedding, lm, a folder",
    )
    group.add_argument(
        "--tune-on",
        metavar="FILE",
        help="questions on which other graders' thresholds are found; never the same ones",
    )
    group.add_argument("--markdown", action="store_true", help="print the tables for a README")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def run(args: argparse.Namespace) -> int:
    """Compare; returns 0."""
    from crag_dspy.commands.compare_graders import print_graders, tuned_thresholds
    from crag_dspy.optimize.comparison.systems import systems_of

    wanted = read_names("--systems", args.systems)
    seeds = read_numbers("--seeds", args.seeds)
    asked = list(_tasks(args))
    with opened_program(args) as program, _at_temperature(args.temperature), paying(args):
        if args.graders is not None:
            return print_graders(args, program, read_names("--graders", args.graders), asked[0].examples)
        tuned = tuned_thresholds(
            args, program, wanted, [example for one in asked for example in one.examples]
        )
        jobs = []
        for one in asked:
            crag = program if one.task is None else _task(one.task).program(program)
            jobs.append((one, systems_of(crag, wanted, tuned), _metric(args, one, program)))
        if not _estimated(args, jobs, seeds):
            return 0
        compared = {one.name: _compare(args, one, systems, metric, seeds) for one, systems, metric in jobs}
    _print(args, compared)
    sys.stderr.write(f"Kept in {args.run}: open {asked[0].run}/report.html\n")
    return 0


def read_names(option: str, given: str) -> list[str]:
    """Names with commas between, at least one."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise ConfigError(f"{option} is empty: write names with commas between")
    return names


def read_numbers(option: str, given: str) -> list[int]:
    """Whole numbers with commas between."""
    try:
        return [int(part) for part in given.split(",")]
    except ValueError as error:
        raise ConfigError(f"{option} must be whole numbers with commas between, got {given!r}") from error


def _tasks(args: argparse.Namespace) -> Iterator[Asked]:
    from crag_dspy.optimize.metrics.tasks import read_task

    given = [read_task(one) for one in args.task or []]
    own = [task for task, file in given if file is None]
    files = [(task, file) for task, file in given if file is not None]
    if len(own) > 1:
        raise ConfigError(
            f"--task {own[1]}: QUESTIONS are of one task; write --task {own[1]}:FILE for another"
        )
    if files and args.metric:
        raise ConfigError("--metric is of one task: with several, each has its own metric")
    top = Path(args.run)
    alone = not files
    names: set[str] = set()
    if own or alone or args.questions != "sample":
        task = own[0] if own else None
        yield Asked(
            task or "questions", task, read_questions(args), top if alone else top / (task or "questions")
        )
    for task, file in files:
        name = f"{task}-{Path(file).stem}"
        if name in names:
            raise ConfigError(
                f"--task {task}:{file}: two files would be kept as {name!r}: rename one of them"
            )
        names.add(name)
        questions = argparse.Namespace(**{**vars(args), "questions": file, "lang": None})
        yield Asked(name, task, read_questions(questions), top / name)


def _task(name: str) -> Any:
    from crag_dspy.optimize.metrics.tasks import TASKS

    return TASKS[name]


def _metric(args: argparse.Namespace, one: Asked, program: Any) -> Any:
    """What answers are judged by: --metric, the task's own, or FActScore where there is a judge for long ones."""
    from crag_dspy.optimize.metrics.answers import METRICS

    if one.task is None or args.metric:
        return read_metric(args)
    if one.task != "long" or args.judge is None:
        return METRICS[_task(one.task).metric]

    import dspy

    from crag_dspy.optimize.metrics.factscore import FactScore

    own = all(example.get("passages") or example.get("context") for example in one.examples)
    judge = dspy.settings.lm if args.judge == "local" else dspy.LM(args.judge)
    return FactScore(judge, None if own else program.corrective.retrieve.part)


def _options(
    args: argparse.Namespace, one: Asked, systems: Mapping[str, Any], seeds: Sequence[int]
) -> dict[str, Any]:
    from crag_dspy.optimize.comparison.systems import SLOW

    slow = {} if args.limit_slow is None else dict.fromkeys(SLOW, args.limit_slow)
    limits = {name: n for name, n in slow.items() if name in systems}
    return {"limits": limits, "seeds": seeds, "run": one.run}


def _compare(
    args: argparse.Namespace,
    one: Asked,
    systems: Mapping[str, Any],
    metric: Any,
    seeds: Sequence[int],
    first: int | None = None,
) -> Comparison:
    import dspy

    from crag_dspy.commands.demo_systems import token_counter
    from crag_dspy.optimize.comparison.comparing import compare

    count, unit = token_counter(dspy.settings.lm)
    task = None if one.task is None else _task(one.task)
    support = {} if task is None else {"support": task.support}
    return compare(
        systems,
        one.examples[:first],
        metric,
        count_tokens=count,
        unit=unit,
        threads=args.threads,
        seed=args.seed,
        fresh=args.fresh and (first is not None or not probes_of(args)),  # the probe's answers count
        by=args.by,
        report=first is None,  # two questions must not take the place of a finished comparison
        **support,
        **_options(args, one, systems, seeds),
    )


def probes_of(args: argparse.Namespace) -> int:
    """How many questions are asked before the estimate."""
    given = args.probe if args.probe is not None else 0 if args.dry_run else 2
    if given < 0:
        raise ConfigError(f"--probe must be at least 0, got {given}")
    return int(given)


def _estimated(
    args: argparse.Namespace, jobs: Sequence[tuple[Asked, Mapping[str, Any], Any]], seeds: Sequence[int]
) -> bool:
    """Print the estimate; whether to go on."""
    from crag_dspy.optimize.comparison.estimating import estimate_comparison

    found = []
    for one, systems, metric in jobs:
        if n := probes_of(args):
            _compare(args, one, systems, metric, seeds, n)
        options = _options(args, one, systems, seeds)
        if args.fresh and not probes_of(args):  # what is there will be thrown away
            options["run"] = None
        estimate = estimate_comparison(systems, one.examples, **options)
        found.append((one.name, estimate))
    out = sys.stdout if args.dry_run else sys.stderr
    if args.dry_run and args.json:
        out.write(json.dumps({name: estimate.to_json() for name, estimate in found}) + "\n")
    else:
        for name, estimate in found:
            out.write((f"{name}: " if len(found) > 1 else "") + f"{estimate}\n")
    return not args.dry_run


def _print(args: argparse.Namespace, compared: Mapping[str, Comparison]) -> None:
    """To stdout, and the tables into the folder."""
    from crag_dspy.state.files import write_whole

    several = len(compared) > 1
    tables = "\n\n".join(
        (f"### {name}\n\n" if several else "") + found.markdown() for name, found in compared.items()
    )
    write_whole(Path(args.run).expanduser() / TABLES, tables + "\n")
    if args.json:
        plain = {name: found.to_json() for name, found in compared.items()}
        sys.stdout.write(
            json.dumps(plain if several else next(iter(plain.values())), ensure_ascii=False) + "\n"
        )
    elif args.markdown:
        sys.stdout.write(tables + "\n")
    else:
        texts = [(f"{name}: " if several else "") + str(found) for name, found in compared.items()]
        sys.stdout.write("\n\n".join(texts) + "\n")


@contextmanager
def _at_temperature(temperature: float | None) -> Iterator[None]:
    import dspy

    if temperature is None:
        yield
        return
    if not 0 <= temperature <= 2:
        raise ConfigError(f"--temperature must be between 0 and 2, got {temperature}")
    with dspy.context(lm=dspy.settings.lm.copy(temperature=temperature)):
        yield
