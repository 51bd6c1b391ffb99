"""What the paper's mathematics contradicts, every number worked out by hand."""

import math

import pytest

from pipeline.theory import convergence_findings, descent_findings, example, tilt
from pipeline.theory.finding import Finding


def stuck():
    """E[L] of a static share of 0.04 after 100 steps: sigma = (2, 0), eta = 1/2, b = 16."""
    first, second = 0.35**2, 1.0
    noise = 0.25 * 0.04 * 4 / 16
    for _ in range(100):
        first, second = 0.98**2 * first + noise, 0.52**2 * second + noise
    return (first + second) / 2


def tilted_step(power):
    """sum_k y_k L_k after theta_k <- (1 - w_k) theta_k, with s_k = y_k^power theta_k^2.

    w_k = 1 - mu / s_k sums to 1 at mu = 1 / (1/s_1 + 1/s_2).
    """
    y = [1 / (1 + math.exp(-1.5)), 1 / (1 + math.exp(1.5))]
    s = [y[0] ** power * 4, y[1] ** power]
    mu = 1 / (1 / s[0] + 1 / s[1])
    left = [mu / s[0] * 2, mu / s[1]]
    return sum(y_k * x**2 / 2 for y_k, x in zip(y, left, strict=True))


# Conflict of three losses of cosine -0.1 with products 2, 1.7, 1.5, and what beta is at 1/3 each.
CONFLICT = 0.1 * 1.7 * 1.5 / (1.7**2 + 1.5**2)
SQUARES = 2**2 + 1.7**2 + 1.5**2
GOLDEN = (math.sqrt(5) - 1) / 2
FIXED = 0.9949  # theta = tanh(3 theta)

EXPECTED = [
    ("fig: ExampleAdaptiveMixingVsStatic", stuck(), 0.35**2 / 2),
    ("example:Adaptive", 1, 2),
    # L eta^2 sigma^2 / (2 b) = 1/4 / 4, with L = 1 and with 2.
    ("thm:DescentMainBody", 1 / 16, 1 / 8),
    # The same, and half of it: two of four parameters are in no loss.
    ("thm:DescentLowerBound", 1 / 16, 1 / 32),
    # 0.1 * 3 * 1.5 / (9 + 2.25); no weight, no conflict allowed.
    ("thm:IterationComplexityConceptualPiKe", 0.04, 0),
    (
        "eq:relax_problem",
        None,
        # Loss, first-order term with beta = 1 - 4 c, noise and second-order term with L = 1.1.
        SQUARES / 2
        - 0.8 * (1 - 4 * CONFLICT) * SQUARES / 3
        + 1.1 * 0.64 / 32
        + 1.1 * 0.64 * SQUARES / 18,
    ),
    ("le: correlation_of_losses", 0.0202, 0.04),
    ("thm: formal_descent_lemma", 0.0128, 1.28),
    ("sec:PiKe", 1, 0.8),
    # eta of 0.1 eta^2 + 0.1 eta = 0.1: T = 360 / eta.
    ("thm:IterationComplexityConceptualPiKe", 360 / GOLDEN, 720),
    ("thm:app_IterationComplexityConceptualPiKe", 720, 2880),
    ("thm:app_IterationComplexityConceptualPiKe", 1440, 2880),
    ("eq:app_Iteration_eq_1", 1, 0.8),
    ("eq:app_Iteration_eq_2", -0.375, 0),
    # eta = 1/2: -0.005 + 0.0125 + 0.00125 against -0.0025.
    ("eq:app_Iteration_eq_3", -0.0025, 0.00875),
    ("thm:app_IterationComplexityConceptualPiKe", 719, 720),
    # 36 * 0.2 / 0.01 and 36 * 0.125 / 0.025^2.
    ("eq:PiKEIterationComplexity", 720, 7200),
    ("le:fairness_optimal_y", 1, 3),
    # log 3 / tau, the mean, and tau / 2 times the variance, 0.3756.
    ("eq:fairness_def", 7.1 / 3, 1000 * math.log(3) + 7.1 / 3 + 0.00018778),
    ("lemma:MinToMinMax", 0, -3),
    # Both losses 1/2 at 0. At +-theta: (theta - 1)^2 / 2, (theta + 1)^2 / 2.
    (
        "lemma:MinToMinMax",
        0.5 + math.log(2) / 3,
        math.log(math.exp(1.5 * (FIXED - 1) ** 2) + math.exp(1.5 * (FIXED + 1) ** 2)) / 3,
    ),
    ("alg: fair_main", tilted_step(2), tilted_step(1)),
]

FOUND = [
    *example.findings(),
    *descent_findings.findings(),
    *convergence_findings.findings(),
    *tilt.findings(),
]


def test_each_finding_is_worked_out_here():
    assert [found.place for found in FOUND] == [place for place, *_ in EXPECTED]


@pytest.mark.parametrize(("found", "expected"), list(zip(FOUND, EXPECTED, strict=False)))
def test_both_numbers_by_hand(found, expected):
    _, stated, recomputed = expected
    if stated is not None:
        assert found.stated == pytest.approx(stated, rel=1e-4)
    assert found.recomputed == pytest.approx(recomputed, rel=1e-4, abs=1e-12)


def test_weights_that_should_be_best_have_the_higher_bound():
    (found,) = (one for one in FOUND if one.place == "eq:relax_problem")
    assert found.stated > found.recomputed + 0.1


def test_two_numbers_that_agree_are_no_finding():
    with pytest.raises(AssertionError, match="is what the paper says"):
        Finding("p", "s", 1.0, 1.0 + 1e-9, "slip", "")
