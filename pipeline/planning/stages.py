"""The stages: which function does the work of each, and what code its results depend on."""

import functools
import re
from collections.abc import Callable

from pike_mixing.finders import FINDERS
from pipeline.data import SOURCES
from pipeline.planning import methods
from pipeline.runtime import code_fingerprint
from pipeline.settings import GRID
from pipeline.tasks import TASKS

STAGES = {
    "download": "pipeline.data.sources:download",
    "tokenizer": "pipeline.data.tokenizer:build",
    "pack": "pipeline.data.packing:pack",
    "fetch": "pipeline.tasks.fetch:fetch",
    "pretrain": "pipeline.training.train:pretrain",
    "mixture": "pipeline.training.find_mixture:find",
    "evaluate": "pipeline.evaluation.evaluate:evaluate",
    "probe": "pipeline.evaluation.gradient_probe:probe",
    "theory": "pipeline.theory.stage:write",
    "database": "pipeline.results.database:build",
    "table": "pipeline.results.tables:write",
    "figure": "pipeline.results.figures:write",
    "report": "pipeline.results.report:write",
}
"""The function that does a stage's work; its code is what the stage's results depend on."""


PARTS: dict[str, Callable[[str], str]] = {
    "download": SOURCES.__getitem__,
    "pretrain": methods.place,
    "mixture": {**FINDERS, GRID: "pipeline.training.find_mixture:find"}.__getitem__,
    "fetch": lambda name: next(p for task, p in TASKS.items() if re.fullmatch(task, name)),
}
"""Stages that do their work by one of several peers, and where a peer of a name is."""

ASSETS = {
    "database": ["results/sql", "paper"],
    "table": ["results/sql"],
    "figure": ["results/sql"],
    "report": ["results/sql", "results/report"],
}
"""Folders of the package whose files decide a stage's result beside its modules."""


@functools.cache
def code(stage: str, part: str | None = None) -> str:
    """Fingerprint of a stage's code.

    Args:
        stage: Name of the stage.
        part: The one of its peers that the stage runs: the rule of a pretraining run, the kind of
            a source.
    """
    places = [STAGES[stage], *([PARTS[stage](part)] if part else [])]
    python = code_fingerprint.of(*(place.partition(":")[0] for place in places))
    return "-".join(
        [python, *(code_fingerprint.of_files(folder) for folder in ASSETS.get(stage, []))]
    )
