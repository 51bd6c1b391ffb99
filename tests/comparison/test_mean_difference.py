"""The error of a difference over seeds and documents, by hand and against its properties."""

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pike_mixing.comparison import mean_difference, p_values
from pike_mixing.comparison.distributions import two_sided_t_p
from pike_mixing.comparison.document_sizes import skew_limited_effective_documents, variance_factor
from pike_mixing.comparison.mean_difference import Estimate, differences_of_sums, estimate


def names(count_G, part_of=0):
    return [f"{part_of} {n}" for n in range(len(count_G))]


def alone(sum_SxG, count_G):
    """The estimate of one part."""
    return estimate([differences_of_sums(sum_SxG, count_G, names(count_G))])


def test_a_constant_difference_has_no_error():
    found = alone([[0.2 * 3, 0.2 * 5, 0.2 * 1]] * 2, [3, 5, 1])
    assert found.difference == pytest.approx(0.2)
    assert (found.of_seeds, found.of_items, found.stderr) == (0, 0, 0)


def test_the_error_of_unequal_documents_by_hand():
    # Means 10 / 40; the residuals 10 - 10 / 4 and -30 / 4 are 7.5 and -7.5, of 40 tokens; shares
    # 1/4 and 3/4 with squares that sum to 5/8 divide their squares by 9/8 and 1/8. Two documents
    # are too few, and all that two differ by may follow their length: the variance is 26-fold.
    found = alone([[10, 0]], [10, 30])
    assert found.difference == pytest.approx(0.25)
    assert found.of_items == pytest.approx(7.5 / 40 * math.sqrt(26 * (8 / 9 + 8)))
    assert (found.effective, found.degrees) == pytest.approx((1.6, 1))


def test_errors_of_seeds_and_documents_by_hand():
    # Seeds: 4/4, 2/4, 0; mean 1/2, SD 1/2. Documents: means over seeds 1 and 0 of 2 items each;
    # u = r / 4 * sqrt 2 with r = +-1, +-1, 0 in the three seeds, so M = 2 * (2/3)^2 / 8 = 1/9 and
    # Q = 2 * (1 + 1 + 0) / 8 / 3 = 1/6: (3 / 9 - 1 / 6) / 2 = 1/12.
    found = alone([[3, 1], [2, 0], [0, 0]], [2, 2])
    assert found.difference == pytest.approx(0.5)
    assert found.of_seeds == pytest.approx(0.5 / math.sqrt(3))
    assert found.of_items == pytest.approx(math.sqrt(1 / 12))
    assert (found.seeds, found.lower, found.degrees) == (3, 0, 1)
    # Two degrees of freedom of the seeds, one of the documents.
    half = math.hypot(4.303 * found.of_seeds, 12.706 * found.of_items)
    assert mean_difference.half_width(found) == pytest.approx(half, rel=1e-3)


def test_what_is_random_in_seed_and_document_counts_once():
    # Each seed gains on another document: the documents have nothing in common over seeds.
    found = alone(np.eye(3), [1, 1, 1])
    assert (found.of_seeds, found.of_items) == (0, 0)
    found = alone([[2, 0, 0], [0, 2, 0], [0, 0, 5]], [1, 1, 1])
    assert found.of_seeds > 0
    assert found.of_items == 0


@given(
    st.floats(1e-3, 10),
    st.floats(1e-4, 1),
    st.floats(1e-4, 1),
    st.integers(2, 14),
    st.floats(1, 300),
)
def test_the_p_value_is_where_the_interval_touches_zero(size, of_seeds, of_items, seeds, degrees):
    found = Estimate(size, of_seeds=of_seeds, of_items=of_items, seeds=seeds, degrees=degrees)
    p = p_values.p_value(found)
    assume(p > 0)
    assert mean_difference.half_width(found, p) == pytest.approx(size, rel=1e-6)


def test_p_values_at_the_limits():
    found = Estimate(0.035, of_seeds=0.006, of_items=0.008, seeds=3, degrees=49)
    assert 0.0 < p_values.p_value(found) < 0.05
    assert p_values.p_value(replace(found, difference=1e-20)) == 1
    # Seeds alone, documents alone: Student's t of each.
    seeds_alone = p_values.p_value(replace(found, of_items=0.0))
    assert seeds_alone == pytest.approx(two_sided_t_p(0.035 / 0.006, 2))
    documents_alone = p_values.p_value(replace(found, of_seeds=0.0))
    assert documents_alone == pytest.approx(two_sided_t_p(0.035 / 0.008, 49))
    nearly = p_values.p_value(replace(found, of_items=1e-9))
    assert nearly == pytest.approx(seeds_alone, rel=1e-6)


def test_means_over_parts_by_hand():
    # SE 1/3 and 2 degrees each: a mean over other texts has 1/3 / sqrt 2 and 4, over the same the
    # same; weighted 3 to 1, sqrt(9 + 1) / 4 of it and 2 (1 + 1/9)^2 / (1 + 1/81).
    one = differences_of_sums([[1, 0, 0]], [1, 1, 1], ["a", "b", "c"])
    other = differences_of_sums([[1, 0, 0]], [1, 1, 1], ["d", "e", "f"])
    for parts, weights, error, degrees in (
        ([one, other], None, 1 / 3 / math.sqrt(2), 4),
        ([one, one], None, 1 / 3, 2),
        ([one, other], [3, 1], math.sqrt(10) / 12, 2 * (10 / 9) ** 2 / (82 / 81)),
    ):
        found = estimate(parts, weights)
        assert found.difference == pytest.approx(1 / 3)
        assert found.of_items == pytest.approx(error)
        assert found.degrees == pytest.approx(degrees)


def test_a_part_without_weight_takes_nothing_away():
    whole = alone(np.arange(40.0)[None], np.ones(40))
    part_of_40 = differences_of_sums(np.arange(40.0)[None], np.ones(40), np.arange(40))
    for few in (1, 8):
        other = differences_of_sums(
            np.ones((1, few)), np.ones(few), [f"other {n}" for n in range(few)]
        )
        assert estimate([part_of_40, other], [2, 0]) == whole
        assert estimate([part_of_40, other], [2, 1]).effective == few


def test_one_document_has_no_error():
    assert alone([[3]], [5]).stderr is None
    assert alone([[3], [4]], [5]).stderr is None


@pytest.mark.parametrize(
    ("seeds", "documents", "told"), [(2, 20, False), (3, 20, True), (3, 19, False)]
)
def test_no_verdict_rests_on_few_seeds_or_documents(seeds, documents, told):
    values = np.arange(seeds)[:, None] + np.arange(float(documents))
    found = p_values.p_value_if_enough(alone(values, np.ones(documents)))
    assert (found is not None) == told


def spread_out(documents, spread):
    """Shares of lognormal lengths at evenly spaced quantiles."""
    places = (np.arange(documents) + 0.5) / documents
    length_G = np.exp(spread * np.array([NormalDist().inv_cdf(p) for p in places]))
    return length_G / length_G.sum()


HALF_ALIKE = np.exp(np.r_[np.zeros(60), np.linspace(0, 2.452, 60)])


@pytest.mark.parametrize(
    ("share_G", "effective"),
    [
        # Documents of one length, and such as are cut at one.
        (np.ones(40) / 40, 40),
        (np.repeat([1, 4], 30) / 150, 150**2 / (30 + 30 * 16)),
        # exp(1.5)^2 / 0.08^2 = 3138 are asked of a spread of 1, (0.8 exp(0.96))^2 / 0.08^2 = 682 of
        # 0.8, and 39.6 of 0.4. One is one, however many are asked.
        (spread_out(200, 1.0), 20 * 200 / 3138),
        (spread_out(100, 1.0), 1),
        (spread_out(600, 0.8), 20 * 600 / 682),
        (spread_out(750, 0.8), 20 * 750 / 682),
        (spread_out(50, 0.4), 20 * 50 / 39.6),
        (spread_out(500, 0.1), 1 / (spread_out(500, 0.1) ** 2).sum()),
        # Half of the documents of one length, half spread above it: 0.75 of 0.8 asks 166.
        (HALF_ALIKE / HALF_ALIKE.sum(), 20 * 120 / 166),
        # Less than twenty by the shares alone.
        (spread_out(20, 0.3), 1 / (spread_out(20, 0.3) ** 2).sum()),
    ],
)
def test_documents_of_like_size_by_hand(share_G, effective):
    found = skew_limited_effective_documents(share_G)
    assert found == pytest.approx(effective, rel=0.06)
    order = np.random.default_rng(0).permutation(len(share_G))
    assert skew_limited_effective_documents(share_G[order]) == pytest.approx(found)


def test_no_verdict_rests_on_documents_of_unequal_lengths():
    for documents, told in ((600, False), (750, True)):
        share_G = spread_out(documents, 0.8)
        apart_G = 5 + np.where(np.arange(documents) % 2, 1.0, -1.0)
        found = estimate(
            [differences_of_sums(np.tile(apart_G * share_G, (3, 1)), share_G, names(share_G))]
        )
        assert (found.effective >= mean_difference.LEAST_DOCUMENTS) == told
        assert (p_values.p_value_if_enough(found) is not None) == told


@pytest.mark.parametrize(
    ("effective", "follows", "factor"),
    [(1e9, 1, 1), (60, 0, 1), (60, 0.5, 1.25), (40, 1, 2), (22, 0.9, 10), (20, 1, 26), (3, 1, 26)],
)
def test_the_factor_of_lengths_by_hand(effective, follows, factor):
    assert variance_factor(effective, follows) == pytest.approx(factor)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("seeds", [1, 3])
def test_an_interval_is_wider_where_a_difference_follows_length_near_the_bound(parts, seeds):
    # 682 documents of a spread of 0.8 tell as much as 20 alike, 1,364, also in two parts, as 40:
    # the variance doubles where all of it follows length.
    documents = 1364 // parts
    share_G = spread_out(documents, 0.8)
    of_length_G = 1000 * (share_G - (share_G**2).sum())
    other_G = np.where(np.arange(documents) % 4 % 3, 1.0, -1.0)

    def variance(apart_G, length_G):
        sums_SxG = np.tile(apart_G * length_G, (seeds, 1))
        found = [differences_of_sums(sums_SxG, length_G, names(length_G, k)) for k in range(parts)]
        plain = sum((one.error_SxG[0] ** 2).sum() for one in found) / parts**2
        return estimate(found).of_items ** 2 / plain

    assert variance(of_length_G, share_G) == pytest.approx(2, rel=0.03)
    assert variance(other_G, share_G) == pytest.approx(1, rel=0.03)
    assert variance(of_length_G, 1 + 0.05 * other_G) == pytest.approx(1, rel=1e-12)


def test_a_mean_over_parts_asks_for_fewer_documents_in_each():
    # 300 of a spread of 0.8 tell too little, three such parts together enough; so do two that
    # are alike beside one. Where one part has fewer than twenty by its shares, no others help.
    def found(*shares):
        parts = [
            differences_of_sums(
                np.ones((3, 1)) * share_G, share_G, [f"{k} {n}" for n in range(len(share_G))]
            )
            for k, share_G in enumerate(shares)
        ]
        return estimate(parts).effective >= mean_difference.LEAST_DOCUMENTS

    uneven, alike = spread_out(300, 0.8), np.ones(300) / 300
    assert not found(uneven)
    assert found(uneven, uneven, uneven)
    assert found(uneven, alike, alike)
    assert not found(alike, alike, alike[:19] * 300 / 19)


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
    one, other = alone(sum_SxG, count_G), alone(-sum_SxG, count_G)
    assert other.difference == -one.difference
    assert (other.of_seeds, other.of_items) == (one.of_seeds, one.of_items)
    p = p_values.p_value(one)
    assert p_values.p_value(other) == p
    assert p is None or 0 <= p <= 1
    documents, seeds = list(range(len(count_G))), list(range(len(sum_SxG)))
    random.shuffle(documents)
    random.shuffle(seeds)
    mixed = sum_SxG[seeds][:, documents]
    found = estimate([differences_of_sums(mixed, count_G[documents], documents)])
    assert found.stderr == pytest.approx(one.stderr, rel=1e-9, abs=1e-12)
    assert found.degrees == pytest.approx(one.degrees)


def uniform(p_N):
    """Kolmogorov and Smirnov's distance to uniform; beyond 1.95 / sqrt N once in a thousand."""
    sorted_N, size = np.sort(p_N), len(p_N)
    above = np.arange(1, size + 1) / size - sorted_N
    return max(above.max(), (sorted_N - np.arange(size) / size).max()) < 1.95 / math.sqrt(size)


def test_p_values_over_seeds_are_uniform_where_seeds_are_all_that_varies():
    difference_NxS = np.random.default_rng(1).normal(size=(1500, 3))
    found = [alone(d_S[:, None] * [1, 1], [1, 1]) for d_S in difference_NxS]
    assert all(e.of_items == 0 for e in found)
    assert uniform(np.array([p_values.p_value(e) for e in found]))
