"""docs/finders.md, which reports show, too, from records: finders, own_swarm, two_phases, scaling.

python -m benchmarks.finders_page
"""

import csv
import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.finder_scores import MEAN, of_correlation, of_deviation
from benchmarks.records import RESULTS, ROOT, read, table
from pike_mixing import bench
from pike_mixing.comparison.distributions import two_sided_critical_t

PAGE = ROOT / "docs" / "finders.md"
TITLE = """# How good the finders are

Made by `python -m benchmarks.finders_page` from records that are named below, and from
`pike_mixing/bench_board.json` (`python -m benchmarks.bench_board --tables ...`); do not edit. The
board: {drawn}.
"""
HEAD = """
## Earlier: fits to all of RegMix's runs of 1M

From records in `benchmarks/results`: `finders.json`
(`python -m benchmarks.finders`, commit {commit}), `own_swarm.json` ({own}), `two_phases.json`
({phases}), `scaling.json` ({scaled}); settings: `benchmarks/finders.yaml`.

Finders are fitted to RegMix's runs of 1M parameters ({train} of them: 17 domains of the Pile, 1B
tokens) and predict the losses of others: {small} of 1M, the same mixtures at 60M, {large} others of
1B (25B tokens). `mixing-law` is fitted with `kl: 0`, `regmix` are boosted trees, `linear` is
least squares, to compare with. The targets are 13 validation losses, each alone, and their mean.

In parentheses: 95 % intervals. Most are quantiles over new draws of the training runs ({draws} of
each number of runs below {train}), the test runs and, for means over targets, the targets. Single
rank correlations on held-out runs have Fisher's z, differences of seeds Student's t. RegMix's runs
are not repeated, so every number contains the noise of single runs. *Regret*: how much the loss of
the run that is predicted best lies above the lowest loss, divided by the same for a run at random.
Only mixtures that were trained are judged.
"""


def main() -> None:
    record, own, phases, scaled = map(read, ("finders", "own_swarm", "two_phases", "scaling"))
    rows, config = record["rows"], record["config"]
    head = HEAD.format(
        commit=record["commit"],
        own=own["commit"],
        phases=phases["commit"],
        scaled=scaled["commit"],
        train=rows["train"],
        small=rows["1M"],
        large=rows["1B"],
        draws=config["draws"],
    )
    board = json.loads(bench.BOARD.read_text(encoding="utf-8"))
    drawn = [
        f"{', '.join(one['tables'])} at commit {one['commit']}, {one['minutes']:.1f} minutes"
        for one in board["drawn"]
    ]
    parts = [
        TITLE.format(drawn="; ".join(drawn)),
        *of_board(board["methods"]),
        head,
        *statements(record),
        *by_runs(record, "spearman", "Rank correlation, mean over 13 targets"),
        *by_runs(record, "regret", "Regret, mean over 13 targets"),
        *by_target(record),
        *optima(record),
        *of_own(own),
        *of_phases(phases),
        *of_scaling(scaled),
        LEFT_OUT,
    ]
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    print(PAGE)


LEFT_OUT = """
## Not judged here

`best` and `average` predict no loss; MDE and MixMin need predictions of single
tokens, losses over steps or influences ([sources](methods.md#finders)). marin's table (796 MB) was
not fetched. UtiliMax (arXiv 2501.11747) predicts no loss and needs runs of single domains; of its
code only copies by others were found. AutoScale's law (2407.20177), fitted to mixtures as Olmix
does, had a rank correlation of 0.73 on RegMix's runs of 1M and could not follow a known law of
three domains: it is left out.
"""


HOME = "regmix at 1M"
DOMAINS = {HOME: 17, "olmix-dclm": 24, "olmix-full": 64}
"""Tables in which runs of one size are predicted, with how many domains they have."""
COSTS = """
## What a search costs

A search of n runs that are as long as the training costs n + 1 trainings. On registered scenarios
([boards](leaderboard.md#searched-mixtures)) 27 such runs gained 0.028 ± 0.015 nats without a target
on 384,000 tokens. On 3,072,000 tokens no gain was shown, and runs an eighth as long (4 trainings)
*lost* 0.035 ± 0.021. So let the runs of a search be as long as the training, or at least read each
domain as many times: `fit` warns if these differ by more than a factor of two. With a target, train
on it.
"""
BENCH = """
## Enter your own

`pip install "./pike_mixing[finders]"` in the clone installs the command.

```sh
pike-mixing bench mine.py                       # a minute: scores, and differences from the board
pike-mixing bench                               # the board alone
pike-mixing swarms olmix-full                   # fetches a table, for --tables olmix-full.csv.gz
pike-mixing bench mine.py --open-sealed "Ada"   # the sealed part; who opens it is recorded first
```

`mine.py` has two functions; the command's `--help` explains shapes and scores:

```python
import numpy as np


def fit(weights, losses, epochs):
    return np.linalg.lstsq(weights, losses)[0]


def predict(fitted, weights, epochs):
    return weights @ fitted  # or (losses, spreads)
```
"""


def of_board(methods: Sequence[dict[str, Any]]) -> list[str]:
    """Which finder, how sure, at what cost; then the board."""
    named = {one["method"]: one for one in methods}
    with (RESULTS / "sealed_openings.csv").open(encoding="utf-8", newline="") as file:
        opened = list(csv.DictReader(file))
    listed = {name: one for name, one in named.items() if name != bench.PERMUTED}
    return [
        *advice(named),
        *certainty(listed),
        COSTS,
        *inventories(named),
        *cells(listed),
        BENCH,
        "The sealed part is RegMix's 64 runs of 1B, and `olmix-reuse` (64 runs of Olmix's), which "
        "no finder here was judged on. Who opened what (`benchmarks/results/sealed_openings.csv`):",
        "",
        *(f"- {row['date']}: {row['who']}, {row['method']}: {row['opened']}" for row in opened),
    ]


def advice(named: dict[str, Any]) -> list[str]:
    """For each number of runs the finder of the highest rank correlation, and those not behind."""
    rows = []
    finders = {n: one for n, one in named.items() if n not in (bench.PERMUTED, "linear")}
    for (place, domains), runs in itertools.product(DOMAINS.items(), bench.RUNS):
        cell = f"{place}|{runs}"
        scored = {
            n: bench.mean_over_folds_and_targets(np.array(one["cells"][cell]["spearman"])[:, :-1])
            for n, one in finders.items()
            if "spearman" in one["cells"].get(cell, ())
        }
        if not scored:
            continue
        best = max(scored, key=lambda n: scored[n][0])
        apart = {
            row["against"]: row
            for row in bench.scores_minus_board(named[best], list(finders.values()))
            if (row["cell"], row["measure"]) == (cell, "spearman")
        }
        equal = [n for n, row in apart.items() if abs(row["difference"]) <= row["half"]]
        behind = [n for n in apart if n not in equal]
        where = named[best]["cells"][cell]
        rows.append(
            [
                domains,
                runs,
                f"`{best}`",
                *(_mean(where, measure) for measure in bench.RANKED),
                ", ".join(f"`{n}`" for n in equal) or "none",
                ", ".join(f"`{n}`" for n in behind) or "none",
            ]
        )
    titles = ["domains", "runs", "take", "rank correlation", "regret", "picks the better of two"]
    return [
        "\n## Which finder\n",
        "Finders are compared on each loss by itself, for runs that were not used in the fit: "
        "RegMix's runs of 1M parameters on 17 domains, Olmix's of 30M on 24 and 64, whose losses "
        "are bits per byte of tasks. Behind ±: half of the 95 % interval over folds and targets.",
        "",
        table([*titles, "not shown to be behind", "behind"], rows),
        "",
        "`mixing-law` needs more runs than domains, and mixtures that span them all: Olmix's "
        "mixtures, of few domains each, do not. `exposure-law` needs to know how much text each "
        "domain has, and Olmix's tables do not say it. It is the only finder that can use runs "
        "which had other amounts of text. With fewer than 32 runs no finder is judged here: take "
        "the mixture of your best run. The exponent of the weights in `gaussian-process` and the "
        "grid of `exposure-law` were chosen on RegMix's runs, also on those that test them here. "
        "So their rows for 17 domains may be too good.",
    ]


def _mean(cell: dict[str, Any], measure: str) -> str:
    if measure not in cell:
        return "none"
    mean, half, _ = bench.mean_over_folds_and_targets(np.array(cell[measure])[:, :-1])
    return f"{mean:.3f} ± {half:.3f}"


def certainty(named: dict[str, Any]) -> list[str]:
    """How often intervals contained the loss."""
    means, single = {}, []
    for name, one in named.items():
        for cell, scored in one["cells"].items():
            if "coverage" in scored and int(cell.rpartition("|")[2]) >= 64:
                by_target_T = np.mean(scored["coverage"], axis=0)
                means[f"`{name}`, {cell.replace('|', ', ')} runs"] = by_target_T[:-1].mean()
                single += by_target_T.tolist()
    beyond = [f"{n} ({v:.1%})" for n, v in means.items() if not 0.85 <= v <= 0.95]
    return [
        "\n## How sure\n",
        f"Intervals of 90 % contained {min(means.values()):.1%} to {max(means.values()):.1%} of "
        f"the runs, mean over targets, and {min(single):.1%} to {max(single):.1%} for single "
        f"targets. This is over the {len(means)} rows of the board that have 64 runs or more and "
        "an interval. "
        + (f"Outside of 85 to 95 %: {', '.join(beyond)}. " if beyond else "")
        + "Intervals are calibrated on held-out parts of the runs that are fitted. They hold only "
        "for runs of the same model size with mixtures drawn in the same way. For other sizes "
        "there is no interval.",
    ]


def inventories(named: dict[str, Any]) -> list[str]:
    """What the exposure law has learned from how much text there is."""
    rows = bench.scores_minus_board(named["exposure-law"], [named[bench.PERMUTED]])
    told = [
        f"{row['difference']:+.4f} ± {row['half']:.4f} ({row['cell'].rpartition('|')[2]} runs)"
        for row in rows
        if row["measure"] == "spearman" and row["cell"].startswith(HOME)
    ]
    worse = any(r["p"] is not None and r["p"] < 0.05 and r["difference"] > 0 for r in rows)
    lines = [
        "\n## Has the exposure law learned from amounts of text?\n",
        "Rank correlation with the right amounts of text, minus the rank correlation when each "
        f"domain is given the amount of another, on `{HOME}`: {'; '.join(told)}. "
        + (
            "With the amounts of other domains it is worse."
            if worse
            else "With the wrong amounts it is not worse: **here it has learned nothing from "
            "them**. All of RegMix's runs have the same text, and mostly read less than an epoch "
            "of it: so the coefficient of a domain can replace its amount of text."
        ),
    ]
    return [*lines, "", *repetition(read("repetition"))]


COMPARED = {
    "other-inventories": "error for amounts of text that no fitted run had, minus the mixing law's",
    "longer": "loss after eight times the tokens, minus that of the mixing law's choice",
    "over-equal-shares": "the same, minus that of equal shares",
    "permuted": "error with amounts of text swapped in the fit, minus that with the right ones",
    "against-process": "loss after eight times the tokens, minus that of the Gaussian process",
    "against-best-run": "the same, minus that of the best of the twelve runs",
}
"""Of the exposure law, by outcome of the experiment on repetition."""


def repetition(found: dict[str, Any]) -> list[str]:
    """What the registered experiment on repetition found."""
    outcomes = found["outcomes"]
    rows = [
        [
            COMPARED[name],
            f"{one['expected']:+.2f}" if "expected" in one else "",
            f"{one['difference']:+.3f} ± {one['half']:.3f}",
            "" if one["p"] is None else f"{one['p']:.3f}",
        ]
        for name, one in outcomes.items()
    ]
    registered = [one for one in outcomes.values() if one["p"] is not None]
    shown = sum(one["p"] < 0.05 for one in registered)
    means = {name: np.mean(ends, axis=0) for name, ends in found["losses"].items()}

    def lower(name: str, than: str) -> str:
        return f"{(means[name] < means[than]).sum()} of {len(means[name])}"

    return [
        "Runs with *different* amounts of text were made for this. At equal shares the four "
        "domains are read 0.1 to 16 times in the short runs; the long ones read eight times as "
        "much. There are four assignments of amounts to domains, with twelve short runs each. "
        f"This was registered in `benchmarks/repetition.yaml` and run at {found['commit']} in "
        f"{found['minutes']:.0f} minutes. Nats; behind ±, half of the 95 % interval over the "
        "assignments:",
        "",
        table(["the exposure law's", "expected", "found", "p, Holm"], rows),
        "",
        f"**Of the {len(registered)} predictions {shown or 'none'} is shown** at 5 %. For amounts "
        "of text that it has not seen, the exposure law's error is not shown to be smaller than "
        "the mixing law's. For the long training, where it is given the amounts of text, its "
        f"choice ended below equal shares in {lower('exposure-law', 'equal')} assignments and "
        f"below the mixing law's choice in {lower('exposure-law', 'mixing-law')}. The Gaussian "
        "process, which knows only the weights, is about as good. So nothing here makes the "
        "exposure law the first choice. "
        "The best of the twelve short runs ended below equal shares in "
        f"{lower('best-run', 'equal')} assignments. Four are too few to show that a search by "
        "short runs helps where text is read many times.",
    ]


def cells(named: dict[str, Any]) -> list[str]:
    """Every measure of every method, for runs of the size of the fitted ones."""
    found = {cell for one in named.values() for cell in one["cells"]}
    places = [f"{p}|{n}" for p in DOMAINS for n in bench.RUNS if f"{p}|{n}" in found]
    rows = [
        [f"`{name}`", cell.rpartition("|")[2], cell.rpartition("|")[0]]
        + [_mean(one["cells"][cell], measure) for measure in bench.MEASURES]
        for cell in places
        for name, one in named.items()
        if cell in one["cells"]
    ]
    return [
        "\n## The board\n",
        "Each loss by itself, mean over folds and targets. *Accuracy*: how often the better of two "
        "runs is picked. *Coverage*: the share of runs within their 90 % intervals. *Width*: the "
        "width of these intervals divided by the losses' standard deviation. `linear`: least "
        "squares. `none`: the method could not be fitted.",
        "",
        table(["method", "runs", "on", *bench.MEASURES], rows),
    ]


def shown(interval: Sequence[float], digits: int = 2) -> str:
    """0.93 (0.82 to 0.96)."""
    value, low, high = (f"{round(number, digits) + 0.0:.{digits}f}" for number in interval)
    return f"{value} ({low} to {high})"


def statements(record: dict[str, Any]) -> list[str]:
    """What the numbers say, in sentences."""
    differences, cells, direct = record["differences"], record["cells"], record["direct"]["1M|60M"]
    headline = record["config"]["headline"]

    def apart(key: str, target: str = "each") -> str:
        return shown(differences[key][target], 3)

    def cell(key: str, measure: str = "spearman", target: str = "each") -> str:
        return shown(cells[key][measure][target])

    law, trees = record["config"]["finders"]
    first, middle, *_, last = record["config"]["runs"]
    most, some = f"{law}|{last}|{trees}|{last}", f"{law}|{middle}|{trees}|{last}"
    more_trees, more_law = f"{trees}|{last}|{trees}|{middle}", f"{law}|{last}|{law}|{middle}"
    return [
        "\n## What it says\n",
        "- **What a proxy of 1M says of 60M**: losses of the same mixtures have the rank "
        f"correlation {shown(direct['spearman']['each'], 3)}, mean over targets, and "
        f"{shown(direct['spearman'][MEAN], 3)} for the mean of all losses.",
        f"- **What it says of 1B**: from {last} runs, trees predict single losses with "
        f"{cell(f'{trees}|{last}|1B')} and the mean of all with "
        f"{cell(f'{trees}|{last}|1B', target=MEAN)}; the law with "
        f"{cell(f'{law}|{last}|1B')} and {cell(f'{law}|{last}|1B', target=MEAN)}.",
        f"- **Law or trees?** The law's rank correlation minus the trees', {last} runs each: "
        f"{apart(f'{most}|1M')} at 1M, {apart(f'{most}|1B')} at 1B. For `{headline}` at 1B: "
        f"{apart(f'{most}|1B', headline)}, and with {middle} runs against the trees' {last}: "
        f"{apart(f'{some}|1B', headline)}. Fit both, and compare them on held-out rows "
        "(`fit` prints that).",
        f"- **What do more runs gain?** {last} in place of {middle} runs change the trees' "
        f"rank correlation by {apart(f'{more_trees}|1M')} at 1M and "
        f"{apart(f'{more_trees}|1B')} at 1B, "
        f"the law's by {apart(f'{more_law}|1M')} and {apart(f'{more_law}|1B')}; {middle} in place "
        f"of {first} change the law's, which has 18 coefficients for a loss here, by "
        f"{apart(f'{law}|{middle}|{law}|{first}|1M')} at 1M.",
        f"- **Is a straight line enough?** The law's rank correlation minus that of `linear`, "
        f"{last} runs: {apart(f'{law}|{last}|linear|{last}|1B')} at 1B.",
        f"- **Nats**: a difference of one nat that trees predict from {last} runs of 1M is "
        f"{cell(f'{trees}|{last}|1M', 'slope')} nats measured at 1M, "
        f"{cell(f'{trees}|{last}|60M', 'slope')} at 60M and "
        f"{cell(f'{trees}|{last}|1B', 'slope')} at 1B.",
        "",
        f"The intervals of {decided(differences)} of the {len(differences)} recorded differences "
        "exclude 0, without a correction for their number.",
    ]


def decided(differences: dict[str, Any]) -> int:
    """Differences over targets whose interval excludes 0."""
    return sum(low > 0 or high < 0 for _, low, high in (d["each"] for d in differences.values()))


def by_runs(record: dict[str, Any], measure: str, title: str) -> list[str]:
    """A measure by finder, number of runs and test: spearman, regret or slope."""
    config, cells = record["config"], record["cells"]
    # The record has all numbers of runs; of what is there to compare with, the most are shown.
    first, middle, *_, last = config["runs"]
    made = [(name, n) for name in config["finders"] for n in (first, middle, last)]
    made.append(("linear", last))
    rows = [
        [
            name,
            n,
            *(shown(cells[f"{name}|{n}|{test}"][measure]["each"]) for test in config["tests"]),
        ]
        for name, n in made
    ]
    return [f"\n## {title}", "", table(["finder", "runs", *config["tests"]], rows)]


def by_target(record: dict[str, Any]) -> list[str]:
    """Rank correlation at 1B by target."""
    cells = record["cells"]
    finders, runs = record["config"]["finders"], record["config"]["runs"][-1]
    rows = [
        [t, *(shown(cells[f"{name}|{runs}|1B"]["spearman"][t]) for name in finders)]
        for t in record["targets"]
    ]
    title = f"\n## Rank correlation at 1B by target, {runs} runs"
    return [title, "", table(["target", *finders], rows)]


def optima(record: dict[str, Any]) -> list[str]:
    config, cells = record["config"], record["cells"]
    rows = [
        [name, *(_distance(cells[f"{name}|{n}|optimum"]) for n in config["runs"][:-1])]
        for name in config["finders"]
    ]
    return [
        "\n## Repeatability\n",
        "The share of the weight that differs between two mixtures, each found from another draw "
        "of this number of runs, mean over targets. In square brackets: how many mixtures were not "
        "found.",
        "",
        table(["finder", *(f"{n} runs" for n in config["runs"][:-1])], rows),
    ]


def _distance(cell: dict[str, Any]) -> str:
    missed = f" [{cell['missed']} of {cell['of']}]" if cell["missed"] else ""
    return f"{shown(cell['distance'])}{missed}"


def of_own(own: dict[str, Any]) -> list[str]:
    scored, held_out = own["next"]["scores"], own["held_out"]
    finals = {name: np.array(final["losses"]) for name, final in own["finals"].items()}
    rows = [
        [n, f"{actual:.3f}", *(f"{own['next']['predicted'][f][n]:.3f}" for f in scored)]
        for n, actual in enumerate(own["next"]["actual"])
    ]
    words = [
        f"{name} {_paired(finals['mix'] - losses)}"
        for name, losses in finals.items()
        if name != "mix"
    ]
    noise = of_deviation(np.stack(list(finals.values())))
    law, trees = (
        shown(of_correlation(held_out[name]["held_out_spearman"], own["runs"]))
        for name in ("law", "trees")
    )
    errors = [1.96 * held_out[name]["held_out_rmse"] for name in ("law", "trees")]
    return [
        "\n## A swarm of our own, from the draw to the verdict\n",
        f"Models of the size pico were trained on {own['runs']} mixtures of "
        f"{', '.join(own['domains'])} (the default experiment has other domains now). The target "
        f"is the mean of the {len(own['domains'])} losses. On held-out runs, the law's rank "
        f"correlation is {law}, the trees' {trees}. Then {len(rows)} mixtures that an informative "
        f"design proposed were trained (95 %: measured ± {1.96 * noise[0]:.3f} by repeats, law ± "
        f"{errors[0]:.3f}, trees ± {errors[1]:.3f} by held-out errors):",
        "",
        table(["next", "measured", *(f"predicted, {name}" for name in scored)], rows),
        "",
        *(
            f"- {name}: rank correlation {_of(score['spearman'])}, slope {_of(score['slope'])}"
            for name, score in scored.items()
        ),
        "",
        f"On {len(finals['mix'])} new seeds, the mixtures that were found "
        f"lower the loss of equal shares by (nats, 95 % over seeds): {'; '.join(words)}. "
        f"Repeats of a mixture differ by a standard deviation of {shown(noise, 3)} nats.",
    ]


def of_phases(record: dict[str, Any]) -> list[str]:
    """The schedule that was found, and what it and its order are worth."""
    losses = {name: np.array(values) for name, values in record["losses"].items()}
    rows = [
        [domain, *(f"{weight:.2f}" for weight in weights)]
        for domain, *weights in zip(
            record["domains"], *record["phases"], record["static"], strict=True
        )
    ]
    pairs = {
        "equal shares": "equal",
        "the static mixture that the law finds": "static",
        "the same exposure without phases": "same-exposure",
        "the same phases in reverse order": "reversed",
    }
    phased, static = (
        shown(of_correlation(record["held_out"][name], record["runs"]))
        for name in ("phased", "static")
    )
    return [
        "\n## Two phases, at equal exposure\n",
        f"{record['runs']} pico runs of the same scenario trained on two drawn mixtures, half "
        "of the run each. Held out, the law of both phases has the rank correlation "
        f"{phased}, that of the mean exposure {static}. The mixtures that they find, then trained:",
        "",
        table(["domain", "first half", "second half", "static"], rows),
        "",
        f"At nano, {len(losses['equal'])} new seeds, the schedule lowers the mean loss by (nats, "
        "95 % over seeds; below 0 it raises it)",
        "",
        *(
            f"- against {words}: {_paired(losses[name] - losses['schedule'])}"
            for words, name in pairs.items()
        ),
    ]


def of_scaling(record: dict[str, Any]) -> list[str]:
    """What smaller runs say of a larger size."""
    return [
        "\n## Losses at a larger size\n",
        f"From smaller runs the law predicts {record['runs']} runs of 1.235B parameters and "
        "46B tokens (table: `benchmarks/scaling.py`; no licence seen, not packaged); RMSE (nats), "
        "rank correlation, regret (nats):",
        "",
        *(
            f"- {name}: {_of(score['rmse'], 3)}; {_of(score['spearman'], 3)}; "
            f"{_of(score['regret'], 4)}"
            for name, score in record["scores"].items()
        ),
    ]


def _of(interval: dict[str, float], digits: int = 2) -> str:
    return shown([interval["value"], interval["low"], interval["high"]], digits)


def _paired(gain_S: Any) -> str:
    """Mean and 95 % by Student's t over seeds."""
    error = gain_S.std(ddof=1) / np.sqrt(len(gain_S)) * two_sided_critical_t(0.05, len(gain_S) - 1)
    return shown([gain_S.mean(), gain_S.mean() - error, gain_S.mean() + error], 3)


if __name__ == "__main__":
    main()
