"""What a method costs beside Mix: rows that it reads, and passes over the model, here and at scale.

Batches here are small beside what methods measure: 16 rows of each of 5 domains, every 10 steps,
beside batches of 20 rows are 40 % more rows; beside the paper's batches of 256 rows, measured as
often in a run, a sixtieth of a percent. So each cost is told at both sizes.
"""

from collections.abc import Mapping
from typing import Any

from pipeline import settings
from pipeline.planning import methods, resources

PAPER = {"rows": 256, "steps": 120_000}
"""Batch and steps of the paper's runs (`workflow/configs/paper.yaml`)."""
IN_STEPS = ("every", "first")
"""Settings of rules that count steps: at another size they keep their share of the run."""

Run = Mapping[str, Any]
"""The content of a `run.json`."""


def rows(run: Run) -> float:
    """Rows that a run reads, those that its method measures included, over those of its batches."""
    needs, batch = methods.needs(run), run["training"]["rows"]
    domains, result = len(run["domains"]), 1.0
    if needs.statistics and needs.statistics.fresh:
        each = max(batch, needs.statistics.rows * domains)
        result += needs.statistics.estimates * each / (batch * needs.statistics.every)
    if needs.validation:
        result += needs.validation.rows * domains / (batch * needs.validation.every)
    if every := run["training"].get("validation_every"):
        result += domains / every
    return result


def time(run: Run) -> float:
    """Passes over the model of a run over those of Mix, by the plan's arithmetic."""
    return resources.passes(run) / 3


def flops_of_step(run: Run, tokenizers: Mapping[str, Mapping[str, Any]]) -> float:
    """FLOPs of training on one batch: models differ, and rows and their length.

    `tokenizers` are settings by name, with their vocabularies.
    """
    recipe, shape = run["training"], settings.Model(**run["model"])
    length, vocabulary = recipe["length"], tokenizers[run["tokenizer"]]["vocabulary"]
    of_token = resources.training_flops(shape, vocabulary, length)
    return float(recipe["rows"] * length * of_token)


def at_paper_size(run: Run) -> Run:
    """The run with the paper's batches and steps, measured as often as here."""
    longer = PAPER["steps"] / run["training"]["steps"]
    scaled = {n: round(v * longer) for n, v in run["method"].items() if n in IN_STEPS and v}
    return {
        **run,
        "training": {**run["training"], **PAPER},
        "method": {**run["method"], **scaled},
    }
