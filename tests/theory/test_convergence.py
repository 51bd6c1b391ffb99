"""Iteration bounds by hand, and runs on losses of which the steps can be counted."""

import numpy as np
import pytest

from pipeline.theory import convergence
from pipeline.theory.convergence import ConvergenceConstants, measure_constants, steps_until_targets
from pipeline.theory.problem import axis_problem, leaning_problem, vector

KNOWN = ConvergenceConstants(L=2, beta=0.5, gamma=1.5, delta=0.1, b=10, gap=3, variance_K=(2, 1))


def test_bounds_by_hand():
    # eta = 0.5 * 0.1 / (2 * 0.2 + 2 * 1.5 * 0.1), T = 6 / (eta 0.05).
    assert KNOWN.pike_step_size() == pytest.approx(0.05 / 0.7)
    assert KNOWN.pike_iteration_bound() == pytest.approx(1680)  # 12 * 0.35 / 0.0025
    # 2 * 2 * 3 (0.1 + 2 * 0.3) / 0.01, at eta = 0.1 / (2 (0.05 + 0.3)).
    assert KNOWN.uniform_step_size() == pytest.approx(1 / 7)
    assert KNOWN.uniform_iteration_bound() == pytest.approx(840)


def test_constants_of_leaning_losses_hold_everywhere():
    found = measure_constants(leaning_problem("", vector(1, 2, 3), 0.1), vector(1, 1, 1), 0.2, 16)
    assert (found.beta, found.gamma, found.L) == pytest.approx((0.8, 1.2, 1.2))
    assert found.variance_K == (1, 2, 3)


@pytest.mark.parametrize(
    ("start", "method", "horizon", "largest", "whole"),
    [
        # At two tasks theta halves: squares of 9/4^t, and 9/64 > 0.1 > 9/256; the sum of both,
        # 2 * 9/4^t, is 18/64, 18/256. From (6, 0) 36/256 > 0.1 > 36/1024.
        ((3, 3), "uniform", 10, 4, 4),
        ((6, 0), "uniform", 10, 5, 5),
        # From (6, 0) all rows are of task 1: one step finishes it. From (3, 3) half of each.
        ((6, 0), "conceptual PiKE", 10, 1, 1),
        ((3, 3), "conceptual PiKE", 10, 4, 4),
        # Four tasks: squares 9 (9/16)^t, all below 0.1 at t = 8 (0.0902), their sum not before
        # t = 11 (0.0642; 0.1142 at 10).
        ((3, 3, 3, 3), "uniform", 20, 8, 11),
        # What is not seen is null.
        ((3, 3), "uniform", 4, None, None),
    ],
)
def test_steps_of_size_one_without_noise_are_counted_by_hand(
    start, method, horizon, largest, whole
):
    problem, theta_D = axis_problem("", vector(*[0.0] * len(start))), vector(*start)
    known = measure_constants(problem, theta_D, 0.1, 64)
    found = steps_until_targets(
        problem, theta_D, known, method, 1, 2, horizon, np.random.default_rng()
    )
    assert found == {"max": largest, "sum": whole}


@pytest.mark.slow
def test_runs_stay_below_the_bounds():
    rows = convergence.convergence_rows(2, 100, np.random.default_rng(0))
    assert len(rows) == 4 * 2 * 2 * 2
    bounded = [row for row in rows if row["bound"] is not None]
    assert {(row["method"], row["target"]) for row in bounded} == {
        ("conceptual PiKE", "max"), ("uniform", "sum"),
    }  # fmt: skip
    assert all(row["reached"] <= row["bound"] for row in bounded)
    for row in rows:
        (own,) = (
            other
            for other in rows
            if other["step_size"] == "theorem"
            and all(other[name] == row[name] for name in ("problem", "method", "target"))
        )
        assert row["reached"] <= own["reached"]
