"""docs/claims.md: the paper's claims, tested on the runs of the deciding experiment.

    make headline            after `make run CONFIG=workflow/configs/decide.yaml`

or `python -m benchmarks.claims restored/databases/requested.duckdb` after `make restore`.
"""

import collections
import sys
from pathlib import Path
from typing import Any

from benchmarks import records
from pipeline.results.selection import connect_experiment, query

PAGE = records.ROOT / "docs" / "claims.md"
HOLDS, FAILS = "supported", "contradicted"
WORDS = {HOLDS: "holds", FAILS: "does not hold"}
HEAD = """# The paper's claims at a small size

<!-- Made by `make headline` from `workflow/configs/decide.yaml`: change nothing by hand. -->

`make restore`, then `.venv/bin/pike claims restored/pike.duckdb`, prints each claim of the paper
with our number. **Of {all} claims {holds} hold here, {fails}, and {open} are open.**

{failures}{why}

Our models have {least:,} to {most:,} parameters, the paper's 110 million to 1 billion: what is
decided here need not hold at the paper's sizes, or at yours. The {runs} trainings are those of
[Results](results.md).

## Decided

*Holds if*: what our number must be. A claim that names a gain, such as 3.4%, is tested for whether
there is a gain, not for its size.

*Ours*: our number, its 95% interval (of this number alone) and its unit. *% of the other* is by how
much the first method's score is above the second's, in percent of the second's; *% below the other*
is by how much its perplexity is below.

*Comparisons within*: a comparison is of one scenario, model size and number of shots. All of a
claim's comparisons must lie within its bounds, and the row shows the least favourable one.

*p*: with Holm's correction over all tested claims. At 0.05 or more a claim is open.

"""
OPEN = """
## Open

{times}

*Seeds needed*: of each comparison, before Holm's correction, if the spread stays; -: over 1,000, or
not known.

"""
TIMES = """Claims about time are open by name, too. `overhead`: the paper has at most {paper:g} % of
the training time; here PiKE's estimates took {least:.1f} to {most:.1f} % (Table 8), with models
thousands of times smaller, on a machine that was busy with other work. Neither tells of the paper's
sizes. `longer-interval` compares times of that machine."""
WHY = {
    "too few seeds": "some comparison has fewer than three seeds, and none contradicts the claim",
    "not significant": "there are seeds enough, but p is 0.05 or more",
    "not run": "the experiment has no such runs, or the claim is about the paper's own sizes",
}


def page(database: Path) -> str:
    """The page, from the database of all runs.

    Raises:
        InputError: there is no database, or it is somebody else's.
    """
    with connect_experiment(database) as connection:
        (facts,) = query(
            connection,
            "select count(*) as runs, min(parameters) as least, max(parameters) as most from runs",
        )
        claims = query(
            connection,
            "select claim, statement, unit, lower, upper, ours, ours_low, ours_high, p_holm, "
            "seeds, cell, cells, cells_within, verdict, seeds_wanted from claims order by position",
        )
        sizes = query(connection, "select distinct scenario, model, parameters from runs")
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
        failures="".join(failure(claim) for claim in claims if claim["verdict"] == FAILS),
        why="\n".join(f"- Open, {name} ({count[name]}): {WHY[name]}." for name in WHY),
    )
    places = {f"{one['scenario']} / {one['model']}": one["parameters"] for one in sizes}
    head = ["the paper's claim", "here", "holds if", "ours", "comparisons within", "seeds", "p",
            "parameters", "least favourable comparison"]  # fmt: skip
    decided = [claim for claim in claims if claim["verdict"] in WORDS]
    text += records.table(head, [decided_line(claim, places) for claim in decided])
    times = TIMES.format(
        paper=float(shares[0]["published_value"]),
        least=min(row["value"] for row in shares),
        most=max(row["value"] for row in shares),
    )
    text += "\n" + OPEN.format(times=times)
    undecided = [claim for claim in claims if claim not in decided]
    head = ["claim", "seeds needed", "ours", "holds if", "comparisons within", "seeds", "p",
            "least favourable comparison"]  # fmt: skip
    return text + records.table(head, [line(claim, wanted(claim)) for claim in undecided]) + "\n"


def failure(claim: dict[str, Any]) -> str:
    """A claim that does not hold, in a paragraph: how often it fails, and where."""
    within, cells = claim["cells_within"], claim["cells"]
    how = "it is false in {} of {} settings, which were computed exactly, without training"
    if claim["seeds"] is not None:
        how = "it is false in {} of {} comparisons"
    false = how.format(cells - within, cells)
    return f"- Does not hold: {claim['statement']}. Here {false} ({claim['cell']}).\n"


def decided_line(claim: dict[str, Any], places: dict[str, int]) -> list[str]:
    """A decided claim's row: its sentence, and the size of the models behind the number."""
    name, verdict, shown, bound, within, seeds, p, cell = line(claim, WORDS[claim["verdict"]])
    size = next((f"{n:,}" for place, n in places.items() if cell.startswith(place)), "")
    return [f"{claim['statement']} ({name})", verdict, bound, shown, within, seeds, p, size, cell]


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
