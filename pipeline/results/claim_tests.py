"""The tests behind the verdicts on claims: the tables pairs and claim_tests.

In sql/claims/, deciding_cells.sql has the numbers that decide a claim, claims.sql the verdict.
"""

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import duckdb

from pike_mixing.comparison import p_values
from pike_mixing.comparison.mean_difference import (
    LEAST_DOCUMENTS,
    LEAST_SEEDS,
    LEVEL,
    Estimate,
    half_width,
)
from pipeline.results.record_loader import insert_rows

VERDICTS = ("supported", "contradicted", "not significant", "too few seeds", "not run")
"""Of claims, in the order in which people are shown them."""
MANY = 10_000
"""Degrees of freedom where an error over documents is as good as known."""
MOST_SEEDS = 1_000
"""Seeds that may be told as those that would decide."""


MarginAndP = tuple[float, float | None]
"""How far inside its bound a number lies, and the p-value of that; None: too few seeds."""


class ClaimCell(NamedTuple):
    """One number of ours that a claim is decided by."""

    name: str
    few: bool
    """Whether its seeds or documents are too few for a test."""
    margin: float
    """How far inside its bound it lies; negative: outside."""
    of_seeds: float | None
    """Its standard error from the spread of seeds, in the same unit."""
    of_items: float | None
    """That from the choice of documents or items."""
    seeds: int | None
    degrees: float | None = None
    """Of freedom, of the error over documents; absent: it is as good as known."""
    known: float | None = None
    """A p-value of its own test, which is taken as it is."""
    share: bool = False
    """Whether it is a share of pairs."""

    def two_sided_p_at_bound(self) -> float | None:
        """The level at which its interval touches its bound; None where it has no test."""
        if self.few:
            return None
        if self.known is not None:
            return self.known
        if self.seeds is not None and not self.of_seeds and not self.of_items:
            return 1.0  # Equal seeds tell nothing of how others differ.
        seeds, degrees = self.seeds or 1, self.degrees or MANY
        p = p_values.p_value(
            Estimate(self.margin, self.of_seeds, self.of_items or 0.0, seeds, degrees)
        )
        assert p is not None
        return max(p, least_sign_test_p_value(seeds)) if self.share else p


def fill_pairs_and_claim_tests(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills both tables; they are no views, since dozens of claims ask for these rows.

    Each claim with seeds enough has a p-value, by Holm, and seeds that would decide it. Claims that
    rest on the same numbers, equally far from their bounds, are one test.
    """
    for side in ("printed_pairs", "measured_pairs"):
        connection.execute(f"insert into pairs by name select * from {side}")
    result = connection.execute(
        "select claim, cell, coalesce(seeds < least_seeds() or effective < ?, false), "
        "margin, seed_stderr, item_stderr, seeds, degrees, p, share from deciding_cells "
        "where side = 'ours' order by claim, margin, cell",
        [LEAST_DOCUMENTS],
    ).fetchall()
    tests, p_of, wanted = {}, {}, {}
    for claim, group in itertools.groupby(result, key=lambda row: row[0]):
        cells = [ClaimCell(*row[1:]) for row in group]
        wanted[claim] = seed_count_to_decide(cells)
        key = tuple((cell.name, cell.margin) for cell in cells)
        p = support_or_contradiction_p_value(
            [(cell.margin, cell.two_sided_p_at_bound()) for cell in cells]
        )
        if p is not None:
            tests[claim], p_of[key] = key, p
    corrected = dict(zip(p_of, p_values.holm_adjusted(list(p_of.values())), strict=True))
    keys = ((claim, tests.get(claim, ()), seeds) for claim, seeds in wanted.items())
    rows = ([claim, p_of.get(key), corrected.get(key), seeds] for claim, key, seeds in keys)
    insert_rows(connection, "claim_tests", rows)


def seed_count_to_decide(cells: Sequence[ClaimCell]) -> int | None:
    """Seeds of each cell over which a claim would be decided, if seeds go on to differ as they do.

    Each cell needs so many that its interval leaves its bound; where one lies outside, the first
    that does so at a level for all of them. The error over documents stays as it is. Holm's
    correction for the other claims is not in it.

    Returns:
        None where a spread is not known, or a thousand would not do.
    """
    outside = [cell for cell in cells if cell.margin <= 0]
    if outside:
        level = LEVEL / len(cells)
        found = [
            n for cell in outside if (n := _seed_count_to_decide_cell(cell, level)) is not None
        ]
        return min(found, default=None)
    every = [_seed_count_to_decide_cell(cell, LEVEL) for cell in cells]
    known = [n for n in every if n is not None]
    return max(known) if len(known) == len(every) else None


def _seed_count_to_decide_cell(cell: ClaimCell, level: float) -> int | None:
    if cell.known is not None or cell.of_seeds is None or cell.seeds is None:
        return None
    of_one, items, degrees = cell.of_seeds * math.sqrt(cell.seeds), cell.of_items, cell.degrees

    def is_bound_outside_interval(seeds: int) -> bool:
        of_seeds = of_one / math.sqrt(seeds)
        then = Estimate(cell.margin, of_seeds, items or 0.0, seeds, degrees or MANY)
        half = half_width(then, level)
        certain = not cell.share or least_sign_test_p_value(seeds) < level
        return half is not None and half < abs(cell.margin) and certain

    numbers = range(LEAST_SEEDS, MOST_SEEDS + 1)
    first = bisect.bisect_left(numbers, True, key=is_bound_outside_interval)
    return numbers[first] if first < len(numbers) else None


def least_sign_test_p_value(seeds: int) -> float:
    """The least p-value of a mean share: how often all seeds lie on one side by chance, 2 / 2^S.

    Where a seed moves all pairs at once its share is all or nothing: then Student's t is no guide.
    """
    return 2.0 ** (1 - seeds)


def support_or_contradiction_p_value(cells: Sequence[MarginAndP]) -> float | None:
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
