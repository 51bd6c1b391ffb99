"""How often `pike-mixing compare` is wrong where nothing differs, beside what people use.

    python -m benchmarks.comparison_rates [--rounds 70] [--draws 50]

Two sides of equal worth are drawn and judged by the function that the command calls. A run's score
of an item is made of the item, what its document adds on that side (in all runs), the run's seed,
and chance; all three parts weigh alike in the error of the difference. One run a side stands for
itself, so that its seed adds nothing. Round r draws from seeds made of r, and the record is written
after each; sizes of 5,000 items take half of the draws.

Last, real scores: groups of the recorded seeds of one method are null comparisons.

Record: benchmarks/results/comparison_rates.json, from which docs/error-rates.md is written.

Shapes: S runs of a side, I items, G documents, K tasks.
"""

import argparse
import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure, records
from benchmarks.length_rates import Lengths
from pike_mixing.arrays import Floats, Ints
from pike_mixing.comparison import mean_difference, p_values, read_sides, scores, verdicts
from pike_mixing.comparison.distributions import two_sided_critical_z
from pike_mixing.comparison.mean_difference import LEVEL
from pike_mixing.comparison.scores import Paired, Run
from pipeline.runtime import code_fingerprint

SEEDS, ITEMS = (1, 3, 5, 16), (20, 100, 1000, 5000)
LENGTHS = {
    "unequal": Lengths(0.3, cut=False),
    "cut": Lengths(1.0, cut=True),
    "cut, by length": Lengths(1.0, cut=True, follows="log length"),
}
"""Of documents: lognormal; cut one standard deviation above the median."""
DOCUMENTS = ("equal", *LENGTHS, "one dominant")
SCORES = ("continuous", "0/1", "0/1, rarely different")
RARE = 0.02
"""How often a run departs from an item's usual point, where scores rarely differ."""
RESAMPLES = 200
REAL = ("installed/nano/mix", "installed/nano/pike")
RIVALS = ("unpaired z", "paired bootstrap over items", "McNemar", "sign test over tasks")


@dataclass(frozen=True)
class Cell:
    """What is drawn."""

    seeds: int
    items: int
    documents: str = "equal"
    scores: str = "continuous"
    tasks: int = 1
    shared: bool = False
    """The same documents in all tasks."""
    collapse: bool = False
    """One run of 16 is ten standard deviations of a seed below; the rest of Student's t, 3."""

    def draw(self, random: np.random.Generator) -> list[Paired]:
        """Both sides on each task, of equal worth."""
        seed_2xS = self._seeds(random)
        first, result = None, []
        for k in range(self.tasks):
            document_I, weight_I, followed_G = self._documents(random)
            if self.shared:
                first = first if first is not None else (document_I, weight_I)
                document_I, weight_I = first
            apart_2xG = random.standard_normal((2, document_I.max() + 1))
            if followed_G is not None:
                apart_2xG[0] = (apart_2xG[0] + followed_G) / 2**0.5
            codes_I = document_I + (0 if self.shared else k * self.items)
            sides = self._values(random, document_I, weight_I, seed_2xS, apart_2xG)
            result.append(Paired(f"task {k}", "score", True, *sides, weight_I, codes_I, 0, 0, 0))
        return result

    def _seeds(self, random: np.random.Generator) -> Floats:
        shape = (2, self.seeds)
        if self.seeds == 1:
            return np.zeros(shape)
        if not self.collapse:
            return random.standard_normal(shape)
        return random.standard_t(3, shape) / 3**0.5 - 10 * (random.random(shape) < 1 / 16)

    def _documents(self, random: np.random.Generator) -> tuple[Ints, Floats, Floats | None]:
        """Each item's document and weight: scores of losses have weights, points do not.

        Third, what the difference of documents follows.
        """
        I = self.items  # noqa: E741
        if self.documents == "equal":
            return np.arange(I), np.ones(I), None
        if self.documents == "one dominant":
            return np.maximum(np.arange(I) - I // 2, 0), np.ones(I), None
        lengths, z_I = LENGTHS[self.documents], random.standard_normal(I)
        length_I = lengths.length(z_I)
        if self.scores == "continuous":
            followed_I = lengths.followed(z_I) if lengths.follows else None
            return np.arange(I), np.ceil(50 * length_I), followed_I
        return np.repeat(np.arange(I), np.ceil(2 * length_I).astype(int))[:I], np.ones(I), None

    def _values(
        self, random: np.random.Generator, document_I: Ints, weight_I: Floats, seed_2xS: Floats,
        apart_2xG: Floats,
    ) -> list[Floats]:  # fmt: skip
        I, S = len(document_I), self.seeds  # noqa: E741
        if self.scores == "0/1, rarely different":
            base_I = random.random(I) < 0.6
            return [(base_I ^ (random.random((S, I)) < RARE)).astype(float) for _ in range(2)]
        share_G = np.bincount(document_I, weight_I) / weight_I.sum()
        of_mean = float((share_G**2).sum()) ** 0.5
        item_I = random.standard_normal(I)
        sides = []
        for seed_S, apart_G in zip(seed_2xS, apart_2xG, strict=True):
            latent_SxI = item_I + apart_G[document_I] + of_mean * seed_S[:, None]
            latent_SxI = latent_SxI + random.standard_normal((S, I))
            points = self.scores != "continuous"
            sides.append((latent_SxI > 0).astype(float) if points else latent_SxI)
        return sides


def cells() -> Iterator[Cell]:
    """The grid, and what it lacks: tasks and collapses."""
    grid = itertools.product(SEEDS, ITEMS, DOCUMENTS, SCORES)
    for seeds, items, documents, kind in grid:
        lengths = "by length" not in documents or kind == "continuous"
        if lengths and (documents == "equal" or "rarely" not in kind):
            yield Cell(seeds, items, documents, kind)
    for seeds, items, kind in itertools.product(SEEDS, (20, 100, 1000), SCORES[:2]):
        yield Cell(seeds, items, "equal", kind, 5, True)
        yield Cell(seeds, items, "equal", kind, 5, False)
    for seeds, items in itertools.product(SEEDS[1:], ITEMS):
        yield Cell(seeds, items, collapse=True)


def runs_of(seeds: int) -> tuple[list[Run], list[Run]]:
    """Runs of both sides, which are not paired."""
    first, second = ([Run(side, f"{side}{n}") for n in range(seeds)] for side in "AB")
    return first, second


def rivals(tasks: list[Paired], random: np.random.Generator) -> dict[str, bool | None]:
    """What people do with each item's mean over runs: whether a difference is found."""
    means = [(t.value_AxI.mean(axis=0), t.value_BxI.mean(axis=0), t.weight_I) for t in tasks]
    apart = [float((w * (a - b)).sum() / w.sum()) for a, b, w in means]
    a_I, b_I = (np.concatenate([m[n] for m in means]) for n in (0, 1))
    d_I = a_I - b_I
    z = two_sided_critical_z(LEVEL)
    half = z * math.sqrt(a_I.var() / len(a_I) + b_I.var() / len(b_I))
    place = random.integers(0, len(d_I), (RESAMPLES, len(d_I)))
    low, high = np.quantile(d_I[place].mean(axis=1), [LEVEL / 2, 1 - LEVEL / 2])
    points = all(np.isin(t.value_AxI, (0, 1)).all() for t in tasks) and len(tasks[0].value_AxI) == 1
    return {
        "unpaired z": bool(abs(d_I.mean()) > half),
        "paired bootstrap over items": bool(low > 0 or high < 0),
        "McNemar": p_values.exact_sign_flip_p(d_I) < LEVEL if points else None,
        "sign test over tasks": p_values.exact_sign_flip_p(np.sign(apart)) < LEVEL
        if len(tasks) > 1
        else None,
    }


def once(cell: Cell, random: np.random.Generator, *, others: bool) -> dict[str, int]:
    """Counts of one draw: given, false verdicts, intervals that miss, and rivals' findings.

    Intervals that the command calls wide, and those of them that miss, are counted by themselves.
    """
    tasks = cell.draw(random)
    found, p, why = verdicts.judge_mean_over_tasks(tasks, runs_of(cell.seeds))
    result = {"draws": 1, "given": int(why is None), "false": 0, "missed": 0, "wide": 0}
    result["missed_wide"] = 0
    if why is None:
        half = mean_difference.half_width(found)
        assert half is not None
        result["missed"] = int(abs(found.difference) > half)
        result["false"] = int(p is not None and p < LEVEL)
        factor = mean_difference.width_ratio_to_interval_without_unseen(found)
        result["wide"] = int(factor >= verdicts.WIDE)
        result["missed_wide"] = result["wide"] * result["missed"]
    if others:
        result["others"] = 1
        result |= {n: int(said) for n, said in rivals(tasks, random).items() if said is not None}
    return result


def drawn(chosen: argparse.Namespace, number: int) -> list[dict[str, Any]]:
    """One round: counts by cell."""
    result = []
    for k, cell in enumerate(cells()):
        random = np.random.default_rng([number, k])
        # Long ones take time, and of one dominant document no verdict is ever given.
        share = 10 if "dominant" in cell.documents else 2 if cell.items == ITEMS[-1] else 1
        draws = max(1, chosen.draws // share)
        counts = Counter[str]()
        for n in range(draws):
            counts.update(once(cell, random, others=n < max(1, draws // 25)))
        result.append({**dataclasses.asdict(cell), **counts})
    return result


def _splits(
    runs: int, size: int, most: int, random: np.random.Generator
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """All ways to take two groups of one run, or halves; drawn ones of other sizes."""
    if size == 1:
        yield from (((a,), (b,)) for a, b in itertools.combinations(range(runs), 2))
    elif 2 * size == runs:
        # Without the first run in the first group each would be there twice.
        for rest in itertools.combinations(range(1, runs), size - 1):
            yield (0, *rest), sorted({*range(1, runs)} - {*rest})
    else:
        for _ in range(most):
            order = random.permutation(runs).tolist()
            yield order[:size], order[size : 2 * size]


def real(method: str, size: int, most: int) -> Mapping[str, Any]:
    """How often each test finds a difference of two groups of runs of one method.

    Args:
        method: Whose recorded losses by domain and document.
        size: Of both groups.
        most: So many splits are drawn where not all are taken.
    """
    read = scores.Scores()
    place = read_sides.find_pipeline_records(Path(records.ROOT / "recorded"))
    assert place is not None
    read_sides.add_pipeline_losses(place, "A", read, method)
    whole = read.runs("A")
    codes: dict[Any, int] = {}
    pairs = [
        scores.pair_runs(column, (whole, whole), codes, 0.01) for column in read.columns.values()
    ]
    random = np.random.default_rng(size)
    counts = dict.fromkeys(("draws", "given", "false", "others", *RIVALS), 0)
    for n, (a, b) in enumerate(_splits(len(whole), size, most, random)):
        tasks = [
            dataclasses.replace(t, value_AxI=t.value_AxI[list(a)], value_BxI=t.value_AxI[list(b)])
            for t in pairs
        ]
        _, p, why = verdicts.judge_mean_over_tasks(tasks, runs_of(size))
        counts["draws"] += 1
        counts["given"] += why is None
        counts["false"] += why is None and p is not None and p < LEVEL
        # The others draw, and take longer: of all halves every seventh.
        if n % 7 and 2 * size == len(whole):
            continue
        counts["others"] += 1
        for name, said in rivals(tasks, random).items():
            counts[name] += bool(said)
    return {"method": method, "size": size, **counts}


def real_groups() -> dict[str, Any]:
    """The entry of the record on real scores."""
    return {"real": [real(method, size, 1000) for method in REAL for size in (1, 3, 5, 8)]}


def main() -> None:
    chosen = measure.arguments(__doc__, "comparison_rates", rounds=70, draws=50)
    code = code_fingerprint.fingerprint("benchmarks.comparison_rates")
    names = [field.name for field in dataclasses.fields(Cell)]
    measure.record_rounds(chosen, code, drawn, names, real_groups)


if __name__ == "__main__":
    main()
