"""The tests behind the verdicts on claims: the tables pairs and claim_tests.

Which numbers decide a claim stands in sql/weighed_cells.sql, what follows from it in claims.sql.
"""

import itertools
from collections.abc import Sequence

import duckdb

from pipeline.results.record_loader import insert
from pipeline.statistics import sign_flip
from pipeline.statistics.mean_difference import LEAST_DOCUMENTS, Estimate, p_value

MANY = 10_000
"""Degrees of freedom where an error over documents is as good as known."""


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills both tables; they are no views, since dozens of claims ask for these rows.

    Each claim with seeds enough has a p-value, by Holm. Claims that rest on the same numbers,
    equally far from their bounds, are one test.
    """
    for side in ("printed_pairs", "measured_pairs"):
        connection.execute(f"insert into pairs by name select * from {side}")
    result = connection.execute(
        "select claim, cell, coalesce(seeds < least_seeds_of_claims() or effective < ?, false), "
        "margin, seed_stderr, item_stderr, seeds, degrees, p, share from weighed_cells "
        "where side = 'ours' order by claim, margin, cell",
        [LEAST_DOCUMENTS],
    ).fetchall()
    tests, p_of = {}, {}
    for claim, group in itertools.groupby(result, key=lambda row: row[0]):
        cells = [
            (name, row[0], None if few else max(cell_p(*row), least_p(row[3]) if share else 0.0))
            for _, name, few, *row, share in group
        ]
        key = tuple((name, margin) for name, margin, _ in cells)
        p = claim_p([cell[1:] for cell in cells])
        if p is not None:
            tests[claim], p_of[key] = key, p
    corrected = dict(zip(p_of, sign_flip.holm(list(p_of.values())), strict=True))
    rows = ([claim, p_of[key], corrected[key]] for claim, key in tests.items())
    insert(connection, "claim_tests", rows)


def cell_p(
    margin: float,
    of_seeds: float | None,
    of_items: float | None,
    seeds: int | None,
    degrees: float | None = None,
    known: float | None = None,
) -> float:
    """The level at which the interval of one number touches the bound that lies `margin` away.

    Args:
        margin: How far inside its bound the number lies; negative: outside.
        of_seeds: Its standard error from the spread of seeds, in the same unit.
        of_items: That from the choice of documents or items.
        seeds: How many seeds it is over.
        degrees: Of freedom, of the error over documents; absent: it is as good as known.
        known: A p-value of its own test, which is taken as it is.
    """
    if known is not None:
        return known
    if seeds is not None and not of_seeds and not of_items:
        return 1.0  # Equal seeds tell nothing of how others differ.
    p = p_value(Estimate(margin, of_seeds, of_items or 0.0, seeds or 1, degrees or MANY))
    assert p is not None
    return p


def least_p(seeds: int) -> float:
    """The least p-value of a mean share: how often all seeds lie on one side by chance, 2 / 2^S.

    Where a seed moves all pairs at once its share is all or nothing: then Student's t is no guide.
    """
    return 2.0 ** (1 - seeds)


def claim_p(cells: Sequence[tuple[float, float | None]]) -> float | None:
    """The p-value of a claim over several numbers, each with its margin and its own p-value.

    If all lie within the bounds, all must be shown to: the largest counts. Else one that is shown
    to lie outside contradicts the claim: the smallest of those, times the number of all tested.
    A number over too few seeds for a test has none; where the tested ones lie within the bounds and
    others are not tested, the claim has none.
    """
    tested = [p for _, p in cells if p is not None]
    outside = [p for margin, p in cells if margin <= 0 and p is not None]
    if outside:
        return min(1.0, len(tested) * min(outside))
    return max(tested) if len(tested) == len(cells) else None
