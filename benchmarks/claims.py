"""docs/claims.md: the paper's claims, tested on the runs of the deciding experiment.

    make headline            after `make run CONFIG=workflow/configs/decide.yaml`

or `python -m benchmarks.claims restored/databases/requested.duckdb` after `make restore`.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import records
from pipeline.results import query
from pipeline.results.database_reader import connect_database_of_any_version, query_rows

PAGE = records.ROOT / "docs" / "claims.md"
Claim = dict[str, Any]
"""A row of the view `claims`."""
HEAD = """# The paper's claims at a small size

<!-- Made by `make headline` from `workflow/configs/decide.yaml`: change nothing by hand. -->

`make restore`, then `.venv/bin/pike claims restored/pike.duckdb`, prints each of the paper's
{all} claims with our number, its verdict and its p. In our {runs} trainings
([Results](results.md)) they come out so. In parentheses: the claim's name, p, and our comparison
(scenario / model size).

{verdicts}

The paper's own tables contradict {own} of the {all} claims:

{refuted}

**A claim of a gain is supported if there is a gain here, even one of another size.**{sizes}

{contradicted}Our models have {least:,} to {most:,} parameters, the paper's 110 million to
1 billion: what is decided here need not hold at the paper's sizes, or at yours.

## Decided

*Supported if*: what our number must be, and p below 0.05.

*Ours*: our number, its 95% interval (not corrected for the number of claims) and its unit.
*% of the other* is by how much the first method's score is above the second's, in percent of the
second's; *% below the other* is by how much its perplexity is below. *Loss below the best static*
is the loss of the best static mixing minus that of adaptive mixing: below 0 adaptive is worse.

*Comparisons within*: how many of the claim's comparisons lie within its bounds. A comparison is of
one scenario, model size and number of shots. A claim is supported only if all of them lie within;
the row shows the comparison that is worst for the claim.

*p*: with Holm's correction over all tested claims.

"""
OPEN = """
## Open

A claim can be open although its interval lies wholly outside its bounds: see {beyond}.
The interval is of the shown comparison alone, and not corrected. p is of all comparisons of the
claim together, and corrected for all claims. *Seeds* are those of the shown comparison, too: under
*too few seeds*, another comparison of the claim may be the one with fewer than three. Then p, if
there is one, is of the comparisons with three seeds or more: they do not contradict the claim.

*Seeds needed*: how many each comparison needs, before Holm's correction, if the spread stays the
same; -: over 1,000, or not known.

"""
TIMES = """
## Claims about time

By the paper, PiKE's estimates take at most {paper:g} % of the training time (`overhead`). Here they
took {least:.1f} to {most:.1f} % (Table 8), with models thousands of times smaller, on a machine
that was busy with other work. This says nothing about the paper's sizes: the claim is *not run*.
`longer-interval` compares times of that machine.
"""
VERDICTS = {
    "supported": "all our numbers for the claim lie where it says, and p is below 0.05",
    "contradicted": "one of our numbers lies outside the claim's bounds, and p is below 0.05 or "
    "the number was computed exactly",
    "too few seeds": "at least one of the claim's comparisons has fewer than three seeds, and no "
    "comparison contradicts the claim",
    "not significant": "all comparisons have three seeds or more, but p is 0.05 or more",
    "not run": "the experiment has no such runs, or the claim is about the paper's own sizes",
}
"""What each verdict says."""
DECIDED = ("supported", "contradicted")
EXPLAINED = {
    "example-adaptive-over-static": "The paper's Example 1 has two tasks with one number each to "
    "learn and noisy gradients. Its Figure 3 shows one setting of start, noise, step size and "
    "batch, and the text says that adaptive mixing consistently outperforms static mixing. "
    "{within} of {cells} settings, computed exactly and without training, agree. In the other one "
    "({cell}) adaptive mixing never learns the noisy task, and ends above the best static mixture."
}
"""What a contradicted claim says, and how it fails; others say it with their row."""


def page(database: Path) -> str:
    """The page, from the database of all runs.

    Raises:
        InputError: there is no database, or it is somebody else's.
    """
    with connect_database_of_any_version(database) as connection:
        (facts,) = query_rows(
            connection,
            "select count(*) as runs, min(parameters) as least, max(parameters) as most from runs",
        )
        claims = query_rows(
            connection,
            "select * from claims order by position",
        )
        sizes = query_rows(connection, "select distinct scenario, model, parameters from runs")
        shares = query_rows(
            connection,
            "select value, published_value from table8, "
            "(select published_value from claims where claim = 'overhead') "
            "where scenario is not null and column_label = 'overhead of PiKE' and unit = '%'",
        )
    refuted = [claim for claim in claims if claim["published_verdict"] == "contradicted"]
    text = HEAD.format(
        **facts,
        all=len(claims),
        own=len(refuted),
        refuted="\n".join(map(refutation, refuted)),
        verdicts="\n".join(summary(claims)),
        sizes="".join(map(sizes_of, claims)),
        contradicted="".join(f"{one}\n\n" for one in map(explanation, claims) if one),
    )
    places = {f"{one['scenario']} / {one['model']}": one["parameters"] for one in sizes}
    head = ["the paper's claim", "verdict", "supported if", "ours", "comparisons within", "seeds",
            "p", "parameters", "worst comparison"]  # fmt: skip
    decided = [claim for claim in claims if claim["verdict"] in DECIDED]
    text += records.table(head, [decided_line(claim, places) for claim in decided])
    text += "\n" + TIMES.format(
        paper=float(shares[0]["published_value"]),
        least=min(row["value"] for row in shares),
        most=max(row["value"] for row in shares),
    )
    undecided = [claim for claim in claims if claim not in decided]
    head = ["claim", "verdict", "seeds needed", "ours", "supported if", "comparisons within",
            "seeds", "p", "worst comparison"]  # fmt: skip
    rows = [line(claim, claim["verdict"], wanted(claim)) for claim in undecided]
    beyond = next(f"`{claim['claim']}`" for claim in undecided if is_beyond(claim))
    return text + OPEN.format(beyond=beyond) + records.table(head, rows) + "\n"


def summary(claims: Sequence[Claim]) -> Iterator[str]:
    """How many claims have each verdict, and which are decided, with p."""
    for verdict, about in VERDICTS.items():
        own = [claim for claim in claims if claim["verdict"] == verdict]
        yield f"- **{len(own)} {verdict}**: {about}" + (":" if verdict in DECIDED and own else ".")
        for claim in own if verdict in DECIDED else ():
            p = "exact" if p_of(claim) == "exact" else f"p = {p_of(claim)}"
            yield f"  - {claim['statement']} (`{claim['claim']}`, {p}; {claim['cell']})"


def refutation(claim: Claim) -> str:
    """A claim that the paper's own numbers contradict, the worst of them, and our verdict."""
    return (
        f"- {claim['statement']} (`{claim['claim']}`). In the paper's tables "
        f"{query.worst_method_difference_in_paper(claim)}. Our runs: {claim['verdict']}."
    )


def sizes_of(claim: Claim) -> str:
    """Our size of a gain beside the paper's, of a supported claim that names one."""
    if claim["verdict"] != "supported" or not claim["published_value"]:
        return ""
    ends = f"{claim['ours_low']:.3g} to {claim['ours_high']:.3g}"
    unit = claim["unit"].removesuffix(" of the other")
    return (
        f" `{claim['claim']}`: {claim['ours']:.3g} {unit} here (95% interval {ends}), "
        f"{claim['published_value']} {unit} in the paper."
    )


def explanation(claim: Claim) -> str:
    """What a contradicted claim says and how it fails; nothing of others."""
    if claim["verdict"] != "contradicted":
        return ""
    facts = {"cells": claim["cells"], "within": claim["cells_within"], "cell": claim["cell"]}
    text = EXPLAINED.get(claim["claim"], "{within} of {cells} comparisons agree; not {cell}.")
    return f"**Contradicted, `{claim['claim']}`.** {text.format(**facts)}"


def p_of(claim: Claim) -> str:
    """The corrected p-value; empty where there is none."""
    if claim["p_holm"] is None:
        return ""
    return f"{claim['p_holm']:.2g}" if claim["p_holm"] else "exact"


def decided_line(claim: Claim, places: dict[str, int]) -> list[str]:
    """A decided claim's row: its sentence, and the size of the models behind the number."""
    name, verdict, shown, bound, within, seeds, p, cell = line(claim, claim["verdict"])
    size = next((f"{n:,}" for place, n in places.items() if cell.startswith(place)), "")
    return [f"{claim['statement']} ({name})", verdict, bound, shown, within, seeds, p, size, cell]


def line(claim: Claim, *second: str) -> list[str]:
    """A claim's row; what was not measured is empty."""
    shown = ""
    if claim["ours"] is not None:
        shown = f"{claim['ours']:.3g}"
        if claim["ours_low"] is not None:
            shown += f" [{claim['ours_low']:.3g}, {claim['ours_high']:.3g}]"
        shown += f" {claim['unit']}"
    sides = {"above": claim["lower"], "at most": claim["upper"]}
    bound = ", ".join(f"{side} {value:g}" for side, value in sides.items() if value is not None)
    within = "" if claim["cells"] is None else f"{claim['cells_within']} of {claim['cells']}"
    seeds, cell = str(claim["seeds"] or ""), claim["cell"] or ""
    return [claim["claim"], *second, shown, bound, within, seeds, p_of(claim), cell]


def is_beyond(claim: Claim) -> bool:
    """Whether the whole interval lies outside the bounds of the claim."""
    low, high, lower, upper = (claim[key] for key in ("ours_low", "ours_high", "lower", "upper"))
    return low is not None and bool(
        (lower is not None and high < lower) or (upper is not None and low > upper)
    )


def wanted(claim: Claim) -> str:
    """What stands under `seeds needed`."""
    return "" if claim["verdict"] == "not run" else str(claim["seeds_wanted"] or "-")


def main() -> None:
    PAGE.write_text(page(Path(sys.argv[1])), encoding="utf-8")


if __name__ == "__main__":
    main()
