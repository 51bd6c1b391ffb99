"""Surgeons on problems whose answer is known; closed forms are worked out beside the numbers."""

import pytest
from arrays import combined, matrix

from pike_mixing.rules.surgery import MGDA, CAGrad, GradVaccine, NashMTL, PCGrad, UPGrad

TWO = matrix([2, 0], [-1, 1])
"""Gradients of lengths 2 and sqrt(2), of product -2."""
BENT = (17.6 - 35.2**0.5) / 44
"""CAGrad's w_1 at c = 0.8. With g_w = (3 w - 1, 1 - w), g_w . g_0 = w and radius r^2 = 0.32, the
slope 1 + r (10 w - 4) / |g_w| is zero where 22 w^2 - 17.6 w + 3.12 = 0 and w < 0.4."""


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # g_1' = g_1 + g_2 and g_2' = g_2 + g_1 / 2, and their mean.
        (PCGrad(), [0.75, 1]),
        (GradVaccine(), [0.75, 1]),
        (UPGrad(), [0.75, 1]),
        # w_1 = g_2 . (g_2 - g_1) / |g_1 - g_2|^2 = 4 / 10.
        (MGDA(), [0.4, 0.6]),
        (CAGrad(c=0), [0.5, 0.5]),
        # The slope is positive everywhere: w = (0, 1), r / |g_2| = 0.4 sqrt(1/2) / sqrt(2) = 0.2.
        (CAGrad(c=0.4), [0.5 / 1.4, 0.7 / 1.4]),
        # There |g_w| = r (4 - 10 w), so r / |g_w| = 1 / (4 - 10 w).
        (
            CAGrad(c=0.8, scale="reference"),
            [0.5 + BENT / (4 - 10 * BENT), 0.5 + (1 - BENT) / (4 - 10 * BENT)],
        ),
        # alpha_1 (4 alpha_1 - 2 alpha_2) = 1 = alpha_2 (2 alpha_2 - 2 alpha_1): alpha_k |g_k| is
        # even, alpha_1^2 = 1 / (4 - 2 sqrt(2)).
        (NashMTL(scale="reference"), [(4 - 8**0.5) ** -0.5, (2 - 2**0.5) ** -0.5]),
        (NashMTL(), [1 / (1 + 2**0.5), 2**0.5 / (1 + 2**0.5)]),
    ],
)
def test_two_conflicting_gradients_by_hand(method, expected):
    assert combined(method, TWO).tolist() == pytest.approx(expected, rel=1e-6)
