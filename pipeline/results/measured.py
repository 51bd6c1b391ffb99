"""What runs were measured to be worth: the losses and outcomes that tests of a database share."""

import functools
from collections.abc import Sequence

import duckdb

from pipeline.results import losses, outcomes

Place = tuple[str, str]
"""Scenario and model: runs of one place are compared with each other."""
PLACES = "select distinct scenario, model from runs order by all"


class Measured:
    """Losses and outcomes of a database's runs in some places or all, each read once at most."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, places: Sequence[Place] | None = None
    ) -> None:
        self.connection = connection
        all_places = connection.execute(PLACES).fetchall()
        self.places: list[Place] = [p for p in all_places if places is None or p in places]
        self.losses = functools.cache(functools.partial(losses.read, connection))
        self.outcomes = functools.cache(functools.partial(outcomes.read, connection))

    @functools.cached_property
    def groups(self) -> list[outcomes.Group]:
        """What was answered in these places."""
        return [group for group in outcomes.groups(self.connection) if group[:2] in self.places]
