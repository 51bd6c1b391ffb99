"""docs/claims.md: the paper's claims, tested on the runs of the deciding experiment.

    make headline            after `make run CONFIG=workflow/configs/decide.yaml`

or `python -m benchmarks.claims restored/databases/requested.duckdb` after `make restore`.
"""

import collections
import sys
from pathlib import Path
from typing import Any

from benchmarks import records
from pipeline.results.selection import connect_ours, query

PAGE = records.ROOT / "docs" / "claims.md"
HOLDS, FAILS = "supported", "contradicted"
HEAD = """# The paper's claims at a small size

<!-- Made by `make headline` from `workflow/configs/decide.yaml`: change nothing by hand. -->

`make restore`, then `.venv/bin/pike claims restored/pike.duckdb`, prints each claim of the paper
with our number. **Of {all} claims {holds} hold here, {fails}, {open} cannot be told.** The decided
ones, in words; sizes in brackets are the paper's:

{findings}

Our models have {least:,} to {most:,} parameters: the {runs} trainings are those of
[Results](results.md). What is decided here need not hold at the paper's sizes, or at yours.

## The record

A cell is one comparison in one scenario, model size and number of shots; the row shows the least
favourable. Brackets: 95% interval of this number alone. p: with Holm's correction over all tested
claims. `pike query "from claims"` has each sentence, its place and the published number.

"""
WORDS = {HOLDS: "Holds here", FAILS: "Does not hold here"}
OPEN = """
## Not decided

{why}.

{times}

Seeds needed: of each cell, before Holm's correction, if the spread stays; -: over 1,000, or not
known.

"""
TIMES = """Claims about time are open by name, too. `overhead`: the paper has at most {paper:g} % of
the training time; here PiKE's estimates took {least:.1f} to {most:.1f} % (Table 8), with models a
thousand times smaller, on a machine that was busy with other work. Neither tells of the paper's
sizes. `longer-interval` compares times of that machine."""
WHY = {
    "not significant": "p is 0.05 or more",
    "too few seeds": "a cell has fewer than three seeds, and none contradicts the claim",
    "not run": "the experiment has no such runs, or the claim is about the paper's own sizes",
}


def page(database: Path) -> str:
    """The page, from the database of all runs.

    Raises:
        InputError: there is no database, or it is somebody else's.
    """
    with connect_ours(database) as connection:
        (facts,) = query(
            connection,
            "select count(*) as runs, min(parameters) as least, max(parameters) as most from runs",
        )
        claims = query(
            connection,
            "select claim, statement, unit, lower, upper, ours, ours_low, ours_high, p_holm, "
            "seeds, cell, cells, cells_within, verdict, seeds_wanted from claims order by position",
        )
        shares = query(
            connection,
            "select value, published_value from table8, "
            "(select published_value from claims where claim = 'overhead') "
            "where scenario is not null and column_label = 'overhead of PiKE' and unit = '%'",
        )
    count = collections.Counter(claim["verdict"] for claim in claims)
    holds, fails = count[HOLDS], count[FAILS]
    text = HEAD.format(
        **facts,
        all=len(claims),
        holds=holds,
        fails=f"{fails} does not" if fails == 1 else f"{fails} do not",
        open=len(claims) - holds - fails,
        findings="\n".join(finding(claim) for claim in claims if claim["verdict"] in WORDS),
    )
    head = ["claim", "verdict", "number", "bounds", "cells", "seeds", "p", "least favourable cell"]
    decided = [claim for claim in claims if claim["verdict"] in (HOLDS, FAILS)]
    text += records.table(head, [line(claim, claim["verdict"]) for claim in decided])
    reasons = [f"{n} {name}: {WHY[name]}" for name, n in count.most_common() if name in WHY]
    times = TIMES.format(
        paper=float(shares[0]["published_value"]),
        least=min(row["value"] for row in shares),
        most=max(row["value"] for row in shares),
    )
    text += "\n" + OPEN.format(why="; ".join(reasons), times=times)
    undecided = [claim for claim in claims if claim not in decided]
    head[1] = "seeds needed"
    return text + records.table(head, [line(claim, wanted(claim)) for claim in undecided]) + "\n"


def finding(claim: dict[str, Any]) -> str:
    """A decided claim in words, with our number, its seeds and the least favourable cell."""
    _, _, number, _, _, seeds, _, cell = line(claim, "")
    where = ", ".join(filter(None, [f"{seeds} seeds" if seeds else "", cell]))
    return f"- **{WORDS[claim['verdict']]}:** {claim['statement']}. Ours: {number} ({where})."


def line(claim: dict[str, Any], second: str) -> list[str]:
    """A claim's row; what was not measured is empty."""
    shown = ""
    if claim["ours"] is not None:
        shown = f"{claim['ours']:.3g}"
        if claim["ours_low"] is not None:
            shown += f" [{claim['ours_low']:.3g}, {claim['ours_high']:.3g}]"
        shown += f" {claim['unit']}"
    sides = {"above": claim["lower"], "at most": claim["upper"]}
    bound = ", ".join(f"{side} {value:g}" for side, value in sides.items() if value is not None)
    p = "" if claim["p_holm"] is None else f"{claim['p_holm']:.2g}" if claim["p_holm"] else "exact"
    within = "" if claim["cells"] is None else f"{claim['cells_within']} of {claim['cells']}"
    seeds, cell = str(claim["seeds"] or ""), claim["cell"] or ""
    return [claim["claim"], second, shown, bound, within, seeds, p, cell]


def wanted(claim: dict[str, Any]) -> str:
    """What stands under `seeds needed`."""
    if claim["verdict"] == "not run":
        return "not run"
    return str(claim["seeds_wanted"] or "-")


def main() -> None:
    PAGE.write_text(page(Path(sys.argv[1])), encoding="utf-8")


if __name__ == "__main__":
    main()
