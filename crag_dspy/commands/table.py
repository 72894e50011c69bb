"""The table of commands: every line of `crag-dspy --help`, and what stands behind it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Args:
        module: of `crag_dspy.commands`, with `add_arguments(parser)`, `run(args) -> exit status` and `EXAMPLE`. It is
            imported when the command is asked for, and not before.
        does: for the command's own help.
    """

    module: str
    does: str


# What a line of the help says -> its commands. "grader train" is the command `train` of the group `grader`.
LINES: dict[str, dict[str, Command]] = {
    "see it work on the sample; what is configured and what is missing": {
        "demo": Command("demo", "answer sample questions offline, and show how"),
        "doctor": Command("doctor", "say what is configured, installed and missing; sends nothing"),
    },
    "your documents on disk; answers from them, with their evidence": {
        "index": Command("index", "build or update an index on disk, or move one to Weaviate"),
        "ask": Command("ask", "answer your questions from your documents"),
    },
    "better thresholds and prompts, learned from your questions": {
        "thresholds": Command("thresholds", "find the best thresholds on your questions, exactly"),
        "compile": Command("compile", "improve the prompts by your questions; says if it helped"),
    },
    "systems side by side; the same as retrieval gets worse": {
        "compare": Command("compare", "measure no retrieval, RAG, CRAG and others side by side"),
        "robustness": Command("robustness", "how the systems hold up as retrieval gets worse"),
    },
    "a benchmark with a web out of a SQuAD file; the page of a run": {
        "make-benchmark": Command("make_benchmark", "make a benchmark with a web out of a SQuAD file"),
        "report": Command("report", "write the page of a run: one file, no server"),
    },
    "the passages' grader: make pairs, train, merge, calibrate, benchmark, time": {
        "grader pairs": Command(
            "grader.pairs", "question-text pairs to train a grader on, labelled or taught"
        ),
        "grader train": Command("grader.train", "train a T5 grader, with LoRA or all weights"),
        "grader merge": Command("grader.merge", "fold a LoRA adapter into its base"),
        "grader calibrate": Command(
            "grader.calibrate", "make a grader's scores probabilities, and suggest thresholds"
        ),
        "grader benchmark": Command("grader.benchmark", "compare graders on labelled pairs"),
        "grader time": Command("grader.time", "measure how fast a grader is on this machine"),
    },
}
COMMANDS = {name: command for line in LINES.values() for name, command in line.items()}

# Commands of earlier versions, and what does their work now.
RENAMED = {
    "make-pairs": "grader pairs",
    "near-pairs": "grader pairs --near",
    "soften-pairs": "grader pairs --teacher NAME",
    "train-grader": "grader train",
    "calibrate-grader": "grader calibrate",
    "benchmark-grader": "grader benchmark",
    "merge-grader": "grader merge",
    "time-grader": "grader time",
}
SCRIPTS = {
    "public-pairs": "python -m crag_dspy.evaluator_train.mini.public_pairs",
    "distil-base": "python -m crag_dspy.evaluator_train.mini.distil",
    "paper-data": "CRAG_DATASETS=FOLDER python -m pytest -m datasets",
}


def members(group: str) -> dict[str, Command]:
    """The commands of a group by their second word; empty where it is none."""
    return {
        name.partition(" ")[2]: command for name, command in COMMANDS.items() if name.startswith(f"{group} ")
    }


def first_words() -> list[str]:
    """What may follow `crag-dspy`."""
    return list(dict.fromkeys(name.partition(" ")[0] for name in COMMANDS))


def overview() -> str:
    """`crag-dspy --help`: a line for commands that belong together, whatever their number."""
    rows = [
        (", ".join(dict.fromkeys(name.partition(" ")[0] for name in commands)), does)
        for does, commands in LINES.items()
    ]
    width = max(len(names) for names, _ in rows)
    lines = [f"  {names:{width}}  {does}" for names, does in rows]
    return "\n".join(
        [
            "usage: crag-dspy [--version] [--debug] COMMAND ...",
            "",
            "Corrective RAG: answers whose evidence was graded, corrected and refined.",
            "",
            *lines,
            "",
            "crag-dspy COMMAND --help explains a command, with an example. --debug shows tracebacks and the log.",
        ]
    )


def group_overview(group: str) -> str:
    """`crag-dspy grader --help`."""
    commands = members(group)
    width = max(map(len, commands))
    lines = [f"  {name:{width}}  {command.does}" for name, command in commands.items()]
    return "\n".join(
        [
            f"usage: crag-dspy {group} COMMAND ...",
            "",
            *lines,
            "",
            f"crag-dspy {group} COMMAND --help explains a command, with an example.",
        ]
    )
