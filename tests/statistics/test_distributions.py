import pytest

from pipeline.statistics import distributions


@pytest.mark.parametrize("degrees", [1, 2, 3, 7.5, 40, 3000])
def test_students_t_is_that_of_scipy(degrees):
    stats = pytest.importorskip("scipy.stats")
    for t in (0.0, 1e-4, 0.5, 2.0, 9.0, 1e3):
        expected = 2 * stats.t.sf(t, degrees)
        assert distributions.t_tail(t, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-290)
    for level in (0.9, 0.05, 1e-4, 1e-20):
        normal = stats.norm.isf(level / 2)
        assert distributions.normal_quantile(level) == pytest.approx(normal, rel=1e-9)
        expected = stats.t.isf(level / 2, degrees)
        assert distributions.t_quantile(level, degrees) == pytest.approx(expected, rel=1e-9)


def test_the_binomial_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    for trials in (0, 1, 9, 500, 3000):
        expected = stats.binom.pmf(range(trials + 1), trials, 0.5)
        assert distributions.binomial_pmf(trials) == pytest.approx(list(expected), rel=1e-9)
