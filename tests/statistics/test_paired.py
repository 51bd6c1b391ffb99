import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.statistics import paired


def test_items_that_stand_alone_give_mcnemars_test():
    # One against nine of ten coins: twice 11 of 1024. Items without a difference say nothing.
    assert paired.sign_flip([1] * 9 + [-1] + [0] * 7) == pytest.approx(22 / 1024)
    stats = pytest.importorskip("scipy.stats")
    for better, worse in ((0, 1), (3, 14), (40, 61), (200, 250)):
        expected = stats.binomtest(better, better + worse, 0.5).pvalue
        found = paired.sign_flip([1] * better + [-1] * worse)
        assert found == pytest.approx(expected, rel=1e-9)


def test_items_of_a_document_are_flipped_together():
    # Sums +-3 and +-1: half of the four are as far from zero as 3.
    assert paired.sign_flip([2, 1]) == pytest.approx(0.5)
    # Ten items of one document are worth one coin, not ten.
    assert paired.sign_flip([10]) == 1
    # Shared points: +-1/2 +-1/3, as found in half of the cases.
    assert paired.sign_flip([1 / 2, 1 / 3]) == pytest.approx(0.5)


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1; the last may not fall below the third.
    assert paired.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert paired.holm([0.5, None, 0.02]) == [0.5, None, 0.04]
    assert paired.holm([0.9, 0.8]) == [1.0, 1.0]


def test_a_constant_difference_has_no_error():
    found = paired.estimate([[0.2 * 3, 0.2 * 5, 0.2 * 1]] * 2, [3, 5, 1])
    assert found.difference == pytest.approx(0.2)
    assert (found.of_seeds, found.of_items, found.stderr) == (0, 0, 0)
    drawn_B = paired.bootstrap([[0.2 * 3, 0.2 * 5, 0.2 * 1]], [3, 5, 1], "x")[:, 0]
    low, high = np.quantile(drawn_B, [0.025, 0.975])
    assert (low, high) == (pytest.approx(0.2), pytest.approx(0.2))


def test_errors_of_seeds_and_documents_by_hand():
    # Seeds: 2/4 and 0/4, mean 1/4, SD sqrt(1/8), so 1/4 as the error of a mean of two.
    # Documents: means over seeds 1, 0 of 2 items each; residuals +-1/2,
    # SE^2 = 2 / 1 * (1/4 + 1/4) / 4^2 = 1/16.
    found = paired.estimate([[2, 0], [0, 0]], [2, 2])
    assert found.difference == pytest.approx(0.25)
    assert found.of_seeds == pytest.approx(0.25)
    assert found.of_items == pytest.approx(0.25)
    assert found.stderr == pytest.approx(0.25 * math.sqrt(2))
    # Both parts have one degree of freedom: 12.706 times the error.
    assert paired.half_width(found) == pytest.approx(12.706 * found.stderr, rel=1e-4)
    # And t = 1 / sqrt 2 at one degree: 1 - 2 / pi * atan(t).
    expected = 1 - 2 / math.pi * math.atan(1 / math.sqrt(2))
    assert paired.p_value(found) == pytest.approx(expected)


def test_the_p_value_is_where_the_interval_touches_zero():
    found = paired.Estimate(0.035, of_seeds=0.006, of_items=0.008, seeds=3, degrees=49)
    p = paired.p_value(found)
    assert paired.half_width(found, p) == pytest.approx(0.035, rel=1e-6)
    assert p < 0.05


def test_means_over_tasks_by_hand():
    one = paired.Estimate(0.1, None, 0.03, 1, 9)
    two = paired.Estimate(0.3, None, 0.04, 1, 19)
    found = paired.averaged([one, two], [[0.1], [0.3]])
    assert found.difference == pytest.approx(0.2)
    assert found.of_items == pytest.approx(0.05 / 2)
    # 9 and 19 degrees of freedom together.
    assert found.degrees == 28


def test_one_document_has_no_error_and_nothing_varying_is_flipped():
    assert paired.estimate([[3]], [5]).stderr is None
    assert paired.tested([[1, 1, 1, 1]] * 2, [1, 1, 1, 1]) == pytest.approx(2 / 16)
    assert paired.tested([[0, 0]], [1, 1]) == 1


def test_the_bootstraps_error_is_the_clustered_one():
    sum_G = paired.stream("test").integers(-3, 4, 60)
    drawn_B = paired.bootstrap([sum_G], np.full(60, 3), "x")[:, 0]
    found = paired.estimate([sum_G], np.full(60, 3))
    assert drawn_B.std() == pytest.approx(found.of_items, rel=0.06)


def test_draws_depend_on_names_alone():
    first = paired.stream("a", "b").random(3)
    paired.stream("c").random(100)
    assert paired.stream("a", "b").random(3) == pytest.approx(first, abs=0)
    assert paired.stream("ab").random() != first[0]
    one, other = (paired.bootstrap([[1, 2, 3]], [4, 4, 4], name) for name in "ab")
    assert (one != other).any()
    # Written down, so that another version that draws otherwise is noticed.
    assert paired.stream("bootstrap", "x").integers(0, 1000, 4).tolist() == PINNED


PINNED = [36, 275, 931, 745]

counts = st.lists(st.integers(1, 4), min_size=2, max_size=12)


@st.composite
def sums(draw):
    """S x G sums of differences, no larger than the documents' numbers of items."""
    count_G, seeds = draw(counts), draw(st.integers(1, 3))
    rows = [[draw(st.integers(-n, n)) for n in count_G] for _ in range(seeds)]
    return np.array(rows), np.array(count_G)


@settings(deadline=None, max_examples=30)
@given(sums(), st.randoms())
def test_swapping_methods_flips_the_sign_and_order_changes_nothing(found, random):
    sum_SxG, count_G = found
    one, other = paired.estimate(sum_SxG, count_G), paired.estimate(-sum_SxG, count_G)
    assert other.difference == -one.difference
    assert (other.of_seeds, other.of_items) == (one.of_seeds, one.of_items)
    p = paired.tested(sum_SxG, count_G)
    assert paired.tested(-sum_SxG, count_G) == p
    assert p is None or 0 <= p <= 1
    documents, seeds = list(range(len(count_G))), list(range(len(sum_SxG)))
    random.shuffle(documents)
    random.shuffle(seeds)
    mixed = sum_SxG[seeds][:, documents]
    assert paired.estimate(mixed, count_G[documents]) == one
    assert paired.tested(mixed, count_G[documents]) == pytest.approx(p, rel=1e-12)


def uniform(p_N):
    """Kolmogorov and Smirnov's distance to uniform; beyond 1.95 / sqrt N once in a thousand."""
    sorted_N, size = np.sort(p_N), len(p_N)
    above = np.arange(1, size + 1) / size - sorted_N
    return max(above.max(), (sorted_N - np.arange(size) / size).max()) < 1.95 / math.sqrt(size)


def test_flipped_documents_are_not_anti_conservative_under_the_null():
    # Four items a document that share its fate: counted as independent they would mislead.
    draw = paired.stream("null", "documents")
    hard_NxG = draw.random((300, 40)) < 0.5
    right = []
    for _ in range(2):
        chance_NxG = np.where(hard_NxG ^ (draw.random((300, 40)) < 0.3), 0.2, 0.8)
        right.append(draw.random((300, 40, 4)) < chance_NxG[..., None])
    apart_NxGx4 = right[0].astype(int) - right[1]
    p_N = np.array([paired.sign_flip(sum_G) for sum_G in apart_NxGx4.sum(axis=2)])
    alone_N = np.array([paired.sign_flip(a) for a in apart_NxGx4])
    for level in (0.05, 0.2):
        error = math.sqrt(level * (1 - level) / 300)
        assert abs((p_N <= level).mean() - level) < 3.3 * error
        assert (alone_N <= level).mean() > level + 3.3 * error


def test_p_values_over_seeds_are_uniform_where_seeds_are_all_that_varies():
    difference_NxS = paired.stream("null", "seeds").normal(size=(1500, 3))
    found = [paired.estimate(d_S[:, None] * [1, 1], [1, 1]) for d_S in difference_NxS]
    assert all(e.of_items == 0 for e in found)
    assert uniform(np.array([paired.p_value(e) for e in found]))


@pytest.mark.parametrize(("seeds", "of_seeds"), [(2, 0.02), (3, 0.0), (5, 0.1)])
def test_p_values_over_seeds_and_items_are_not_anti_conservative(seeds, of_seeds):
    # Items differ in how much either method gains on them, seeds move all items at once.
    draw = paired.stream("null", "both", str(seeds), str(of_seeds))
    item_NxG = draw.normal(0, 0.3, (120, 1, 20))
    seed_NxS = draw.normal(0, of_seeds, (120, seeds, 1))
    sum_NxSxG = item_NxG + seed_NxS + draw.normal(0, 0.3, (120, seeds, 20))
    p_N = np.array([paired.p_value(paired.estimate(s, np.ones(20))) for s in sum_NxSxG])
    for level in (0.05, 0.2):
        assert (p_N <= level).mean() <= level + 3.3 * math.sqrt(level * (1 - level) / 120)
