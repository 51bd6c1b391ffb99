"""The section of docs/error-rates.md on `pike-mixing compare`, from the recorded rates."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from scipy import stats

from benchmarks import records
from benchmarks.comparison_rates import ITEMS, RARE, RIVALS, SEEDS
from pike_mixing.comparison.distributions import two_sided_critical_z
from pike_mixing.comparison.mean_difference import LEVEL

LEAST, MOST = 0.93, 0.98
"""Of the share of intervals that hold the truth."""
HIGHEST = 0.065
"""Of the upper end of the interval of a rate of false verdicts."""
ENOUGH = 0.05
"""Share of draws with a verdict from which on a cell counts as one that gets verdicts."""
HEAD = """
## Any two models

Two sides of equal worth, judged by `pike-mixing compare` over {least} to {most} items: percent of
false verdicts (better or worse) among the comparisons that get one.
`python -m benchmarks.comparison_rates`, {date}, {commit}: {times} draws of each cell ({long} of
5,000 items). One run stands for itself, so that its seed adds nothing; else seeds, documents and
chance weigh alike. A collapse: seeds of Student's t with three degrees of freedom, one of 16 ten
standard deviations below.

"""
READ = """
Behind ± half of the 95% interval. The 95% interval of a rate lies above 5% in {above} of
{given} cells with verdicts, where chance makes one in forty{names_above}. It ends above
{highest:.1%} in {open}{names_open}. Intervals hold the truth in {low:.1%} to {high:.1%} of
draws of {cells} cells: below {least:.0%} in {below} of them, above {most:.0%} in
{over}. Where half of the items are of one document, no verdict is ever given.

{wide}

{beyond}

What else is in use, on each item's mean over runs, in the cells of equal documents: percent of
differences found where nothing differs. Seeds are nothing that these tests know.

"""
REAL = """
Real scores: the recorded runs of one method, of sixteen seeds, in two groups: all pairs of runs,
a thousand drawn groups, all halves. Nothing differs but seeds: a difference of two such groups is
none of recipes. Percent of differences found in the mean of their domains (by the others: of
halves every seventh).

"""
WIDE = """
In the other {count} cells nearly all items show the same difference. There the interval keeps room
for a kind of item of which none was drawn (3/n), and in half of the draws or more the output says
that it is wider than 95% need: it holds the truth in {low:.1%} to {high:.1%} of draws, in which the
verdict is *cannot tell*. They are, as runs x items: {cells}.

No test can come nearer to 95% there. Of one run, 4% of the items differ: of {least} items less than
one, of 100 items four. With five or fewer, even if all favour one side, the exact p-value is
{p_of_five:.4f} or more. The exact sign test holds the truth in {exact:.1%} of samples of 100 items.
"""
ABOVE = """
Above {most:.0%} lie, as runs x items: {cells}. Of three runs that may collapse, Student's t is
wider than their mean needs, and a narrower quantile would err where seeds are normal.
"""
SEEN = """
The first row of each method is no error of a test: two checkpoints do differ on items like these.
That it is read as a verdict on their recipes is the error, which no test over items corrects, and
three seeds a side do. A collapse that none of the runs shows is seen by no test.
"""


def rate(cells: Sequence[dict[str, Any]], name: str, of: str) -> tuple[float, float]:
    """A rate over cells, and half of its 95% interval (Wilson's, so that it is never zero)."""
    count, times = (sum(c.get(n, 0) for c in cells) for n in (name, of))
    if not times:
        return math.nan, math.nan
    p, z = count / times, two_sided_critical_z(LEVEL)
    return p, z * math.sqrt(p * (1 - p) / times + z**2 / 4 / times**2) / (1 + z**2 / times)


def shown(cells: Sequence[dict[str, Any]], name: str, of: str) -> str:
    p, _ = rate(cells, name, of)
    return "" if math.isnan(p) else f"{100 * p:.1f}"


def kind(cell: dict[str, Any]) -> str:
    """A row of the table."""
    if cell["collapse"]:
        return "collapses"
    if cell["tasks"] > 1:
        which = "the same documents" if cell["shared"] else "documents of their own"
        return f"{cell['scores']}, mean of {cell['tasks']} tasks on {which}"
    return f"{cell['scores']}, documents {cell['documents']}"


def counted(kinds: Sequence[str]) -> str:
    """Kinds of cells, and how many there are of each."""
    each = (f"{one}: {kinds.count(one)}" for one in dict.fromkeys(kinds))
    return f" ({'; '.join(each)})" if kinds else ""


def listed(cells: Sequence[dict[str, Any]]) -> str:
    """Cells by their kinds, as runs x items."""
    by_kind: dict[str, list[str]] = {}
    for cell in cells:
        by_kind.setdefault(kind(cell), []).append(f"{cell['seeds']}x{cell['items']:,}")
    return "; ".join(f"{one} ({', '.join(of)})" for one, of in by_kind.items())


def name(cell: dict[str, Any]) -> str:
    runs = "1 run" if cell["seeds"] == 1 else f"{cell['seeds']} runs"
    return f"{kind(cell)}, {runs}, {cell['items']:,} items"


def _wide(cells: Sequence[dict[str, Any]]) -> str:
    """Of cells whose intervals the command calls wide: which, and how many hold."""
    held = [1 - rate([c], "missed", "given")[0] for c in cells]
    return WIDE.format(
        count=len(cells), low=min(held), high=max(held), cells=listed(cells), least=ITEMS[0],
        p_of_five=2 * 0.5**5, exact=1 - sign_test_error(100, 2 * RARE * (1 - RARE)),
    ).strip()  # fmt: skip


def sign_test_error(items: int, share: float) -> float:
    """How often the exact sign test finds a difference where items differ to either side alike.

    Args:
        items: Of each sample.
        share: The probability that an item differs.
    """
    least = (stats.binom.ppf(LEVEL / 2, k, 0.5) - 1 for k in range(items + 1))
    error_K = [2 * stats.binom.cdf(below, k, 0.5) for k, below in enumerate(least)]
    return float(stats.binom.pmf(range(items + 1), items, share) @ error_K)


def section(record: dict[str, Any]) -> str:
    """The section's text."""
    every = [c for c in record["cells"] if c["given"] >= ENOUGH * c["draws"]]
    rows = []
    for row in dict.fromkeys(map(kind, every)):
        of = [c for c in every if kind(c) == row]
        by_seeds = [shown([c for c in of if c["seeds"] == s], "false", "given") for s in SEEDS]
        p, half = max(rate([c], "false", "given") for c in of)
        highest = f"{100 * p:.1f} ± {100 * half:.1f}"
        rows.append([row, shown(of, "given", "draws"), *by_seeds, highest])
    times = max(c["draws"] for c in record["cells"])
    text = HEAD.format(
        least=ITEMS[0], most=f"{ITEMS[-1]:,}", date=record["date"], commit=record["commit"][:7],
        times=f"{times:,}", long=f"{times // 2:,}",
    )  # fmt: skip
    runs = [f"{s} run{'s' * (s > 1)}" for s in SEEDS]
    text += records.table(["scores", "get a verdict", *runs, "highest cell"], rows) + "\n"
    rates = [(c, *rate([c], "false", "given")) for c in every]
    above = [c for c, p, half in rates if p - half > LEVEL]
    wider = [kind(c) for c, p, half in rates if p + half > HIGHEST]
    wide = [c for c in every if 2 * c["wide"] >= c["given"]]
    rest = [c for c in every if c not in wide]
    held = [1 - rate([c], "missed", "given")[0] for c in rest]
    over = [c for c, value in zip(rest, held, strict=True) if value > MOST]
    read = READ.format(
        given=len(every), above=len(above) or "none", highest=HIGHEST,
        open=len(wider) or "none", names_open=counted(wider), low=min(held), high=max(held),
        names_above=f" ({'; '.join(map(name, above))})" if above else "",
        least=LEAST, most=MOST, below=sum(value < LEAST for value in held) or "none",
        over=len(over) or "none", cells=len(rest), wide=_wide(wide), beyond=ABOVE.format(
            most=MOST, cells=listed(over)
        ).strip() if over else "",
    )  # fmt: skip
    filled = [textwrap.fill(part, 98) for part in read.strip().split("\n\n") if part.strip()]
    text += "\n" + "\n\n".join(filled) + "\n\n"
    plain = [c for c in record["cells"] if c["documents"] == "equal" and not c["collapse"]]
    found = [
        [
            rival,
            *(
                shown([c for c in plain if c["seeds"] == s and rival in c], rival, "others")
                for s in SEEDS
            ),
        ]
        for rival in RIVALS
    ]
    text += records.table(["test", *runs], found) + "\n" + REAL
    others = [one for one in RIVALS if one != "McNemar"]
    real = [
        [
            f"{one['method']}, {one['size']} and {one['size']}",
            shown([one], "false", "given"),
            *(shown([one], other, "others") for other in others),
        ]
        for one in record["real"]
    ]
    return text + records.table(["runs", "`compare`", *others], real) + "\n" + SEEN
