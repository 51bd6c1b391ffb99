"""docs/error-rates.md, from the recorded rates: of the pipeline's verdicts and of `compare`.

python -m benchmarks.error_rates_page
"""

import itertools
import math
from typing import Any

import duckdb
import numpy as np

from benchmarks import comparison_rates_page, records
from benchmarks.error_rates import METHODS, NARROWER, SEEDS, by_variance, errors
from pike_mixing.comparison import mean_difference
from pike_mixing.comparison.distributions import normal_quantile
from pike_mixing.comparison.mean_difference import LEVEL, Estimate

PAGE = records.ROOT / "docs" / "error-rates.md"
INTERVALS = ("mean losses", "accuracies", "speed-ups", "regrets over scenarios")
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
ONE_FAR_OFF = """
with losses as (
    select split_part(run, '/', 3) as method, split_part(run, '/', 4) as seed, nll
    from read_parquet(?)
    where run like 'installed/nano/pike/%' or run like 'installed/nano/mix/%'
    qualify step = max(step) over ()
)
select avg(nll) filter (method = 'pike') - avg(nll) filter (method = 'mix')
from losses group by seed order by seed
"""
"""By seed the loss of PiKE less that of Mix on the installed text, in the default experiment."""
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
    head = ["seeds drawn from PiKE's 16 on installed text, one of them far off",
            *(f"{seeds} seeds" for seeds in SEEDS)]  # fmt: skip
    missed = [f"{misses_one_far_off(seeds):.0%}" for seeds in SEEDS]
    text += f"{records.table(head, [['intervals that miss their mean', *missed]])}\n"
    return text + comparison_rates_page.section(records.read("comparison_rates"))


def misses_one_far_off(seeds: int) -> float:
    """How often the interval misses the mean of `ONE_FAR_OFF`, of which seeds are drawn."""
    recorded = str(records.ROOT / "recorded" / "records" / "perplexities.parquet")
    every = np.array(duckdb.execute(ONE_FAR_OFF, [recorded]).fetchall()).ravel()
    apart_NxS = np.random.default_rng(0).choice(every, (5000, seeds)) - every.mean()
    pairs = zip(apart_NxS.mean(axis=1), apart_NxS.std(axis=1, ddof=1) / seeds**0.5, strict=True)
    found = [Estimate(float(m), float(error), 0.0, seeds, 1.0) for m, error in pairs]
    return sum(abs(e.difference) > (mean_difference.half_width(e) or 0) for e in found) / len(found)


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
