"""docs/claims.md: the paper's claims, tested at this size with more seeds than the default has.

    make run CONFIG=workflow/configs/claims.yaml
    python -m benchmarks.claims

Record: benchmarks/results/claims.json, rows of the view `claims` and what they were made from.
"""

import collections
import json
from pathlib import Path
from typing import Any

from benchmarks import measure, records
from pipeline.results.selection import connect_ours, query

PAGE = records.ROOT / "docs" / "claims.md"
HOLDS, FAILS = "supported", "contradicted"
HEAD = """# The paper's claims at a small size

Made by `python -m benchmarks.claims` from the experiment `workflow/configs/claims.yaml`, {date},
{commit}, {processor}: {runs} runs of models of {least:,} to {most:,} parameters, seeds fixed before
the first run. **Of {all} claims {holds} hold here, {fails} do not, {open} cannot be told.** A cell
is one comparison in one scenario, model size and number of shots; the row shows the least
favourable. Brackets: 95% interval of this number alone. p: with Holm's correction over all tested
claims. `pike query "from claims" --database results/claims/pike.duckdb` has each sentence, its
place and the published number.

"""
OPEN = """
## Not decided

{why}.

Seeds needed: of each cell, before Holm's correction, if the spread stays; -: over 1,000, or not
known.

"""
WHY = {
    "not significant": "p is 0.05 or more",
    "too few seeds": "a cell has fewer than three seeds, and none contradicts the claim",
    "not run": "the experiment has no such runs, or the claim is about the paper's own sizes",
}


def found(database: Path) -> dict[str, Any]:
    """Runs and sizes of the experiment, and what the page shows of each claim, in order."""
    with connect_ours(database) as connection:
        (facts,) = query(
            connection,
            "select count(*) as runs, min(parameters) as least, max(parameters) as most from runs",
        )
        claims = query(
            connection,
            "select claim, unit, lower, upper, ours, ours_low, ours_high, p_holm, seeds, cell, "
            "cells, cells_within, verdict, seeds_wanted from claims order by position",
        )
    return {"made_from": facts, "claims": claims}


def page(record: dict[str, Any]) -> str:
    claims = record["claims"]
    count = collections.Counter(claim["verdict"] for claim in claims)
    holds, fails = count[HOLDS], count[FAILS]
    text = HEAD.format(
        **record["made_from"],
        date=record["date"],
        commit=record["commit"][:7] + "+" * record["commit"].endswith("+"),
        processor=record["machine"]["processor"],
        all=len(claims),
        holds=holds,
        fails=fails,
        open=len(claims) - holds - fails,
    )
    if note := record.get("note"):
        text += f"{note}\n\n"
    head = ["claim", "verdict", "number", "bounds", "cells", "seeds", "p", "least favourable cell"]
    decided = [claim for claim in claims if claim["verdict"] in (HOLDS, FAILS)]
    text += records.table(head, [line(claim, claim["verdict"]) for claim in decided])
    reasons = [f"{n} {name}: {WHY[name]}" for name, n in count.most_common() if name in WHY]
    text += "\n" + OPEN.format(why="; ".join(reasons))
    undecided = [claim for claim in claims if claim not in decided]
    head[1] = "seeds needed"
    return text + records.table(head, [line(claim, wanted(claim)) for claim in undecided]) + "\n"


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
    chosen = measure.arguments(__doc__, "claims", results="results/claims")
    database = Path(chosen.results) / "pike.duckdb"
    measure.record(chosen, {"commit": records.commit(), **found(database)})
    PAGE.write_text(page(json.loads(chosen.out.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
