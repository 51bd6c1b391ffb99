import numpy as np
from arrays import NAMES, assert_close, combined
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.numerics.simplex import keys_for_shuffling, shuffled_others
from pike_mixing.rules.surgery import PCGrad


def by_the_algorithm(gradient_KxD, orders):
    """Algorithm 1 on the gradients themselves."""
    total_D = np.zeros_like(gradient_KxD[0])
    for own_D, order in zip(gradient_KxD, orders, strict=True):
        altered_D = own_D.copy()
        for other_D in gradient_KxD[order]:
            dot = altered_D @ other_D
            if dot < 0:
                altered_D = altered_D - dot / (other_D @ other_D) * other_D
        total_D += altered_D
    return total_D


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(0, 100))
@effort(max_examples=25)
def test_the_gramian_is_enough(seed, K, step):
    generator = np.random.default_rng(seed)
    gradient_KxD = generator.standard_normal((K, 5))
    order = shuffled_others(keys_for_shuffling(NAMES[:K], 3), step)
    update_D = combined(PCGrad(scale="reference"), gradient_KxD, step=step, seed=3) @ gradient_KxD
    expected_D = by_the_algorithm(gradient_KxD, order)
    assert_close(update_D, expected_D, rtol=1e-9, atol=1e-9)
