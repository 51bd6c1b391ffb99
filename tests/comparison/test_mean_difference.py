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


def test_a_constant_difference_has_no_error_and_one_document_none_that_is_known():
    found = alone([[0.2 * 3, 0.2 * 5, 0.2 * 1]] * 2, [3, 5, 1])
    assert found.difference == pytest.approx(0.2)
    assert (found.of_seeds, found.of_items, found.stderr) == (0, 0, 0)
    assert alone([[3], [4]], [5]).stderr is None


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
    assert p_values.p_value(replace(found, difference=1e-20)) == 1
    # Seeds alone, documents alone: Student's t of each.
    seeds_alone = p_values.p_value(replace(found, of_items=0.0))
    assert seeds_alone == pytest.approx(two_sided_t_p(0.035 / 0.006, 2))
    documents_alone = p_values.p_value(replace(found, of_seeds=0.0))
    assert documents_alone == pytest.approx(two_sided_t_p(0.035 / 0.008, 49))


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
    whole = differences_of_sums(np.arange(40.0)[None], np.ones(40), np.arange(40))
    other = differences_of_sums(np.ones((1, 8)), np.ones(8), [f"other {n}" for n in range(8)])
    assert estimate([whole, other], [2, 0]) == estimate([whole])
    assert estimate([whole, other], [2, 1]).effective == 8


def spread_out(documents, spread):
    """Shares of lognormal lengths at evenly spaced quantiles."""
    places = (np.arange(documents) + 0.5) / documents
    length_G = np.exp(spread * np.array([NormalDist().inv_cdf(p) for p in places]))
    return length_G / length_G.sum()


@pytest.mark.parametrize(
    ("share_G", "effective"),
    [
        # Documents of one length, and such as are cut at one.
        (np.ones(40) / 40, 40),
        (np.repeat([1, 4], 30) / 150, 150**2 / (30 + 30 * 16)),
        # exp(1.5)^2 / 0.08^2 = 3138 are asked of a spread of 1, (0.8 exp(0.96))^2 / 0.08^2 = 682 of
        # 0.8. One is one, however many are asked.
        (spread_out(200, 1.0), 20 * 200 / 3138),
        (spread_out(100, 1.0), 1),
        (spread_out(750, 0.8), 20 * 750 / 682),
        # Less than twenty by the shares alone.
        (spread_out(20, 0.3), 1 / (spread_out(20, 0.3) ** 2).sum()),
    ],
)
def test_documents_of_like_size_by_hand(share_G, effective):
    assert skew_limited_effective_documents(share_G) == pytest.approx(effective, rel=0.06)


@pytest.mark.parametrize(
    ("effective", "follows", "factor"),
    [(1e9, 1, 1), (60, 0, 1), (60, 0.5, 1.25), (40, 1, 2), (22, 0.9, 10), (20, 1, 26), (3, 1, 26)],
)
def test_the_factor_of_lengths_by_hand(effective, follows, factor):
    assert variance_factor(effective, follows) == pytest.approx(factor)


@pytest.mark.parametrize(("parts", "seeds"), [(1, 1), (2, 3)])
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
    def is_enough(*shares):
        parts = [
            differences_of_sums(np.ones((3, 1)) * share_G, share_G, names(share_G, k))
            for k, share_G in enumerate(shares)
        ]
        return estimate(parts).has_enough_for_verdict

    uneven, alike = spread_out(300, 0.8), np.ones(300) / 300
    assert not is_enough(uneven)
    assert is_enough(uneven, uneven, uneven)
    assert is_enough(uneven, alike, alike)
    assert not is_enough(alike, alike, alike[:19] * 300 / 19)


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
