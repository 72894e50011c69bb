"""The folder of a compilation: what an interrupted one left, and what a finished one leaves.

config.json, metrics.json, program.json, report.html    as of every run; program.json is the one that is kept
candidate.json                                          the new program, whether or not it is kept
before/, after/                                         evaluations on the held-out questions
thresholds-1/, ...                                      outcomes and thresholds of each turn
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.prompts.job import CompileJob
from crag_dspy.optimize.prompts.predictors import with_models_of
from crag_dspy.optimize.runs.fingerprints import devset_digest, digest, metric_identity, program_identity
from crag_dspy.optimize.runs.folder import METRICS, PROGRAM, Run, pretty
from crag_dspy.state.files import write_whole
from crag_dspy.state.saving import save_whole

if TYPE_CHECKING:
    import dspy

CANDIDATE = "candidate.json"


@contextmanager
def opened(job: CompileJob, optimizer: str) -> Iterator[Run]:
    """The run of a job. Raises `StaleOutcomesError` when the folder has that of another one."""
    given = job.arguments
    folder = given.folder
    identity = {
        **program_identity(job.program),
        **metric_identity(job.metric),
        "optimizer": optimizer,
        "options": digest({name: repr(value) for name, value in given.options.items()}),
        "predictors": ", ".join(job.names),
        "alternate": str(given.alternate),
        "seed": str(given.seed),
        "trainset": devset_digest(job.division.train),
        "valset": devset_digest(job.division.val),
    }
    config = {"optimizer": optimizer, "predictors": job.names, "metric": metric_name(job.metric)}
    data = {"heldout": devset_digest(job.division.held), "questions": job.division.sizes}
    with Run.open(
        folder, "compile", identity, config=config, seed=given.seed, data=data, fresh=given.fresh
    ) as run:
        if given.fresh and folder is not None:
            (folder / CANDIDATE).unlink(missing_ok=True)
            for part in (folder / "before", folder / "after", *folder.glob("thresholds-*")):
                shutil.rmtree(part, ignore_errors=True)
        yield run


def stored_candidate(folder: Path | None, program: dspy.Module) -> dspy.Module | None:
    """What the optimizer had made before the run was interrupted."""
    path = folder / CANDIDATE if folder is not None else None
    if path is None or not path.exists():
        return None
    made = program.deepcopy()
    made._compiled = False
    made.load(str(path))
    return with_models_of(made, program)


def store_candidate(folder: Path | None, made: dspy.Module) -> None:
    if folder is not None:  # without models: those that have an engine of their own cannot be saved
        save_whole(with_models_of(made, None), folder / CANDIDATE)


def finish(folder: Path | None, program: dspy.Module, summary: Mapping[str, Any]) -> None:
    """Write the program that is kept, and the summary."""
    if folder is None:
        return
    try:
        save_whole(program, folder / PROGRAM)
    except TypeError:  # DSPy cannot save a model whose engine does not say how
        save_whole(with_models_of(program, None), folder / PROGRAM)
    write_whole(folder / METRICS, pretty(dict(summary)))
