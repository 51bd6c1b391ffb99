import math

import numpy as np
from arrays import assert_close, vector

from pike_mixing.interface import Signals
from pike_mixing.rules.doge import DoGE

LN3 = math.log(3)


def seen(*gradients):
    gradient_KxP = np.array(gradients, dtype=np.float64)
    return Signals(step=0, batch_rows=4, gram_KxK=gradient_KxP @ gradient_KxP.T)


def test_a_domain_that_points_where_all_point_gains():
    method = DoGE(rate=LN3, self_term=False)
    state = method.init(("en", "hi", "de"), 0)
    signals = seen((0.6, 0), (0.6, 0), (0, 0.6))
    # g . sum of the others: 0.36, 0.36 and 0, over a mean norm of 0.6: scores 0.6, 0.6, 0.
    odds = 3**0.6
    expected_K = vector(odds, odds, 1) / (2 * odds + 1)
    assert_close(method.observe(state, signals)["proxy_K"], expected_K)
    assert_close(method.combine(state, signals), expected_K)


def test_the_released_code_counts_a_domains_own_gradient():
    method = DoGE(rate=LN3)
    state = method.observe(method.init(("en", "hi"), 0), seen((1, 0), (0, 0.5)))
    # Scores 1 / 0.75 and 0.25 / 0.75.
    assert_close(state["proxy_K"], vector(3, 1) / 4)


def test_gradients_are_clipped_before_all_else():
    method = DoGE(rate=LN3, clip_norm=1)
    clipped, unclipped = seen((1, 0), (0, 0.5)), seen((50, 0), (0, 0.5))
    state = method.init(("en", "hi"), 0)
    assert_close(
        method.observe(state, unclipped)["proxy_K"], method.observe(state, clipped)["proxy_K"]
    )
    # 3/4 of a gradient that is 50 times too long.
    assert_close(method.combine(state, unclipped), vector(0.75 / 50, 0.25))


def test_a_conflict_is_clipped_to_nothing():
    method = DoGE(rate=LN3, self_term=False)
    # Against the sum of the others: 1 * (1 - 1), the same, and -1 * 2.
    state = method.observe(method.init(("en", "hi", "de"), 0), seen((1, 0), (1, 0), (-1, 0.0)))
    assert_close(state["proxy_K"], vector(1, 1, 1) / 3)


def test_alignments_end_at_the_cap():
    method = DoGE(rate=LN3, cap=0.5)
    state = method.observe(method.init(("en", "hi"), 0), seen((1, 0), (0, 1e-6)))
    # Scores 2 and about 0.
    assert_close(state["proxy_K"], vector(3**0.5, 1) / (3**0.5 + 1), rtol=0, atol=1e-5)


def test_the_average_is_over_the_updates():
    method = DoGE(rate=LN3)
    state = method.init(("en", "hi"), 0)
    for _ in range(2):
        state = method.observe(state, seen((1, 0), (0, 0.5)))
    # 3/4 and 9/10.
    assert_close(state["average_K"], vector(0.825, 0.175))
    assert method.weights(state, 2).tolist() == [0.5, 0.5]


def test_an_absent_domain_keeps_its_weight():
    method = DoGE(rate=LN3)
    state = method.init(("en", "hi", "de"), 0)
    signals = seen((1, 0), (0, 0.5), (1, 1))
    signals.gram_KxK[2] = signals.gram_KxK[:, 2] = math.nan
    after = method.observe(state, signals)
    assert_close(after["proxy_K"], vector(2 / 3 * 0.75, 2 / 3 * 0.25, 1 / 3))
    assert_close(method.combine(state, signals), vector(0.75, 0.25, 0))
