"""The weights that minimise the bound, against hand, a certificate and a solver."""

import numpy as np
import pytest

from pike_mixing.rules.conceptual_pike import minimiser
from pipeline.theory import relaxed
from pipeline.theory.problem import vector


@pytest.fixture(scope="module")
def solved():
    return {row["name"]: row for row in relaxed.solutions(60, np.random.default_rng(0))}


@pytest.mark.parametrize(
    ("name", "weights", "mu", "value"),
    [
        # -2 + 3 w = -1 + 2 (1 - w): w = 3/5, and mu = 2 - 9/5.
        ("all positive", [0.6, 0.4], 0.2, -1.2 + 0.54 - 0.4 + 0.16),
        # -4 + 1 < -1: the first keeps all.
        ("one at zero", [1, 0], 3, -3.5),
        ("equal", [1 / 3] * 3, 1 / 3, -2 / 3),
        ("noise alone", [0, 0, 1], -0.5, 0.5),
        # -1 + 4 w = -1/2: w = 1/8.
        ("one without gradient takes the rest", [0.125, 0.875], 0.5, -0.125 + 1 / 32 - 7 / 16),
        ("one without gradient, too dear", [1, 0], 2, -2.5),
        # -1 + 4 w = 0: w = 1/4.
        ("two without gradient, alike", [0.375, 0.25, 0.375], 0, -0.25 + 0.125),
    ],
)
def test_cases_by_hand(solved, name, weights, mu, value):
    row = solved[name]
    assert row["weights"] == pytest.approx(weights, abs=1e-12)
    assert row["mu"] == pytest.approx(mu)
    assert row["value"] == pytest.approx(value)


def test_no_weights_are_better_than_the_lower_bound_and_the_codes_reach_it(solved):
    assert len(solved) == len(relaxed.CASES) + 60
    for row in solved.values():
        assert sum(row["weights"]) == pytest.approx(1)
        assert min(row["weights"]) >= 0
        assert abs(row["gap"]) <= 1e-12 * (1 + abs(row["value"]) + max(row["kap"]))


def test_the_lower_bound_tells_wrong_weights():
    # At equal weights -2 + 1.5 and -1 + 1 differ: mu = 1/2, -1/2 - (3/2)^2/6 - (1/2)^2/4, and the
    # value is -3/2 + 5/8.
    lam_2, kap_2, even_2 = vector(-2, -1), vector(3, 2), vector(0.5, 0.5)
    mu = relaxed.multiplier(even_2, lam_2, kap_2)
    assert mu == pytest.approx(0.5)
    bound = relaxed.lower_bound(mu, lam_2, kap_2)
    assert bound == pytest.approx(-0.5 - 0.375 - 0.0625)
    assert relaxed.value(even_2, lam_2, kap_2) - bound == pytest.approx(-0.875 + 0.9375)


@pytest.mark.parametrize("seed", range(6))
def test_a_solver_finds_the_same(seed):
    optimize = pytest.importorskip("scipy.optimize")
    generator = np.random.default_rng(seed)
    lam_K = generator.standard_normal(4)
    kap_K = 3 * generator.random(4)
    theirs = optimize.minimize(
        lambda w: relaxed.value(w, lam_K, kap_K),
        [0.25] * 4,
        jac=lambda w: lam_K + kap_K * w,
        method="SLSQP",
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda w: sum(w) - 1, "jac": lambda w: [1.0] * 4},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert minimiser(lam_K, kap_K) == pytest.approx(theirs.x, abs=1e-6)
