"""Example 1: closed forms by hand, and simulation against them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.theory import example
from pipeline.theory.example import FIGURE, STUCK, ExampleSetting
from pipeline.theory.problem import vector


def setting(start=(2.0, 1.0), sigma=(0.0, 0.0), eta=1.0, b=10, steps=2):
    return ExampleSetting("s", start, sigma, eta, b, steps)


@pytest.mark.parametrize(
    ("theta", "sigma", "expected"),
    [
        ((2, 1), (1, 1), 0.8),  # (4 - 1 + 1) / 5
        ((2, 1), (1, 2), 0.86),  # (3/10 + 4 - 1 + 1) / 5
        ((0, 1), (1, 1), 0),
        ((9, 1), (1, 9), 1),  # (80/10 + 80 + 1) / 82 = 89/82 is above 1
        ((0, 0), (1, 2), 1),
        ((0, 0), (1, 1), 0.5),
    ],
)
def test_optimal_share_by_hand(theta, sigma, expected):
    found = example.optimal_share(vector(*theta)[None], setting(sigma=sigma))
    assert found.tolist() == pytest.approx([expected])


numbers = st.floats(0.05, 3)


@pytest.mark.slow
@given(st.tuples(numbers, numbers), st.tuples(numbers, numbers), st.floats(0.05, 1.5))
def test_no_other_share_has_a_lower_expected_loss(theta, sigma, eta):
    own = setting(start=theta, sigma=sigma, eta=eta, steps=1)
    share_1 = example.optimal_share(vector(*theta)[None], own)
    shares = np.append(share_1, np.linspace(0, 1, 21))
    best, *others = example.expected_static_losses_by_step(own, shares)[1]
    assert min(others) >= best - 1e-12


def test_static_losses_by_hand():
    # Half of each halves theta: 5/2, 5/8, 5/32. All of task 1 finishes it at once and leaves 1/2.
    losses_3x2 = example.expected_static_losses_by_step(setting(), vector(0.5, 1))
    assert losses_3x2.tolist() == [[2.5, 2.5], [0.625, 0.5], [0.15625, 0.5]]
    # With noise (1 + 4) / 2 / 10.
    found = example.expected_static_losses_by_step(setting(sigma=(1.0, 2.0), steps=1), vector(0.5))
    assert found[1].tolist() == pytest.approx([0.875])


def test_simulated_static_mixtures_agree_with_the_formula():
    generator = np.random.default_rng(1)
    own = setting(sigma=(1.0, 3.0), eta=0.2, steps=20)
    for share in (0.2, 0.6):
        mean_T, stderr_T, share_T = example.simulate_path_means(own, share, 2000, generator)
        exact_T = example.expected_static_losses_by_step(own, vector(share))[:, 0]
        assert (np.abs(mean_T - exact_T) <= 4.5 * stderr_T + 1e-12).all()
        assert share_T.tolist() == pytest.approx([share] * 21)


def test_figure_3_adaptive_ends_below_every_static_mixture():
    rows = example.curve_rows(FIGURE, 500, np.random.default_rng(2))
    assert len(rows) == 7 * 101
    last = {row["mixture"]: row for row in rows if row["step"] == FIGURE.steps}
    adaptive = last.pop("adaptive")
    assert adaptive["high"] < min(row["loss"] for row in last.values())
    assert min(last, key=lambda name: last[name]["loss"]).startswith("best static")
    # It begins with task 1 alone, as the formula has it: (8/16 + 8/0.1 + 1) / 10 > 1.
    first = next(row for row in rows if row["mixture"] == "adaptive")
    assert (first["share"], first["loss"]) == (1.0, 5.0)


def test_adaptive_mixing_may_end_above_a_static_mixture():
    # Task 1 is never drawn, so that its loss stays at 0.35^2 / 2; that of task 2 is gone.
    (row,) = example.comparison_rows([STUCK], 2, np.random.default_rng())
    assert row["adaptive"] == pytest.approx(0.35**2 / 2)
    assert row["ahead"] is False
    # eta sigma_1^2 / b = 1/8: with a small share its expected square settles near half of that.
    assert row["best_static"] == pytest.approx(1 / 32, rel=0.1)


def test_a_comparison_within_the_error_of_simulation_says_nothing():
    even = setting(start=(1.0, 1.0), sigma=(1.0, 1.0), eta=0.1, steps=3)
    (row,) = example.comparison_rows([even], 50, np.random.default_rng(0))
    assert row["ahead"] is None
    assert row["low"] <= row["best_static"] <= row["high"]


def test_settings_are_told_apart_by_name():
    names = [own.name for own in example.compared_settings()]
    assert len(set(names)) == len(names)
