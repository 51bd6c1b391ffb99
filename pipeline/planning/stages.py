"""The stages: which function does the work of each, and what code its results depend on."""

import functools
import re

from pipeline import fingerprints
from pipeline.data import SOURCES
from pipeline.finders import FINDERS
from pipeline.planning import rules
from pipeline.tasks import TASKS

STAGES = {
    "download": "pipeline.data.sources:download",
    "tokenizer": "pipeline.data.tokenizer:build",
    "pack": "pipeline.data.packing:pack",
    "fetch": "pipeline.tasks.fetch:fetch",
    "pretrain": "pipeline.pretrain:pretrain",
    "mixture": "pipeline.finders.mixture:find",
    "evaluate": "pipeline.evaluation.evaluate:evaluate",
    "probe": "pipeline.probe:probe",
    "theory": "pipeline.theory.stage:write",
    "database": "pipeline.results.database:build",
    "table": "pipeline.results.tables:write",
    "figure": "pipeline.results.figures:write",
    "report": "pipeline.results.report:write",
}
"""The function that does a stage's work; its code is what the stage's results depend on."""


def _of_task(name: str) -> str:
    return next(place for pattern, place in TASKS.items() if re.fullmatch(pattern, name))


PARTS = {
    "download": SOURCES.__getitem__,
    "pretrain": rules.place,
    "mixture": FINDERS.__getitem__,
    "fetch": _of_task,
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
    python = fingerprints.of(*(place.partition(":")[0] for place in places))
    return "-".join([python, *(fingerprints.of_files(folder) for folder in ASSETS.get(stage, []))])
