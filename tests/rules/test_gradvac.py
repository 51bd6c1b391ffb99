import math

import numpy as np
import pytest
from arrays import assert_close, matrix, observed
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.interface import Signals
from pike_mixing.numerics.simplex import keys_for_shuffling, shuffled_others
from pike_mixing.rules.surgery import GradVaccine


def signals(gradient_KxD, step=0):
    return Signals(step=step, batch_rows=4, gram_KxK=gradient_KxD @ gradient_KxD.T)


def after(method, *gradients):
    """The state after steps with these gradients."""
    return observed(method, *(signals(g_KxD, step) for step, g_KxD in enumerate(gradients)))


SAME, ORTHOGONAL = matrix([1, 0], [1, 0]), matrix([1, 0], [0, 1])


def test_a_gradient_is_turned_up_to_the_target():
    # Target 1/2, cosine 0: g1' = g1 + (1/2) / sqrt(3/4) g2, and so for g2'.
    method = GradVaccine(beta=0.5)
    coefficient_K = method.gradient_coefficients(after(method, SAME), signals(ORTHOGONAL, 1))
    assert coefficient_K.tolist() == pytest.approx([(1 + 1 / math.sqrt(3)) / 2] * 2)
    whole = GradVaccine(beta=0.5, scale="reference")
    coefficient_K = whole.gradient_coefficients(after(whole, SAME), signals(ORTHOGONAL, 1))
    assert coefficient_K.tolist() == pytest.approx([1 + 1 / math.sqrt(3)] * 2)


def test_a_high_target_is_cut():
    # After 50 identical batches the target is 1, for which no finite turn is enough.
    method = GradVaccine(beta=0.5, highest_target=0.6)
    state = after(method, *[SAME] * 50)
    assert state["target_KxK"][0, 1] == pytest.approx(1)
    # 0.6 / sqrt(1 - 0.36) = 3/4.
    coefficient_K = method.gradient_coefficients(state, signals(ORTHOGONAL, 50))
    assert coefficient_K.tolist() == pytest.approx([(1 + 0.75) / 2] * 2)


def cosine_similarity(first_D, second_D):
    return first_D @ second_D / np.linalg.norm(first_D) / np.linalg.norm(second_D)


def by_the_algorithm(gradient_KxD, target_KxK, orders, beta):
    """Algorithm 1 on the gradients themselves; changes the targets in place."""
    total_D = np.zeros_like(gradient_KxD[0])
    for i, (own_D, order) in enumerate(zip(gradient_KxD, orders, strict=True)):
        altered_D = own_D.copy()
        for j in order:
            other_D, target = gradient_KxD[j], target_KxK[i, j].item()
            cosine = cosine_similarity(altered_D, other_D)
            if cosine < target:
                sine, target_sine = math.sqrt(1 - cosine**2), math.sqrt(1 - target**2)
                turn = target * sine - cosine * target_sine
                factor = np.linalg.norm(altered_D) * turn / (np.linalg.norm(other_D) * target_sine)
                altered_D = altered_D + factor * other_D
            target_KxK[i, j] = (1 - beta) * target + beta * cosine
        total_D += altered_D
    return total_D


@given(st.integers(0, 2**31), st.integers(1, 5))
@effort(max_examples=12)
def test_the_gramian_is_enough(seed, K):
    generator = np.random.default_rng(seed)
    method = GradVaccine(beta=0.3, scale="reference", highest_target=0.999)
    names = tuple("abcdef"[:K])
    state = method.init(names, 3)
    target_KxK = np.zeros((K, K))
    for step in range(9):
        gradient_KxD = generator.standard_normal((K, 4)) + 0.5
        order = shuffled_others(keys_for_shuffling(names, 3), step)
        expected_D = by_the_algorithm(gradient_KxD, target_KxK, order, 0.3)
        update_D = method.gradient_coefficients(state, signals(gradient_KxD, step)) @ gradient_KxD
        assert_close(update_D, expected_D, rtol=1e-7, atol=1e-7)
        state = method.observe(state, signals(gradient_KxD, step))
        assert_close(state["target_KxK"], target_KxK, rtol=1e-7, atol=1e-7)


def test_an_absent_domain_keeps_its_targets():
    method = GradVaccine(beta=0.5)
    state = after(method, matrix([1, 0], [1, 0], [1, 0]))
    gram_KxK = matrix([1, 0, math.nan], [0, 1, math.nan], [math.nan] * 3)
    state = method.observe(state, Signals(step=1, batch_rows=4, gram_KxK=gram_KxK))
    rows = [[0, 0.25, 0.5], [0.25, 0, 0.5], [0.5, 0.5, 0]]
    assert_close(state["target_KxK"], matrix(*rows))


def test_opposite_gradients_vanish_without_harm():
    gradient_KxD = matrix([1, 0], [-2, 0], [0, 1])
    method = GradVaccine(beta=0.5)
    coefficient_K = method.gradient_coefficients(
        method.init(("a", "b", "c"), 0), signals(gradient_KxD)
    )
    # Of the first two nothing is left, the third stays: the update is its third.
    assert_close(coefficient_K @ gradient_KxD, matrix([0, 1 / 3])[0])
    assert np.isfinite(after(method, gradient_KxD, gradient_KxD)["target_KxK"]).all()
