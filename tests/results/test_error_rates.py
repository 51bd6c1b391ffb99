"""How often verdicts are wrong, and what differences they find."""

import itertools
import math

import numpy as np
import pytest

from benchmarks import error_rates, length_rates
from benchmarks.length_rates import Cell, Lengths
from pike_mixing.comparison import mean_difference, p_values
from pike_mixing.comparison.detectable import detectable_difference, detection_probability
from pike_mixing.comparison.mean_difference import Estimate
from pipeline.results import claim_tests

TIMES = 1000
TWO_SIGMA = 2 * (0.05 * 0.95 / TIMES) ** 0.5
"""Of a rate of 5 % in so many repetitions."""


KINDS = [name for name in error_rates.kinds() if name not in ("rank correlations", "speed-ups")]
"""Of the others, whose simulations last, the benchmark's page has the rates."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_verdict_errs_in_one_of_twenty(kind):
    times, once = 100, error_rates.kinds()[kind]
    for name, case in error_rates.CASES.items():
        random = np.random.default_rng([len(kind), len(name)])
        wrong = sum(once(case, random, 3) for _ in range(times))
        # Three standard deviations, rounded upwards to a whole number.
        assert wrong <= np.ceil(0.05 * times + 3 * (0.05 * 0.95 * times) ** 0.5), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "without", "least", "most"),
    [
        # Percent of wrong verdicts without the rule; given ones, at least and at most.
        (Cell(Lengths(0.2, False, "length"), 0.9, 50, 1), 0, 90, 100),
        (Cell(Lengths(0.4, False, "log length"), 0.9, 100, 1), 0, 99, 100),
        (Cell(Lengths(1.5, True, "length"), 0.9, 300, 3), 0, 99, 100),
        (Cell(Lengths(1.0, False), 0, 300, 3), 0, 0, 1),
        (Cell(Lengths(0.8, False, "log length"), 0.9, 30, 1), 15, 0, 1),
        (Cell(Lengths(1.0, False, "length"), 0.7, 1000, 1), 10, 0, 1),
        (Cell(Lengths(1.5, False, "log length"), 0.4, 100, 3), 10, 0, 1),
    ],
)
def test_verdicts_on_differences_that_follow_the_length(cell, without, least, most):
    found = length_rates.judge(cell, np.random.default_rng(3), 3, 200)
    assert least <= 100 * found["given"] / 200 <= most
    assert 100 * found["all_wrong"] >= without * found["all_given"]
    # Three standard deviations.
    given = found["given"]
    assert found["wrong"] <= 0.05 * given + 3 * (0.05 * 0.95 * given) ** 0.5 + (most == 1) * 2


def smallest_detectable(seed_sd, seeds, item_stderr=0.0):
    """Of paired seeds and very many items."""
    errors = {"of_seeds": seed_sd / seeds**0.5, "of_items": item_stderr}
    return detectable_difference(Estimate(0.0, seeds=seeds, degrees=math.inf, **errors))


@pytest.mark.slow
def test_all_claims_together_err_in_one_of_twenty():
    # Eight claims, of one to three numbers, all at their bounds; three seeds.
    sizes, wrong = (1, 1, 1, 1, 2, 2, 3, 3), 0
    value_RxCxS = np.random.default_rng(1).normal(0, 1, (TIMES, sum(sizes), 3))
    mean_RxC, error_RxC = value_RxCxS.mean(-1), value_RxCxS.std(-1, ddof=1) / 3**0.5
    for mean_C, error_C in zip(mean_RxC, error_RxC, strict=True):
        cells = zip(mean_C.tolist(), error_C.tolist(), strict=True)
        with_p = iter(
            [
                (m, claim_tests.ClaimCell("", False, m, e, 0.0, 3).two_sided_p_at_bound())
                for m, e in cells
            ]
        )
        claims = [
            claim_tests.support_or_contradiction_p_value(list(itertools.islice(with_p, n)))
            for n in sizes
        ]
        wrong += any(p < 0.05 for p in p_values.holm_adjusted(claims))
    assert wrong / TIMES <= 0.05 + TWO_SIGMA


@pytest.mark.parametrize(("seeds", "level"), [(2, 0.05), (3, 0.05 / 11), (3, 0.001), (5, 0.05)])
def test_the_interval_errs_in_its_level_at_most_whichever_error_counts(seeds, level):
    ours = error_rates.errors(mean_difference.half_width, seeds, level)
    assert max(ours) <= level * (1 + 1e-4)
    # Where the seeds' error is nearly all, it errs in just that.
    assert ours[-1] == pytest.approx(level, rel=0.02)


@pytest.mark.parametrize(("seeds", "by_hand"), [(2, 11.55), (3, 3.264), (5, 1.682), (10, 0.996)])
def test_detectable_differences(seeds, by_hand):
    # Ten seeds, one standard deviation: 80.3 % by the noncentral t.
    assert smallest_detectable(1.0, seeds) == pytest.approx(by_hand, rel=1e-3)
    assert detection_probability(1.0, 1.0, 10, 0.0) == pytest.approx(0.803, abs=5e-4)
    # Without a spread of seeds it is that of a normal test, 1.960 + 0.842.
    assert smallest_detectable(1e-9, seeds, 1.0) == pytest.approx(2.802, rel=1e-3)


def test_the_views_know_the_quantiles_of_any_degrees(created):
    sql = "select degrees, t95(degrees) from (select unnest(?::double[]) as degrees)"
    tried = [1.0, 2.0, 2.5, 3.0, 3.5, 7.25, 29.0, 29.9, 30.0, 45.5, 1e4, float("inf")]
    for degrees, quantile in created.execute(sql, [tried]).fetchall():
        ratio = quantile / mean_difference.two_sided_critical_t(0.05, min(degrees, 1e9))
        assert 0.9997 <= ratio <= (1.02 if degrees < 3 else 1.004)
    # The mean in 1 / degrees of 4.303 and 3.182 lies at 2.4.
    assert created.execute("select t95(2.4), t95(0), t95(null)").fetchone() == (
        pytest.approx(3.7425), None, None,
    )  # fmt: skip


def test_the_views_ask_for_the_same_seeds_and_level(created):
    found = created.execute("select least_seeds(), level()::double").fetchone()
    assert found == (mean_difference.LEAST_SEEDS, mean_difference.LEVEL)


def test_the_views_know_the_same_detectable_differences(created):
    assert created.execute("select detectable(1, 2, 1)").fetchone() == (None,)
    for seeds in (3, 10, 14):
        for seed_sd, shared in ((1.0, 0.0), (0.0, 1.0), (1.0, 0.5)):
            sql = "select detectable(?, ?, ?)"
            (value,) = created.execute(sql, [seed_sd, seeds, shared]).fetchone()
            exact = smallest_detectable(seed_sd or 1e-9, seeds, shared)
            # Both parts by one root: at most a tenth too much, never too little.
            assert 0.995 * exact <= value <= 1.15 * exact
