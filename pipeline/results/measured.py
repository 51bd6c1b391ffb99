"""What runs were measured to be worth: the losses and outcomes that tests of a database share.

Shapes: R checkpoints, G documents of one domain, N rows of documents.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pipeline.results import outcomes
from pipeline.results.outcomes import CheckpointKey

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
class DomainLosses:
    """What checkpoints lose on the validation documents of one domain."""

    domain: str
    loss_RxG: Floats
    """Summed over each document, in nats; no number where a checkpoint did not read it."""
    tokens_G: Floats
    document_G: npt.NDArray[Any]
    """Hashes of their texts."""
    target: float
    """Weight in the mean over domains."""


def read_losses(
    connection: duckdb.DuckDBPyConnection, scenario: str, model: str
) -> tuple[list[CheckpointKey], list[DomainLosses]]:
    """The losses of all checkpoints of a scenario; documents of one name and length are one.

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
    checkpoints, checkpoint_N = outcomes.checkpoints(table)
    documents, document_N = outcomes.coded(table["document"])
    domains, domain_N = outcomes.coded(table["domain"])
    nll_N, tokens_N = (outcomes.values(table[name]) for name in ("nll", "tokens"))
    longest = tokens_N.max(initial=0) + 1
    result = []
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
        target = targets.get(domain, 1.0)
        result.append(DomainLosses(domain, loss_RxG, tokens_G, document_G, target))
    return checkpoints, result


class Measured:
    """Losses and outcomes of a database's runs in some places or all, each read once at most."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, places: Sequence[Place] | None = None
    ) -> None:
        self.connection = connection
        all_places = connection.execute(PLACES).fetchall()
        self.places: list[Place] = [p for p in all_places if places is None or p in places]
        self.losses = functools.cache(functools.partial(read_losses, connection))
        self.outcomes = functools.cache(functools.partial(outcomes.read, connection))

    @functools.cached_property
    def groups(self) -> list[outcomes.Group]:
        """What was answered in these places."""
        return [group for group in outcomes.groups(self.connection) if group[:2] in self.places]
