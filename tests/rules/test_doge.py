import math

import arrays
import numpy as np
import pytest
from arrays import assert_close, combined, matrix, observed, vector

from pike_mixing.rules.doge import DoGE

LN3 = math.log(3)


def seen(*gradients):
    gradient_KxP = np.array(gradients, dtype=np.float64)
    return arrays.seen(gram_KxK=gradient_KxP @ gradient_KxP.T)


@pytest.mark.parametrize(
    ("settings", "gradients", "expected"),
    [
        # The released code counts a domain's own gradient: scores 1 / 0.75 and 0.25 / 0.75.
        ({}, [(1, 0), (0, 0.5)], (3, 1)),
        # Gradients are clipped before all else.
        ({}, [(50, 0), (0, 0.5)], (3, 1)),
        # A conflict takes nothing: against the sum of the others 1 * (1 - 1), the same, and -1 * 2.
        ({"self_term": False}, [(1, 0), (1, 0), (-1, 0)], (1, 1, 1)),
        # Scores 0.36 / 0.6, the same, and 0.
        ({"self_term": False}, [(0.6, 0), (0.6, 0), (0, 0.6)], (3**0.6, 3**0.6, 1)),
        # Scores 2 and about 0 end at the cap.
        ({"cap": 0.5}, [(1, 0), (0, 1e-6)], (3**0.5, 1)),
    ],
)
def test_weights_of_the_proxy_by_hand(settings, gradients, expected):
    state = observed(DoGE(rate=LN3, **settings), seen(*gradients))
    assert_close(state["proxy_K"], vector(*expected) / sum(expected), atol=1e-5)


def test_a_clipped_gradient_has_a_smaller_coefficient():
    # 3/4 of a gradient that is 50 times too long.
    coefficient_K = combined(DoGE(rate=LN3), np.array([[50, 0], [0, 0.5]]))
    assert_close(coefficient_K, vector(0.75 / 50, 0.25))


def test_the_average_is_over_the_updates():
    method = DoGE(rate=LN3)
    state = observed(method, *[seen((1, 0), (0, 0.5))] * 2)
    # 3/4 and 9/10.
    assert_close(state["average_K"], vector(0.825, 0.175))
    assert method.weights(state, 2).tolist() == [0.5, 0.5]


def test_an_absent_domain_keeps_its_weight():
    method = DoGE(rate=LN3)
    state = method.init(("en", "hi", "de"), 0)
    gram_KxK = matrix([1, 0, math.nan], [0, 0.25, math.nan], [math.nan] * 3)
    signals = arrays.seen(gram_KxK=gram_KxK)
    after = method.observe(state, signals)
    assert_close(after["proxy_K"], vector(2 / 3 * 0.75, 2 / 3 * 0.25, 1 / 3))
    assert_close(method.gradient_coefficients(state, signals), vector(0.75, 0.25, 0))
