"""What runs were measured to be worth: the losses and outcomes that tests of a database share.

Shapes: R checkpoints, G documents of one domain, N rows of documents, or what a `TaskCurve` is of.
"""

import functools
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pipeline.results import item_points
from pipeline.results.item_points import CheckpointKey

Place = tuple[str, str]
"""Scenario and model: runs of one place are compared with each other."""
PLACES = "select distinct scenario, model from runs order by all"
DOCUMENTS = """
    select r.method, r.seed, d.step, r.tokens * d.step / r.steps as trained, d.domain, d.document,
        d.nll, d.tokens
    from documents as d
    join runs as r on d.run = r.run
    where r.scenario = $1 and r.model = $2
    order by r.method, r.seed, d.step, d.domain, d.document
"""


@dataclass(frozen=True)
class TaskCurve:
    """One domain or task: what the checkpoints made of its documents or items."""

    value_RxN: Floats
    """Losses summed over each document, or points; no number where a checkpoint lacks one."""
    count_N: npt.NDArray[Any]
    """Tokens of a document; 1 for an item."""
    document_N: npt.NDArray[Any]
    """The document of each: hashes of texts."""
    weight: float = 1.0
    """In the mean over domains or tasks."""


def read_losses(
    connection: duckdb.DuckDBPyConnection, scenario: str, model: str
) -> tuple[list[CheckpointKey], dict[str, TaskCurve]]:
    """The losses of all checkpoints by domain; documents of one name and length are one.

    Args:
        connection: An open database.
        scenario: Its scenario.
        model: Its size.

    Raises:
        InputError: a checkpoint has two losses of one document.
    """
    sql = "select domain, target from domains where scenario = ?"
    targets = dict(connection.execute(sql, [scenario]).fetchall())
    rows = connection.execute(DOCUMENTS, [scenario, model]).df()
    checkpoints, row_N = item_points.checkpoints_of_rows(rows)
    result = {}
    for domain, part in rows.assign(checkpoint=row_N).groupby("domain"):
        try:
            loss_RxG = part.pivot(index="checkpoint", columns=["document", "tokens"], values="nll")
        except ValueError:
            raise InputError(
                f"{scenario}/{model}: a checkpoint has two losses of one document of {domain}: "
                "evaluate its runs again"
            ) from None
        loss_RxG = loss_RxG.reindex(range(len(checkpoints))).sort_index(axis="columns")
        document_G, tokens_G = (
            loss_RxG.columns.get_level_values(name).to_numpy() for name in ("document", "tokens")
        )
        result[domain] = TaskCurve(
            *(loss_RxG.to_numpy(), tokens_G.astype(np.float64), document_G),
            targets.get(domain, 1.0),
        )
    return checkpoints, result


class MeasuredResults:
    """Losses and outcomes of a database's runs, each read once at most."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.places: list[Place] = connection.execute(PLACES).fetchall()
        compared = "select baseline, oracle from experiment"
        ((self.baseline, self.oracle),) = connection.execute(compared).fetchall()
        self.losses = functools.cache(functools.partial(read_losses, connection))
        self.outcomes = functools.cache(functools.partial(item_points.read_outcomes, connection))

    @functools.cached_property
    def groups(self) -> list[item_points.Group]:
        """What was answered in these places."""
        return [
            group for group in item_points.read_groups(self.connection) if group[:2] in self.places
        ]
