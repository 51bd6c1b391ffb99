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
    table = connection.sql(DOCUMENTS, params=[scenario, model]).to_arrow_table().combine_chunks()
    checkpoints, checkpoint_N = item_points.checkpoints_of_rows(table)
    documents, document_N = item_points.code_texts(table["document"])
    domains, domain_N = item_points.code_texts(table["domain"])
    nll_N, tokens_N = (item_points.column_values(table[name]) for name in ("nll", "tokens"))
    longest = tokens_N.max(initial=0) + 1
    result = {}
    for i, domain in enumerate(domains):
        of_N = domain_N == i
        name_G, place_N = np.unique(
            document_N[of_N] * longest + tokens_N[of_N], return_inverse=True
        )
        cell_N = checkpoint_N[of_N] * len(name_G) + place_N
        if np.bincount(cell_N).max() > 1:
            raise InputError(
                f"{scenario}/{model}: a checkpoint has two losses of one document of {domain}: "
                "evaluate its runs again"
            )
        loss_RxG = np.full((len(checkpoints), len(name_G)), np.nan)
        loss_RxG[checkpoint_N[of_N], place_N] = nll_N[of_N]
        document_G, tokens_G = documents[name_G // longest], (name_G % longest).astype(np.float64)
        result[domain] = TaskCurve(loss_RxG, tokens_G, document_G, targets.get(domain, 1.0))
    return checkpoints, result


class Measured:
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
