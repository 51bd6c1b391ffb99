"""The tests behind the verdicts on claims: the tables mean_accuracy_tests, pairs and claim_tests.

Which numbers decide a claim stands in sql/weighed_cells.sql, what follows from it in claims.sql.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

import duckdb

from pipeline.results import comparisons, outcomes
from pipeline.results.comparisons import Comparison, percent
from pipeline.results.record_loader import insert
from pipeline.statistics import paired

MANY = 10_000
"""Documents where there are so many that their error is as good as known."""


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes the three tables anew; no views, since dozens of claims ask for these rows."""
    for table in ("mean_accuracy_tests", "pairs", "claim_tests"):
        connection.execute(f"delete from {table}")
    _tests(connection)
    for side in ("printed_pairs", "measured_pairs"):
        connection.execute(f"insert into pairs by name select * from {side}")
    _judge(connection)


def _judge(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills claim_tests: a p-value for each claim with seeds enough, by Holm."""
    result = connection.execute(
        "select claim, margin, seed_stderr, item_stderr, seeds, documents, p from weighed_cells "
        "where side = 'ours' qualify coalesce("
        "min(seeds) over (partition by claim) >= least_seeds_of_claims(), true) "
        "order by claim, margin, cell"
    ).fetchall()
    groups = itertools.groupby(result, key=lambda row: row[0])
    tested = {
        claim: claim_p([(row[1], cell_p(*row[1:])) for row in rows]) for claim, rows in groups
    }
    corrected = paired.holm(list(tested.values()))
    rows = ([claim, p, holm] for (claim, p), holm in zip(tested.items(), corrected, strict=True))
    insert(connection, "claim_tests", rows)


def cell_p(
    margin: float,
    of_seeds: float | None,
    of_items: float | None,
    seeds: int | None,
    documents: int | None = None,
    known: float | None = None,
) -> float:
    """The level at which the interval of one number touches the bound that lies `margin` away."""
    if known is not None:
        return known
    estimate = paired.Estimate(margin, of_seeds, of_items or 0.0, seeds or 1, documents or MANY)
    p = paired.p_value(estimate)
    assert p is not None
    return p


def claim_p(cells: Sequence[tuple[float, float]]) -> float:
    """The p-value of a claim over several numbers, each with its margin and its own p-value.

    If all lie within the bounds, all must be shown to: the largest counts. Else one that is shown
    to lie outside contradicts the claim: the smallest of those, times the number of all.
    """
    outside = [p for margin, p in cells if margin <= 0]
    return min(1.0, len(cells) * min(outside)) if outside else max(p for _, p in cells)


def _tests(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills mean_accuracy_tests: the pairs of claimed_pairs under the headline score of each task.

    A mean is left out where the two methods have not answered the same tasks with the same seeds.
    """
    result = sorted(_tasks(connection), key=comparisons.place)
    kept, rows = comparisons.mean_tasks(connection), []
    for block, same in itertools.groupby(result, key=lambda c: c.block):
        tested = list(same)
        tasks = len({c.task for c in tested if (c.block[0], c.task) in kept})
        rows += [
            [*block, mean.method, mean.against, *mean.points(), mean.p, len(mean.seeds), tasks,
             mean.documents, percent(mean.other), percent(mean.estimate.of_seeds),
             percent(mean.estimate.of_items)]
            for mean in comparisons.means(tested, kept)
        ]  # fmt: skip
    insert(connection, "mean_accuracy_tests", rows)


def _tasks(connection: duckdb.DuckDBPyConnection) -> Iterator[Comparison]:
    """Each pair of methods on each task that both answered."""
    headline = connection.execute(
        "select distinct task, shots, formulation, metric from headline_accuracies"
    ).fetchall()
    wanted: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    sql = (
        "select distinct scenario, model, method, against from claimed_pairs "
        "where quantity in ('accuracy', 'transfer') order by all"
    )
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
                made = comparisons.compared(apart, group, method, against)
                yield from (c for c in made if c.block[-1] in metrics)
