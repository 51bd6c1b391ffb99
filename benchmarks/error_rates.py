"""How often verdicts are wrong where nothing differs, and intervals miss the truth.

    python -m benchmarks.error_rates [--rounds 50] [--draws 20]

Differences of known truth are drawn and judged by the functions and views that judge runs. What is
random is of a seed (all documents move), of a document (in all seeds), or of both together; each
case says which counts most. Documents have the lengths of real validation text.

Where documents are of very unequal length, a difference may follow it: `benchmarks.length_rates`.

Round r draws from seeds made of r, and the record is written after each: who stops it loses one
round, and goes on with the same command. A rate p of n draws has the standard error
sqrt(p (1 - p) / n). Narrower intervals are judged by the same draws (`NARROWER`).

Record: benchmarks/results/error_rates.json, from which docs/error-rates.md is written.

Shapes: S seeds, G documents of a domain or task, K domains, T checkpoints.
"""

import argparse
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from benchmarks import measure
from pike_mixing.arrays import Floats
from pike_mixing.comparison import detectable, mean_difference, p_values
from pike_mixing.comparison.distributions import two_sided_critical_t, two_sided_critical_z
from pike_mixing.comparison.mean_difference import Estimate
from pipeline.results import claim_tests, speedups, sql_views
from pipeline.results.measured_results import CheckpointKey, TaskCurve
from pipeline.runtime import code_fingerprint

SEEDS = (mean_difference.LEAST_SEEDS, 5, 10)
TOKENS_G = np.array([128] * 8 + [100] * 16 + [60] * 20 + [17] * 16, np.float64)
"""Validation documents of `unicode` in the standard library's text: 45 effective ones."""
SHARE_G = TOKENS_G / TOKENS_G.sum()
METHODS = 11
"""Of a table, beside the baseline."""
SCENARIOS = 4


@dataclass(frozen=True)
class Case:
    """What is random: standard deviations, as they are in the mean over documents of one seed."""

    seed: float
    document: float
    both: float
    heavy: bool = False
    """Student's t with three degrees of freedom in place of normal numbers."""
    shared: bool = False
    """The same documents in all domains, tasks or scenarios; two scenarios of a ladder alike."""

    def draw(self, random: np.random.Generator, *shape: int) -> Floats:
        """Numbers of mean zero and standard deviation one."""
        if self.heavy:
            return random.standard_t(3, shape) / 3**0.5
        return random.standard_normal(shape)

    def differences(
        self, random: np.random.Generator, seeds: int, domains: int, share_G: Floats
    ) -> Floats:
        """Differences of two methods, K x S x G, of mean zero."""
        G, spread = len(share_G), (share_G**2).sum() ** -0.5
        kinds = 1 if self.shared else domains
        own_KxSx1 = self.draw(random, domains, seeds, 1) + self.draw(random, 1, seeds, 1)
        of_document_KxSxG = self.document * self.draw(random, kinds, 1, G)
        of_document_KxSxG = of_document_KxSxG + self.both * self.draw(random, kinds, seeds, G)
        return self.seed * own_KxSx1 / 2**0.5 + spread * of_document_KxSxG

    def names(self, domain: int, documents: int) -> npt.NDArray[np.int64]:
        """Of the documents of a domain."""
        return np.arange(documents) + (0 if self.shared else domain * documents)


CASES = {
    "seeds dominate": Case(1, 0.1, 0.1),
    "documents dominate": Case(0.1, 1, 0.1),
    "both together dominate": Case(0, 0, 1),
    "all alike": Case(1, 1, 1),
    "seeds dominate, heavy tails": Case(1, 0.1, 0.1, heavy=True),
    "documents dominate, heavy tails": Case(0.1, 1, 0.1, heavy=True),
    "shared documents": Case(0.3, 1, 0.3, shared=True),
}


def differs(estimate: Estimate) -> bool:
    """Whether the interval leaves out zero, which is the truth: then p is below 5 %."""
    half = mean_difference.half_width(estimate)
    assert estimate.has_enough_for_verdict
    assert half is not None
    return abs(estimate.difference) > half


def mean(case: Case, random: np.random.Generator, seeds: int, domains: int) -> Estimate:
    """A mean over domains."""
    apart_KxSxG = case.differences(random, seeds, domains, SHARE_G) * TOKENS_G
    parts = [
        mean_difference.differences_of_sums(apart_SxG, TOKENS_G, case.names(k, len(TOKENS_G)))
        for k, apart_SxG in enumerate(apart_KxSxG)
    ]
    return mean_difference.estimate(parts)


def losses(case: Case, random: np.random.Generator, seeds: int) -> bool:
    """The mean loss over three domains."""
    return differs(mean(case, random, seeds, 3))


def regrets(case: Case, random: np.random.Generator, seeds: int) -> bool:
    """The mean over scenarios of two domains each."""
    return differs(mean(case, random, seeds, 2 * SCENARIOS))


def accuracies(case: Case, random: np.random.Generator, seeds: int) -> bool:
    """The mean over two tasks of 60 documents with one to four items, of points -1, 0 and 1."""
    items_G = np.arange(60) % 4 + 1
    latent_KxSxG = case.differences(random, seeds, 2, items_G / items_G.sum())
    parts = []
    for k, latent_SxG in enumerate(latent_KxSxG / 5):
        latent_SxI = np.repeat(latent_SxG, items_G, axis=1)
        latent_SxI = latent_SxI + random.standard_normal(latent_SxI.shape[1])
        points_SxI = np.sign(latent_SxI) * (abs(latent_SxI) > 1)
        sum_SxG = np.add.reduceat(points_SxI, np.cumsum(items_G) - items_G, axis=1)
        parts.append(mean_difference.differences_of_sums(sum_SxG, items_G, case.names(k, 60)))
    return differs(mean_difference.estimate(parts))


def speed_ups(case: Case, random: np.random.Generator, seeds: int) -> bool:
    """A method that is a third sooner, by straight curves."""
    apart_KxSxG = case.differences(random, seeds, 2, SHARE_G)
    noise_KxTxSxG = 0.1 * random.standard_normal((2, 5, *apart_KxSxG.shape[1:]))
    # The loss falls by 40 standard errors a step, and is at the baseline's end after 3 of 4.
    level_T = 40.0 * (3 - np.arange(5))
    parts = []
    for k, apart_SxG in enumerate(apart_KxSxG):
        of_method = level_T[:, None, None] + apart_SxG + noise_KxTxSxG[k]
        rows = [*of_method.transpose(1, 0, 2), *np.zeros((seeds, 1, len(TOKENS_G)))]
        value_RxN = np.concatenate(rows) * TOKENS_G
        parts.append(TaskCurve(value_RxN, TOKENS_G, case.names(k, len(TOKENS_G))))
    keys = [CheckpointKey("a", s, t, float(t)) for s in range(seeds) for t in range(5)]
    keys += [CheckpointKey("mix", s, 4, 4.0) for s in range(seeds)]
    result = speedups.speedup(parts, keys, "a", "mix")
    assert result is not None
    return not (result.low or 0.0) <= 4 / 3 <= (result.high or 0.0)


def tables(case: Case, random: np.random.Generator, seeds: int) -> bool:
    """All methods of a table against one baseline: any verdict after Holm."""
    runs = case.differences(random, seeds, METHODS + 1, SHARE_G)
    names = np.arange(len(TOKENS_G))
    found = [
        mean_difference.estimate(
            [mean_difference.differences_of_sums((run - runs[0]) * TOKENS_G, TOKENS_G, names)]
        )
        for run in runs[1:]
    ]
    # What is above 5 % alone changes no verdict of the others.
    p_M = [p_values.p_value_if_enough(one) if differs(one) else 1.0 for one in found]
    return any(p is not None and p < mean_difference.LEVEL for p in p_values.holm_adjusted(p_M))


class Views:
    """Verdicts that views make: of shares of pairs, and of ranks of methods."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        sql_views.create_schema(self.connection)
        self.connection.execute(
            "create table rung_regrets (run text, scenario text, method text, seed integer, "
            "rung integer, rung_label text, regret double, weights text)"
        )
        self.connection.execute(
            f"create view ranks as {sql_views.view_sql_by_name()['rank_correlations']}"
        )

    def shares(self, case: Case, random: np.random.Generator, seeds: int) -> bool:
        """How many of six pairs' cosines, at four steps, are positive, where half of them are."""
        pair = np.repeat([-1.0, 1.0], 3) if case.document else np.zeros(6)
        latent = 3 * case.document * pair + 3 * case.seed * case.draw(random, seeds, 1)
        latent = latent[..., None] + (0.1 + case.both) * case.draw(random, seeds, 6, 4)
        value_S = 100 * (latent > 0).mean(axis=(1, 2))
        (floor,) = self.connection.execute(
            "select share_error(?, ?)", [value_S.mean(), seeds]
        ).fetchone() or (None,)
        error = max(value_S.std(ddof=1) / seeds**0.5, float(floor))
        margin = abs(value_S.mean() - 50)
        p = claim_tests.ClaimCell(
            "", False, margin, error, None, seeds, share=True
        ).two_sided_p_at_bound()
        return p is not None and p < mean_difference.LEVEL

    def ranks(self, case: Case, random: np.random.Generator, seeds: int) -> bool:
        """Kendall's tau of twelve methods on two rungs that have nothing to do with each other."""
        of_method = (case.document + 0.1) * case.draw(random, SCENARIOS, 2, METHODS, 1)
        spread = (case.seed + case.both) * case.draw(random, SCENARIOS, 2, METHODS, seeds)
        regret = of_method + spread
        if case.shared:
            regret[1] = regret[0]
        place = np.indices(regret.shape).reshape(4, -1)
        self.connection.execute(
            "delete from rung_regrets; insert into rung_regrets select null, 's' || scenario, "
            "'m' || method, seed, rung, rung, value, value::text from (select unnest($1) as value, "
            "unnest($2) as scenario, unnest($3) as rung, unnest($4) as method, unnest($5) as seed)",
            [regret.ravel().tolist(), *(row.tolist() for row in place)],
        )
        low, high = self.connection.execute(
            "select low, high from ranks where scenario is null"
        ).fetchone() or (None, None)
        return low is not None and not low <= 0 <= high


def kinds() -> dict[str, Callable[[Case, np.random.Generator, int], bool]]:
    """By kind of verdict: draws and judges once."""
    own = Views()
    return {
        "mean losses": losses,
        "accuracies": accuracies,
        "speed-ups": speed_ups,
        "regrets over scenarios": regrets,
        "tables of 11 methods, any": tables,
        "shares of pairs": own.shares,
        "rank correlations": own.ranks,
    }


def _of_sum(estimate: Estimate) -> float:
    """Student's t with Satterthwaite's degrees of the sum of both variances."""
    seeds, items = (estimate.of_seeds or 0) ** 2, (estimate.of_items or 0) ** 2
    degrees = (seeds + items) ** 2 / (
        seeds**2 / (estimate.seeds - 1) + items**2 / estimate.degrees or 1
    )
    return two_sided_critical_t(mean_difference.LEVEL, degrees) * math.sqrt(seeds + items)


def by_variance(estimate: Estimate, level: float = mean_difference.LEVEL) -> float:
    """The mean of both Student's t by variance, of Cochran and Cox (1950)."""
    seeds, items = (estimate.of_seeds or 0) ** 2, (estimate.of_items or 0) ** 2
    t_seeds, t_items = (
        two_sided_critical_t(level, degrees) for degrees in (estimate.seeds - 1, estimate.degrees)
    )
    return (t_seeds * seeds + t_items * items) / (math.sqrt(seeds + items) or 1)


def errors(
    half: Callable[[Estimate, float], float | None], seeds: int, level: float
) -> list[float]:
    """How often an interval misses the truth by integration, where the documents' error is known.

    Args:
        half: Half of the interval.
        seeds: At least two.
        level: Of the interval.

    Returns:
        The probability at 60 ratios of the seeds' error to the documents', from 0.02 to 50.
    """
    result = []
    ratio_V, probability_V = detectable.observed_to_true_variance_grid(seeds - 1)
    for ratio in np.geomspace(0.02, 50, 60).tolist():
        found = (Estimate(0, ratio * v**0.5, 1.0, seeds, 1e9) for v in ratio_V.tolist())
        spread = math.sqrt(2 * (1 + ratio**2))
        missed_V = [math.erfc((half(e, level) or 0) / spread) for e in found]
        result.append(float(probability_V @ missed_V))
    return result


NARROWER: dict[str, Callable[[Estimate], float]] = {
    "one t, Satterthwaite's degrees of the sum": _of_sum,
    "mean of both t by variance, Cochran and Cox": by_variance,
    "normal quantile for both": lambda e: (
        two_sided_critical_z(mean_difference.LEVEL) * (e.stderr or 0)
    ),
    "seeds alone, Student's t": lambda e: (
        two_sided_critical_t(mean_difference.LEVEL, e.seeds - 1) * (e.of_seeds or 0)
    ),
    "documents alone, Student's t": lambda e: (
        two_sided_critical_t(mean_difference.LEVEL, e.degrees) * (e.of_items or 0)
    ),
}
"""Half widths that are not used, for means of losses."""


def drawn(chosen: argparse.Namespace, number: int) -> list[dict[str, Any]]:
    """One round: how many verdicts of each kind, case and number of seeds are wrong.

    Ranks take a fifth of the draws. Widths are sums over draws, of the interval and of ours.
    """
    result: list[dict[str, Any]] = []
    places = list(itertools.product(enumerate(CASES.items()), SEEDS))
    for k, (kind, once) in enumerate(kinds().items()):
        draws = max(1, chosen.draws // 5) if kind == "rank correlations" else chosen.draws
        for (c, (name, case)), seeds in places:
            random = np.random.default_rng([number, k, c, seeds])
            wrong = sum(bool(once(case, random, seeds)) for _ in range(draws))
            cell = {"kind": kind, "case": name, "seeds": seeds}
            result.append(cell | {"draws": draws, "wrong": wrong})
    for (c, (name, case)), seeds in places:
        random = np.random.default_rng([number, 0, c, seeds])
        every = [mean(case, random, seeds, 3) for _ in range(chosen.draws)]
        ours = sum(mean_difference.half_width(one) or 0 for one in every)
        for interval, half in NARROWER.items():
            halves = [half(one) for one in every]
            pairs = zip(every, halves, strict=True)
            wrong = sum(bool(abs(one.difference) > width) for one, width in pairs)
            cell = {"kind": interval, "case": name, "seeds": seeds, "draws": chosen.draws}
            result.append(cell | {"wrong": wrong, "width": sum(halves), "ours": ours})
    return result


def main() -> None:
    chosen = measure.arguments(__doc__, "error_rates", rounds=50, draws=20)
    code = code_fingerprint.fingerprint("benchmarks.error_rates", assets=("results/sql",))
    measure.record_rounds(chosen, code, drawn, ("kind", "case", "seeds"))


if __name__ == "__main__":
    main()
