"""Tails of the binomial and of Student's t, written out: SciPy is no dependency of the results."""

import functools
import math
from statistics import NormalDist

NORMAL = NormalDist()


def normal_quantile(level: float) -> float:
    """The z with P(|Z| > z) = level; 1.96 at 0.05."""
    return NORMAL.inv_cdf(1 - level / 2) if level > 1e-15 else -NORMAL.inv_cdf(level / 2)


def binomial_pmf(trials: int) -> list[float]:
    """Probabilities of 0 ... trials heads of a fair coin."""
    halves = trials * math.log(2)
    whole = math.lgamma(trials + 1)
    return [
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) - halves)
        for k in range(trials + 1)
    ]


def t_tail(t: float, degrees: float) -> float:
    """Two-sided tail P(|T| > t) of Student's t: I_x(degrees / 2, 1 / 2), x = d / (d + t^2)."""
    assert degrees > 0
    square = t * t
    return _incomplete_beta(degrees / (degrees + square), square / (degrees + square), degrees / 2)


@functools.lru_cache(maxsize=1024)
def t_quantile(level: float, degrees: float) -> float:
    """The t with P(|T| > t) = level.

    Newton's method from the normal quantile, which lies below: the tail is convex, so that the
    steps only go up.
    """
    t = normal_quantile(level)
    for _ in range(200):
        step = (t_tail(t, degrees) - level) / (2 * _t_density(t, degrees))
        t += step
        if abs(step) <= 1e-12 * t:
            break
    return t


def _t_density(t: float, degrees: float) -> float:
    half = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    falling = (degrees + 1) / 2 * math.log1p(t * t / degrees)
    return math.exp(half - falling) / math.sqrt(degrees * math.pi)


def _incomplete_beta(x: float, rest: float, a: float) -> float:
    """The regularised incomplete beta function I_x(a, 1/2); `rest` is 1 - x, exactly.

    Continued fraction of Numerical Recipes, section 6.4, on the side where it converges fast.
    """
    if rest <= 0:
        return 1.0
    if x <= 0:
        return 0.0
    scale = math.lgamma(a + 0.5) - math.lgamma(a) - math.lgamma(0.5)
    front = math.exp(scale + a * math.log(x) + 0.5 * math.log(rest))
    if x < (a + 1) / (a + 2.5):
        return front * _fraction(x, a, 0.5) / a
    return 1 - front * _fraction(rest, 0.5, a) / 0.5


def _fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    value = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / ((1 + term * d) or tiny)
            c = (1 + term / c) or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
