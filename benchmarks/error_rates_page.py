"""docs/error-rates.md, from the recorded rates: of the pipeline's verdicts and of `compare`.

python -m benchmarks.error_rates_page
"""

import itertools
import math
from typing import Any

from benchmarks import comparison_rates_page, records
from benchmarks.error_rates import METHODS, NARROWER, SEEDS, by_variance, errors
from pike_mixing.comparison import mean_difference
from pike_mixing.comparison.distributions import two_sided_critical_z
from pike_mixing.comparison.mean_difference import LEVEL

PAGE = records.ROOT / "docs" / "error-rates.md"
INTERVALS = ("mean losses", "accuracies", "speed-ups", "regrets over scenarios")
COUNTS = ("draws", "given", "wrong", "plain_wrong", "all_given", "all_wrong", "width")
OWN = 0.1
"""Share of samples with a verdict from which on a cell has a rate of its own."""
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
sample without the longest ones has a mean that is off, and an error that is too small. Two things
stand against it ([the rule](../pike_mixing/comparison/document_sizes.py)). No verdict is given on
few documents of very unequal length: more are asked for the more unequal they are, unless they are
cut at a length; a mean over domains asks for fewer in each. And where verdicts begin, those
samples get one that lack the longest documents: there what follows length in the sample counts more
in its variance, up to 26-fold. Intervals of documents of one length are as they are.

`python -m benchmarks.length_rates`, {date}, {commit}: differences whose mean over all such text is
zero, of documents with lognormal lengths, some cut one standard deviation above the median. Each
cell is the percent of wrong verdicts among those given, and behind it the percent of samples that
get one, over {draws:,.0f} draws with 1, 3 and 5 seeds. A rate of 5% of all of them has half a 95%
interval of {half:.1f}. Rows without any verdict are left out. Cells in which less than one sample
in ten gets a verdict have no rate: these are counted together.

"""
LENGTHS_READ = """
Percent of wrong verdicts in all, and how wide the intervals are beside plain ones, on average:

{rows}

Plain intervals would err in {plain}% of the verdicts of the highest cell that follows log length,
and in {plain_itself}% of that which follows length itself; if the shares of tokens alone decided,
too, in {without:.0f}%. The price is paid by differences that do not follow length: whether they do,
a small sample cannot tell. In the recorded results two of six domains, `headers` and `dialogues`,
get no verdict alone. The other tables of this page were drawn with plain intervals: in their cells
of unequal documents intervals are now wider by 0.4% on average, by 4% at most, and err less.

"""
WHOLES = {"ours": mean_difference.half_width, "Cochran and Cox": by_variance}
CORRECTED = LEVEL / METHODS


def half(cells: list[dict[str, Any]]) -> float:
    """Half of the 95% interval of a rate over cells, in percent."""
    draws, p = sum(c["draws"] for c in cells), mean(cells)
    return 100 * two_sided_critical_z(LEVEL) * math.sqrt(p * (1 - p) / draws)


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
        sums = by.setdefault((*place, cell["documents"]), dict.fromkeys(COUNTS, 0.0))
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
        date=record["date"],
        commit=record["commit"][:7],
        draws=some,
        half=half([{"wrong": 0.05 * some, "draws": some}]),
    )
    head = ["domains", "spread of log length", "follows", "correlation"]
    head += [f"{documents} documents" for documents in numbers]
    kinds = {name: _of(by, name) for name in ("nothing", "log length", "length")}
    read = LENGTHS_READ.format(
        rows=records.table(
            ["follows", "cells", "all", "highest cell", "those of few verdicts together", "width"],
            [[name, *_told(cells)] for name, cells in kinds.items()],
        ),
        plain=_highest(kinds["log length"], "plain_wrong"),
        plain_itself=_highest(kinds["length"], "plain_wrong"),
        without=max(
            100 * one["all_wrong"] / one["all_given"]
            for one in by.values()
            if one["all_given"] >= OWN * one["draws"]
        ),
    )
    return f"{text}{records.table(head, sorted(rows))}\n{read}"


Counts = dict[str, float]
Cells = dict[tuple[Any, ...], Counts]


def _of(by: Cells, follows: str) -> list[Counts]:
    """The cells whose difference follows this, with verdicts."""
    return [one for (*_, own, _, _), one in by.items() if own == follows and one["given"]]


def _told(cells: list[Counts]) -> list[str]:
    """A row: cells with rates, the rate of all, the highest, that of the others, the width."""
    own = [one for one in cells if _has_rate(one)]
    few = [one for one in cells if not _has_rate(one)]
    width = sum(one["width"] for one in cells) / sum(one["given"] for one in cells)
    return [str(len(own)), _together(cells), _highest(own), _together(few), f"{width:.2f}"]


def _has_rate(counts: Counts) -> bool:
    return counts["given"] >= OWN * counts["draws"]


def _together(cells: list[Counts], wrong: str = "wrong") -> str:
    told = [{"wrong": one[wrong], "draws": one["given"]} for one in cells]
    return f"{100 * mean(told):.1f} ± {half(told):.1f}" if told else ""


def _highest(cells: list[Counts], wrong: str = "wrong") -> str:
    own = filter(_has_rate, cells)
    return _together([max(own, key=lambda one: one[wrong] / one["given"])], wrong)


def _rate(counts: Counts) -> str:
    """Percent of wrong verdicts, and of samples that get one."""
    share = counts["given"] / counts["draws"]
    if not _has_rate(counts):
        return f"{'few' if share else 'none'} ({share:.0%})"
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
