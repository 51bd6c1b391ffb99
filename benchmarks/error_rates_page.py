"""docs/error-rates.md, from the recorded rates: of the pipeline's verdicts and of `compare`.

python -m benchmarks.error_rates_page
"""

import itertools
import math
from typing import Any

from benchmarks import comparison_rates_page, records
from benchmarks.error_rates import METHODS, NARROWER, SEEDS, by_variance, errors
from pike_mixing.comparison import mean_difference
from pike_mixing.comparison.distributions import normal_quantile
from pike_mixing.comparison.mean_difference import LEVEL

PAGE = records.ROOT / "docs" / "error-rates.md"
INTERVALS = ("mean losses", "accuracies", "speed-ups", "regrets over scenarios")
COUNTS = ("draws", "given", "wrong", "all_given", "all_wrong")
MOST = 0.97
"""Coverage above which an interval is wider than it need be."""
HEAD = """# How often verdicts are wrong

Differences of known truth are drawn and judged by the code that judges runs: percent of wrong
verdicts at a level of 5%, mean over seven cases. `python -m benchmarks.error_rates`, {date},
{commit}: {times} draws of each case and number of seeds ({ranks} of ranks). Behind ± half of the
95% interval, which of the means is at most {most} (ranks: {most_ranks}).

"""
READ = """
Intervals hold the truth in {least} to {largest} of draws; of {all} cells {many} lie above 97%,
{surely} by more than the draws' error. Tables (Holm) and shares err less than their level.

Narrower intervals of mean losses are not used:

"""
WHOLE = """
By integration over all ratios of the seeds' error to the documents', known here: how often
intervals hold the truth, and the highest error in levels. Holm's correction asks {corrected:.2%} of
the first of 11 methods: Cochran and Cox's is too narrow there. No verdict rests on two seeds.

"""
LENGTHS = """
## Documents of very unequal length

A mean over tokens hangs on the longest documents. Where the difference follows the length, a
sample without the longest ones has a mean that is off, and an error that is too small. No verdict
is given there ([the rule](../pike_mixing/comparison/like_size.py)): it asks for more documents the
more unequal they are, unless they are cut at a length; a mean over domains asks for fewer in each.

`python -m benchmarks.length_rates`, {date}, {commit}: differences whose mean over all such text is
zero, of documents with lognormal lengths, some cut one standard deviation above the median. Each
cell is the percent of wrong verdicts among those given, and behind it the percent of samples that
get one, over {draws:,} draws with 1, 3 and 5 seeds. A rate of 5% of all of them has half a 95%
interval of {half:.1f}. Rows without any verdict are left out.

"""
LENGTHS_READ = """
Of differences that follow log length, or nothing, {most} of the verdicts are wrong, in the highest
cell in which half of the samples get one {highest}. Two limits. Near the bound few samples pass,
and of these more lack the longest documents: {near} in the highest cell of one sample in ten to one
in two. And a difference proportional to length itself is more skewed: {itself} of its verdicts are
wrong, {itself_highest} in the highest cell of half of the samples. If the shares of tokens alone
decided, it were {without:.0f}% in the highest cell. The price is paid by differences that do not
follow length (correlation 0): whether they do, a small sample cannot tell. In the recorded results
two of six domains, `headers` and `dialogues`, get no verdict alone.

"""
WHOLES = {"ours": mean_difference.half_width, "Cochran and Cox": by_variance}
CORRECTED = LEVEL / METHODS


def half(cells: list[dict[str, Any]]) -> float:
    """Half of the 95% interval of a rate over cells, in percent."""
    draws, p = sum(c["draws"] for c in cells), mean(cells)
    return 100 * normal_quantile(LEVEL) * math.sqrt(p * (1 - p) / draws)


def mean(cells: list[dict[str, Any]]) -> float:
    """The rate of wrong verdicts over cells."""
    return float(sum(c["wrong"] for c in cells) / sum(c["draws"] for c in cells))


def page(record: dict[str, Any]) -> str:
    by: dict[str, list[list[dict[str, Any]]]] = {}
    for kind in dict.fromkeys(c["kind"] for c in record["cells"]):
        of_kind = [c for c in record["cells"] if c["kind"] == kind]
        by[kind] = [[c for c in of_kind if c["seeds"] == seeds] for seeds in SEEDS]
    rows, narrower = [], []
    for kind, by_seeds in by.items():
        means = [f"{100 * mean(cells):.1f}" for cells in by_seeds]
        worst = max(itertools.chain(*by_seeds), key=lambda c: mean([c]))
        highest = f"{100 * mean([worst]):.1f} ± {half([worst]):.1f}"
        if kind in NARROWER:
            own, ours = (sum(c[n] for c in by_seeds[0]) for n in ("width", "ours"))
            narrower.append([kind, *means, highest, f"{own / ours:.2f}"])
        else:
            rows.append([kind, *means, highest])
    every = [c for kind in INTERVALS for c in itertools.chain(*by[kind])]
    held = [1 - mean([c]) for c in every]
    wide = [c for c in every if 1 - mean([c]) > MOST]
    surely = [c for c in wide if 1 - mean([c]) - half([c]) / 100 > MOST]
    ranks = by["rank correlations"]
    text = HEAD.format(
        date=record["date"], commit=record["commit"][:7],
        times=by["mean losses"][0][0]["draws"], ranks=ranks[0][0]["draws"],
        most=f"{max(half(c) for kind in INTERVALS for c in by[kind]):.1f}",
        most_ranks=f"{max(map(half, ranks)):.1f}",
    )  # fmt: skip
    head = ["verdict", *(f"{seeds} seeds" for seeds in SEEDS), "highest cell"]
    text += f"{records.table(head, rows)}\n" + READ.format(
        least=f"{min(held):.1%}", largest=f"{max(held):.1%}", many=len(wide), all=len(held),
        surely=len(surely) or "none",
    )  # fmt: skip
    head = ["interval", *head[1:], f"width beside ours, {SEEDS[0]} seeds"]
    text += f"{records.table(head, narrower)}\n" + WHOLE.format(corrected=CORRECTED)
    head = ["seeds", *(f"{name}, {of}" for name in WHOLES
                       for of in (f"{1 - LEVEL:.0%}", f"error at {CORRECTED:.2%}"))]  # fmt: skip
    text += f"{records.table(head, list(map(wholes, (2, *SEEDS))))}\n\n"
    text += lengths(records.read("length_rates"))
    return text + comparison_rates_page.section(records.read("comparison_rates"))


def lengths(record: dict[str, Any]) -> str:
    """The section of documents of unequal length."""
    by: Cells = {}
    for cell in record["cells"]:
        shape = f"{cell['spread']}{', cut' if cell['cut'] else ''}"
        place = cell["domains"], shape, cell["follows"] or "nothing", cell["correlation"]
        sums = by.setdefault((*place, cell["documents"]), dict.fromkeys(COUNTS, 0))
        for name in COUNTS:
            sums[name] += cell[name]
    numbers = sorted({documents for *_, documents in by})
    rows = [
        [*map(str, place), *(_rate(by[*place, documents]) for documents in numbers)]
        for place in dict.fromkeys(key[:-1] for key in by)
        if any(by[*place, documents]["given"] for documents in numbers)
    ]
    some = next(iter(by.values()))["draws"]
    text = LENGTHS.format(
        date=record["date"], commit=record["commit"][:7], draws=some, half=half([_cell(0.05, some)])
    )
    head = ["domains", "spread of log length", "follows", "correlation"]
    head += [f"{documents} documents" for documents in numbers]
    return f"{text}{records.table(head, sorted(rows))}\n" + LENGTHS_READ.format(
        most=_together(by, 0.1, 1, itself=False),
        highest=_highest(by, 0.5, 1, itself=False),
        near=_highest(by, 0.1, 0.5, itself=False),
        itself=_together(by, 0.1, 1, itself=True),
        itself_highest=_highest(by, 0.5, 1, itself=True),
        without=max(
            100 * one["all_wrong"] / one["all_given"]
            for one in by.values()
            if one["all_given"] >= 0.1 * one["draws"]
        ),
    )


Cells = dict[tuple[Any, ...], dict[str, int]]


def _told(by: Cells, least: float, most: float, itself: bool) -> list[dict[str, int]]:
    """Verdicts of the cells in which such a share of samples gets one."""
    return [
        {"wrong": one["wrong"], "draws": one["given"]}
        for (*_, follows, _, _), one in by.items()
        if (follows == "length") == itself and least <= one["given"] / one["draws"] <= most
    ]


def _together(by: Cells, least: float, most: float, *, itself: bool) -> str:
    told = _told(by, least, most, itself)
    return f"{100 * mean(told):.1f} ± {half(told):.1f}%"


def _highest(by: Cells, least: float, most: float, *, itself: bool) -> str:
    worst = max(_told(by, least, most, itself), key=lambda one: mean([one]))
    return f"{100 * mean([worst]):.1f} ± {half([worst]):.1f}%"


def _cell(rate: float, draws: int) -> dict[str, float]:
    return {"wrong": rate * draws, "draws": draws}


def _rate(counts: dict[str, int]) -> str:
    """Percent of wrong verdicts, and of samples that get one; none of fewer than one in fifty."""
    share = counts["given"] / counts["draws"]
    if share < 0.02:
        return f"none ({share:.0%})"
    return f"{100 * counts['wrong'] / counts['given']:.1f} ({share:.0%})"


def wholes(seeds: int) -> list[str]:
    """A row of the last table."""
    row = [str(seeds)]
    for interval in WHOLES.values():
        held = [1 - error for error in errors(interval, seeds, LEVEL)]
        highest = max(errors(interval, seeds, CORRECTED)) / CORRECTED
        row += [f"{min(held):.1%} to {max(held):.1%}", f"{highest:.2f}"]
    return row


if __name__ == "__main__":
    PAGE.write_text(page(records.read("error_rates")), encoding="utf-8")
