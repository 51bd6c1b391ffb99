"""The stages: which function does the work of each, and what code its results depend on."""

import functools
from collections.abc import Callable
from typing import NamedTuple

from pike_mixing.finders import FINDERS
from pipeline.data import SOURCES
from pipeline.planning import methods
from pipeline.runtime import code_fingerprint
from pipeline.settings import GRID

STAGES = {
    "download": "pipeline.data.sources:download_source",
    "tokenizer": "pipeline.data.tokenizer:build_tokenizer",
    "pack": "pipeline.data.packing:pack_corpus",
    "fetch": "pipeline.tasks.fetch:fetch_tasks",
    "pretrain": "pipeline.training.train:pretrain",
    "mixture": "pipeline.training.find_mixture:find_mixture",
    "evaluate": "pipeline.evaluation.evaluate:evaluate_chosen_checkpoints",
    "probe": "pipeline.evaluation.gradient_similarities:probe_gradients",
    "theory": "pipeline.theory.stage:write_theory_records",
    "database": "pipeline.results.database:build_database",
    "table": "pipeline.results.tables:write_table",
    "figure": "pipeline.results.figures:write_figure",
    "article": "pipeline.results.article:write_article",
    "report": "pipeline.results.report:write_report",
}
"""The function that does a stage's work; its code is what the stage's results depend on."""

SETTINGS = {
    "pretrain": "pipeline.settings:Run",
    "evaluate": "pipeline.tasks.evaluation_settings:Evaluation",
    "probe": "pipeline.tasks.evaluation_settings:Probe",
    "database": "pipeline.results.experiment:Experiment",
    "table": "pipeline.results.tables:TableSettings",
    "figure": "pipeline.results.figures:FigureSettings",
}
"""The dataclass of a stage's settings, where its jobs are many."""

PARTS: dict[str, Callable[[str], str]] = {
    "download": SOURCES.__getitem__,
    "pretrain": methods.class_reference,
    "mixture": {**FINDERS, GRID: "pipeline.training.find_mixture:find_mixture"}.__getitem__,
}
"""Stages that do their work by one of several peers, and where a peer of a name is."""

ASSETS = {
    "database": ["results/sql", "paper"],
    "table": ["results/sql"],
    "figure": ["results/sql"],
    "article": ["results/sql", "results/report", "paper"],
    "report": ["results/sql", "results/report", "../docs/decisions.md", "../docs/finders.md"],
}
"""Files and folders that decide a stage's result beside its modules, from the package on."""


class StageCode(NamedTuple):
    """What a stage computes with."""

    fingerprint: str
    """Of its modules and assets."""
    versions: dict[str, str] | None
    """Of packages, as `package_versions` gives them."""


@functools.cache
def stage_code(
    stage: str,
    part: str | None = None,
    python: str | None = None,
    *,
    uses_transformers: bool = False,
) -> StageCode:
    """Fingerprint of a stage's code, and the versions of the packages that it computes with.

    Args:
        stage: Name of the stage.
        part: The one of its `PARTS` that it runs: the rule of a run, the kind of a source.
        python: The interpreter that does the work, where it is not this one.
        uses_transformers: Whether a model of transformers is trained.
    """
    places = [STAGES[stage], *([PARTS[stage](part)] if part else [])]
    if uses_transformers:
        places.append("pipeline.model.transformers_model")
    modules = [place.partition(":")[0] for place in places]
    fingerprint = code_fingerprint.fingerprint(*modules, assets=tuple(ASSETS.get(stage, ())))
    return StageCode(fingerprint, code_fingerprint.package_versions(stage, modules, python))
