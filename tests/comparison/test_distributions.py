import pytest
from scipy import stats

from pike_mixing.comparison import distributions


@pytest.mark.parametrize("degrees", [1, 2.5, 40, 3000])
def test_tails_are_two_sided_and_quantiles_their_inverse(degrees):
    for t in (0.0, 0.5, 9.0, 1e3):
        assert distributions.two_sided_t_p(t, degrees) == pytest.approx(2 * stats.t.sf(t, degrees))
    for level in (0.9, 0.05, 1e-20):
        t = distributions.two_sided_critical_t(level, degrees)
        assert distributions.two_sided_t_p(t, degrees) == pytest.approx(level)
    # The quartiles of Cauchy's distribution are -1 and 1.
    assert distributions.two_sided_t_p(-1, 1) == pytest.approx(0.5)


def test_of_a_normal_five_percent_lie_outside_1_96():
    assert distributions.two_sided_critical_z(0.05) == pytest.approx(1.959964)
    assert distributions.two_sided_critical_z(1e-20) == pytest.approx(stats.norm.isf(0.5e-20))


def test_heads_of_a_fair_coin():
    assert distributions.fair_coin_pmf(3) == pytest.approx([1 / 8, 3 / 8, 3 / 8, 1 / 8])
    assert distributions.fair_coin_pmf(0) == pytest.approx([1])
    assert distributions.fair_coin_pmf(3000) == pytest.approx(
        stats.binom.pmf(range(3001), 3000, 0.5)
    )
