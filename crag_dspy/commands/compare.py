"""`crag-dspy compare`: systems side by side, on the same questions, with the same language model.

crag-dspy compare                                          # the sample's dev questions: no retrieval, RAG, CRAG
crag-dspy compare bench/questions.test.jsonl --config bench/crag.toml --run runs/bench \\
    --systems rag,rag:5,crag,none,selfrag,selfcrag --limit 100 --limit-slow 30
crag-dspy compare popqa.jsonl --task short --task claim:pubhealth.jsonl --config crag.toml
crag-dspy compare bench/questions.test.jsonl --config bench/crag.toml --graders mini,embedding,lm
crag-dspy compare bench/questions.test.jsonl --config bench/crag.toml --no-lm --tune-on bench/questions.dev.jsonl

The estimate comes first; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.commands import side_by_side
from crag_dspy.commands.options import (
    opened_program,
    read_metric,
    read_questions,
    stop_after,
)
from crag_dspy.commands.output import answer, answer_json, note
from crag_dspy.commands.parsing import Listed
from crag_dspy.commands.paying import paying
from crag_dspy.commands.side_by_side import probes_of, tell_estimates
from crag_dspy.commands.status import OK, SOME_FAILED
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import dspy

    from crag_dspy.optimize.comparison.table import Comparison

EXAMPLE = "crag-dspy compare bench/questions.test.jsonl --config bench/crag.toml --systems rag,crag"
SYSTEMS = ("none", "rag", "crag")
EVIDENCE_SYSTEMS = (
    *("rag:1", "rag:3", "rag:5", "both:1", "both:3", "both:5"),
    *("words:3", "words:5", "embedding:3", "embedding:5", "mixed:3", "mixed:5", "crag"),
)  # of --no-lm
LM_ALONE = ("none", "selfrag", "selfcrag")
RUN = "runs/compare"
TABLES = "comparison.md"


@dataclass(frozen=True)
class TaskQuestions:
    """Questions of one task, how they are answered (None: as the program does) and where the answers are kept."""

    name: str
    task: str | None
    examples: Sequence[dspy.Example]
    run: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = side_by_side.add_arguments(parser, SYSTEMS, RUN, "of intervals and tests")
    group.add_argument(
        "--task",
        action=Listed,
        metavar="A,B",
        help="short, claim, choice or long: sets generator and metric; TASK:FILE is another task on its questions",
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
        action=Listed,
        of=int,
        default=[0],
        metavar="A,B",
        help="ask everything so often, as other samples of the language model; needs a temperature",
    )
    group.add_argument("--temperature", type=float, metavar="T", help="of the language model")
    group.add_argument(
        "--graders",
        action=Listed,
        metavar="A,B",
        help="compare graders instead, by the actions they trigger on the same passages: "
        "mini, embedding, lm, a folder, ...",
    )
    group.add_argument(
        "--tune-on",
        metavar="FILE",
        help="questions on which other graders' thresholds are found, and below which score the best sentences "
        "decline (each such system then comes without and with); never the same ones",
    )
    side_by_side.no_lm_argument(group)


def run(args: argparse.Namespace) -> int:
    """Compare; returns 0, and 1 when some questions failed and count as failures."""
    from crag_dspy.commands.compare_tuned import print_graders, sentence_cuts, tuned_thresholds
    from crag_dspy.optimize.comparison.systems import systems_of

    wanted, seeds = _wanted(args), args.seeds
    asked = list(_tasks(args))
    with opened_program(args) as program, _at_temperature(args.temperature), paying(args):
        if args.graders is not None:
            return print_graders(args, program, args.graders, asked[0].examples)
        tuned = tuned_thresholds(
            args, program, wanted, [example for one in asked for example in one.examples]
        )
        cuts = sentence_cuts(args, program, wanted, [example for one in asked for example in one.examples])
        jobs = []
        for one in asked:
            crag = program if one.task is None else _task(one.task).program(program)
            jobs.append((one, systems_of(crag, wanted, tuned, cuts), _metric(args, one, program)))
        if not _estimated(args, jobs, seeds):
            return 0
        compared = {one.name: _compare(args, one, systems, metric, seeds) for one, systems, metric in jobs}
    _print(args, compared)
    note(f"Kept in {args.run}: open {asked[0].run}/report.html")
    return SOME_FAILED if any(found.failures for found in compared.values()) else OK


def _wanted(args: argparse.Namespace) -> Sequence[str]:
    """The names of the systems; without a language model the baselines that need none."""
    if not args.no_lm:
        return list(args.systems)
    if args.task or args.graders is not None or args.judge is not None:
        raise ConfigError("--no-lm judges evidence: leave out --task, --graders and --judge")
    if list(args.systems) == list(SYSTEMS):
        return EVIDENCE_SYSTEMS
    if wrong := [name for name in args.systems if name.partition(":")[0] in LM_ALONE]:
        raise ConfigError(f"--no-lm: {wrong[0]!r} is a way to use a language model: leave it out")
    return list(args.systems)


def _tasks(args: argparse.Namespace) -> Iterator[TaskQuestions]:
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
        yield TaskQuestions(
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
        yield TaskQuestions(name, task, read_questions(questions), top / name)


def _task(name: str) -> Any:
    from crag_dspy.optimize.metrics.tasks import TASKS

    return TASKS[name]


def _metric(args: argparse.Namespace, one: TaskQuestions, program: Any) -> Any:
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
    args: argparse.Namespace, one: TaskQuestions, systems: Mapping[str, Any], seeds: Sequence[int]
) -> dict[str, Any]:
    from crag_dspy.optimize.comparison.systems import SLOW

    slow = {} if args.limit_slow is None else dict.fromkeys(SLOW, args.limit_slow)
    limits = {name: n for name, n in slow.items() if name in systems}
    return {"limits": limits, "seeds": seeds, "run": one.run}


def _compare(
    args: argparse.Namespace,
    one: TaskQuestions,
    systems: Mapping[str, Any],
    metric: Any,
    seeds: Sequence[int],
    first: int | None = None,
) -> Comparison:
    import dspy

    from crag_dspy.commands.demo_systems import token_counter
    from crag_dspy.optimize.comparison.comparing import compare
    from crag_dspy.optimize.metrics.measures import never_unsupported

    count, unit = token_counter(None if args.no_lm else dspy.settings.lm)
    task = None if one.task is None else _task(one.task)
    support = {} if task is None else {"support": task.support}
    if args.no_lm:
        support = {"support": never_unsupported}
    return compare(
        systems,
        one.examples[:first],
        metric,
        count_tokens=count,
        unit=unit,
        threads=args.threads,
        stop_after=stop_after(args),
        seed=args.seed,
        fresh=args.fresh and (first is not None or not probes_of(args)),  # the probe's answers count
        by=args.by,
        report=first is None,  # two questions must not take the place of a finished comparison
        **support,
        **_options(args, one, systems, seeds),
    )


def _estimated(
    args: argparse.Namespace,
    jobs: Sequence[tuple[TaskQuestions, Mapping[str, Any], Any]],
    seeds: Sequence[int],
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
    return tell_estimates(args, found)


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
        answer_json(plain if several else next(iter(plain.values())))
    elif args.markdown:
        answer(tables)
    else:
        texts = [(f"{name}: " if several else "") + str(found) for name, found in compared.items()]
        answer("\n\n".join(texts))


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
