import numpy as np
from arrays import combined, matrix
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.rules.surgery import CAGrad


@given(st.integers(0, 2**31), st.integers(2, 6), st.floats(0.01, 0.95))
@effort(max_examples=20)
def test_no_update_in_the_ball_is_better_for_the_worst_domain(seed, K, c):
    generator = np.random.default_rng(seed)
    gradient_KxD = generator.standard_normal((K, 3)) + 0.3
    update_D = combined(CAGrad(c=c, scale="reference"), gradient_KxD) @ gradient_KxD
    mean_D = gradient_KxD.mean(axis=0)
    radius = c * np.linalg.norm(mean_D)
    assert np.linalg.norm(update_D - mean_D) <= radius * (1 + 1e-6)
    steps_NxD = generator.standard_normal((4000, 3))
    others_NxD = mean_D + radius * steps_NxD / np.linalg.norm(steps_NxD, axis=1, keepdims=True)
    worst = (others_NxD @ gradient_KxD.T).min(axis=1).max()
    assert (gradient_KxD @ update_D).min() >= worst - 1e-9


def test_gradients_whose_mean_is_zero_move_nothing():
    gradient_KxD = matrix([1, 0], [-1, 0])
    assert (combined(CAGrad(), gradient_KxD) @ gradient_KxD).tolist() == [0, 0]


def test_opposite_gradients_keep_the_update_bounded():
    # g_w can vanish: coefficients are large, but the update stays in the ball.
    gradient_KxD = matrix([1, 0], [-2, 0])
    update_D = combined(CAGrad(scale="reference"), gradient_KxD) @ gradient_KxD
    assert np.linalg.norm(update_D) <= 0.5 * 1.4 * (1 + 1e-6)
