"""Paired tests that claims ask for: the tables mean_accuracy_tests and pairs.

What counts as supported or contradicted stands in sql/macros.sql and sql/claims.sql.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator

import duckdb

from pipeline.results import comparisons, outcomes
from pipeline.results.comparisons import Comparison
from pipeline.results.record_loader import insert

PAIRS = ("accuracy_pairs", "perplexity_pairs", "single_pairs", "spread_pairs")
"""The views that the table `pairs` holds."""


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes both tables anew: the paper's pairs say which of our methods are to be tested.

    They are tables since dozens of claims ask for the same rows.
    """
    connection.execute("delete from mean_accuracy_tests")
    connection.execute("delete from pairs")
    _keep(connection, "paper")
    _tests(connection)
    _keep(connection, "ours")


def _keep(connection: duckdb.DuckDBPyConnection, side: str) -> None:
    """Puts one side of the views' pairs into the table."""
    for view in PAIRS:
        connection.execute(f"insert into pairs by name select * from {view} where side = ?", [side])


def _tests(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills mean_accuracy_tests: the pairs of claimed_pairs under the headline score of each task.

    A mean is over the tasks that play one of the paper's, and is left out where the two methods
    have not answered the same ones with the same seeds.
    """
    found = sorted(_tasks(connection), key=comparisons.place)
    rows = []
    for block, same in itertools.groupby(found, key=lambda c: c.block):
        tested = list(same)
        tasks = len({c.task for c in tested})
        rows += [
            [*block, mean.method, mean.against, *mean.points(), mean.p, len(mean.seeds), tasks]
            for mean in comparisons.means(tested)
        ]
    insert(connection, "mean_accuracy_tests", rows)


def _tasks(connection: duckdb.DuckDBPyConnection) -> Iterator[Comparison]:
    """Each pair of methods on each task that both answered."""
    headline = connection.execute(
        "select distinct h.task, h.shots, h.formulation, h.metric from headline_accuracies as h "
        "join published_names as n on n.kind = 'task' and h.task = n.ours"
    ).fetchall()
    wanted: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    sql = "select scenario, model, method, against from claimed_pairs"
    for scenario, model, *pair in connection.execute(sql).fetchall():
        wanted[scenario, model].append(tuple(pair))
    for group in outcomes.groups(connection):
        pairs = wanted.get(group[:2], [])
        metrics = {metric for *asked, metric in headline if tuple(asked) == group[2:]}
        if not metrics or not pairs:
            continue
        answered = outcomes.read(connection, group)
        for method, against in pairs:
            apart = outcomes.differences(answered, method, against)
            if apart is not None:
                made = comparisons.compared(apart, group, method, against, draw=False)
                yield from (c for c in made if c.block[-1] in metrics)
