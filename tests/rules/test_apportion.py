import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pike_mixing.apportion import apportion, apportion_over_steps

weights_lists = st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda w: sum(w) > 1e-6)


def counts(weights, b):
    return apportion(np.array(weights, dtype=np.float64), b).tolist()


@pytest.mark.parametrize(
    ("weights", "b", "expected"),
    [
        # 256 / 6 = 42 remainder 4: at a tie the lower indices get what is left.
        ([1 / 6] * 6, 256, [43, 43, 43, 43, 42, 42]),
        ([0.25] * 4, 3, [1, 1, 1, 0]),
        # Quotas 1.2, 3.5, 5.3: whole parts 1 + 3 + 5 = 9, the tenth row goes to the half.
        ([0.12, 0.35, 0.53], 10, [1, 4, 5]),
        # 0.29 * 100 = 28.999999999999996.
        ([0.29, 0.57, 0.14], 100, [29, 57, 14]),
        # 0.1 + 0.2 = 0.30000000000000004; both quotas are 1.5, and differ by rounding alone.
        ([0.3, 0.1 + 0.2, 0.4], 5, [2, 1, 2]),
        ([0.1 + 0.2, 0.3, 0.4], 5, [2, 1, 2]),
        ([0.0, 1 / 3, 1 / 3, 1 / 3], 256, [0, 86, 85, 85]),
    ],
)
def test_counts_by_hand(weights, b, expected):
    assert counts(weights, b) == expected


@given(weights_lists, st.integers(1, 4096))
def test_counts_sum_to_the_batch_and_what_is_left_goes_to_the_largest_remainders(weights, b):
    count_K = apportion(np.array(weights), b)
    assert count_K.sum() == b
    assert count_K.min() >= 0
    # Whoever is rounded down has no larger remainder than whoever is rounded up.
    short_K = np.array(weights) / sum(weights) * b - count_K
    assert short_K.max() - short_K.min() <= 1 + 1e-6


# Rounding that evens out over steps.


def over_steps(weights, b, steps):
    weights_K = np.array(weights, dtype=np.float64)
    return np.stack([apportion_over_steps(weights_K, b, step) for step in range(steps)])


def test_points_a_row_apart_fall_into_the_domains_stretches():
    # Quotas 1.2, 3.5 and 5.3 end at 1.2, 4.7 and 10. Step 0: points 0, 1, 2, ... 9.
    assert over_steps([0.12, 0.35, 0.53], 10, 1).tolist() == [[2, 3, 5]]
    # Step 1: points 0.618, 1.618, ... 9.618.
    assert over_steps([0.12, 0.35, 0.53], 10, 2)[1].tolist() == [1, 4, 5]


def test_a_small_weight_gets_its_rows_over_the_steps():
    counts_TxK = over_steps([0.01, 0.99], 24, 1000)
    # 0.24 rows a step; largest remainders would give none at all.
    assert counts_TxK[:, 0].sum().item() == pytest.approx(240, abs=2)
    assert counts([0.01, 0.99], 24) == [0, 24]


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=20).filter(any),
    st.integers(1, 20),
    st.integers(0, 10**6),
)
# 0.2 + 0.2 + 0.2 = 0.6000000000000001; the sum of six sixths is off by rounding, too.
@example([1] * 5, 5, 0)
@example([1] * 6 + [0], 4, 0)
def test_whole_quotas_are_the_counts_of_every_step(rows, times, step):
    weights, b = [n / sum(rows) for n in rows], times * sum(rows)
    for at in (0, step):
        assert apportion_over_steps(np.array(weights), b, at).tolist() == [times * n for n in rows]


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-300, 1)), min_size=1, max_size=20).filter(any),
    st.sampled_from([1 - 2**-52, 1 - 2**-53, 1.0, 1 + 2**-52, 1 + 2**-51]),
    st.integers(1, 4096),
    st.one_of(st.just(0), st.integers(0, 10**7)),
)
def test_every_count_is_its_quota_rounded_up_or_down(weights, off, b, step):
    """Of weights, too, whose sum is off by rounding."""
    weights_K = np.array(weights, dtype=np.float64)
    share_K = weights_K / weights_K.sum()
    count_K = apportion_over_steps(share_K * off, b, step)
    assert count_K.dtype == np.int64
    assert count_K.sum() == b
    assert count_K.min() >= 0
    assert count_K[weights_K == 0].sum() == 0
    assert (np.abs(count_K - share_K * b) < 1 + 1e-6).all()


@pytest.mark.slow
@given(weights_lists, st.integers(1, 64))
def test_rows_sum_to_the_quotas_over_the_steps(weights, b):
    weights_K = np.array(weights, dtype=np.float64)
    mean_K = over_steps(weights, b, 233).mean(axis=0)
    # 233 is a Fibonacci number: so many multiples of the golden ratio are spread almost evenly, and
    # no stretch between two ends is off by more than a few points.
    assert np.abs(mean_K - weights_K / weights_K.sum() * b).max() < 3 / 233
