"""The main picture: each method's loss against the baseline's, on one axis for all scenarios."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pipeline.results import marks, provenance
from pipeline.results.selection import Row

MOST_LINES = 10
"""Lines of a block; the others fold."""
ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0)
"""First digits of an axis' ends."""


def picture(places: Sequence[Row], doubts: marks.Doubts, most: int = MOST_LINES) -> dict[str, Any]:
    """A block of lines for each place, the lowest loss first.

    Args:
        places: What `decisions.of` gives.
        doubts: What `marks.doubts` gives.
        most: Lines of a block that are shown at once.

    Returns:
        `limit`, the axis' end in nats; `blocks`, places with seeds enough for a verdict;
        `untested`, the others; `notes` on signs. A block's `lines` are shown, its `more` fold.
    """
    limit = _limit([row for place in places for row in place["rows"] if row["seeds"] >= LEAST_SEEDS]
                   or [row for place in places for row in place["rows"]])  # fmt: skip
    by_row: dict[str, Mapping[str, str]] = {}
    blocks, untested = list[Row](), list[Row]()
    for place in places:
        lines = [_line(row, limit) for row in place["rows"]]
        for line in lines:
            where = place["scenario"], place["model"]
            marked = doubts.get((*where, line["method"]), {})
            by_row[f"{line['label']} in {'/'.join(where)}"] = marked
            line["signs"] = marks.signs(marked)
        several = [line for line in lines if line["seeds"] >= LEAST_SEEDS]
        first = (several or lines)[:most]
        more = [line for line in lines if line not in first]
        (blocks if several else untested).append({**place, "lines": first, "more": more})
    return {
        "limit": limit,
        "blocks": blocks,
        "untested": untested,
        "notes": marks.counted_notes(by_row),
    }


def _limit(rows: Sequence[Row]) -> float:
    """A round number of nats that holds every interval below zero, and most of the others.

    It reaches to twice the far end that a third of all lie within, so that hopeless methods do not
    squeeze the others.
    """
    ends = sorted(max(abs(row["nll_low"]), abs(row["nll_high"])) for row in rows)
    if not ends:
        return 1.0
    least = max(2 * ends[len(ends) // 3], -min(row["nll_low"] for row in rows), 1e-3)
    power = 10.0 ** math.floor(math.log10(least))
    return next(digit * power for digit in ROUND if digit * power >= least * (1 - 1e-9))


def _line(row: Row, limit: float) -> Row:
    """A row with its places in percent of the axis; what lies outside says on which side."""

    def place(value: float) -> float:
        return round(50 + 50 * max(-1.0, min(1.0, value / limit)), 2)

    cut = "right" if row["nll_high"] > limit else "left" if row["nll_low"] < -limit else ""
    return {
        **row,
        "x": place(row["nll_difference"]),
        "x_low": place(row["nll_low"]),
        "x_high": place(row["nll_high"]),
        "cut": cut,
        "made": provenance.anchor("/".join((row["scenario"], row["model"], row["method"]))),
    }
