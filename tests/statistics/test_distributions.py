import math

import pytest

from pipeline.statistics import distributions


def test_quantiles_and_tails_of_tables():
    assert distributions.normal_quantile(0.05) == pytest.approx(1.959964, abs=1e-6)
    # One degree is the Cauchy distribution: half of it lies beyond +-1.
    assert distributions.t_tail(1.0, 1) == pytest.approx(0.5)
    assert distributions.t_quantile(0.05, 1) == pytest.approx(12.706, abs=5e-4)
    assert distributions.t_quantile(0.05, 4) == pytest.approx(2.776, abs=5e-4)


def test_a_fair_coin():
    assert distributions.binomial_pmf(3) == pytest.approx([1 / 8, 3 / 8, 3 / 8, 1 / 8])
    assert math.fsum(distributions.binomial_pmf(3000)) == pytest.approx(1, abs=1e-11)


@pytest.mark.parametrize("degrees", [1, 2, 3, 7.5, 40, 3000])
def test_students_t_is_that_of_scipy(degrees):
    stats = pytest.importorskip("scipy.stats")
    for t in (0.0, 1e-4, 0.5, 2.0, 9.0, 1e3):
        expected = 2 * stats.t.sf(t, degrees)
        assert distributions.t_tail(t, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-290)
    for level in (0.9, 0.05, 1e-4, 1e-20):
        expected = stats.t.isf(level / 2, degrees)
        assert distributions.t_quantile(level, degrees) == pytest.approx(expected, rel=1e-9)


def test_the_binomial_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    for trials in (0, 1, 9, 500):
        expected = stats.binom.pmf(range(trials + 1), trials, 0.5)
        assert distributions.binomial_pmf(trials) == pytest.approx(list(expected), rel=1e-9)
