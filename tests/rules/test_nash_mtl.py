import numpy as np
import pytest
from arrays import assert_close, combined, matrix
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.rules.surgery import NashMTL


@given(st.integers(0, 2**31), st.integers(1, 6), st.floats(-3, 3))
@effort(max_examples=25)
def test_every_weight_is_the_inverse_of_its_gain(seed, K, magnitude):
    generator = np.random.default_rng(seed)
    gradient_KxD = generator.standard_normal((K, 20)) * 10**magnitude
    alpha_K = combined(NashMTL(scale="reference"), gradient_KxD)
    update_D = alpha_K @ gradient_KxD
    assert (alpha_K * (gradient_KxD @ update_D)).tolist() == pytest.approx([1] * K, rel=1e-8)
    assert np.linalg.norm(update_D).item() == pytest.approx(K**0.5)
    # On Mix's scale the weights keep their proportions.
    mix_K = combined(NashMTL(), gradient_KxD)
    assert_close(mix_K, alpha_K / alpha_K.sum())


@pytest.mark.parametrize("second", [[-1, 0], [-3, 0], [-1, 1e-9]])
def test_opposite_gradients_have_no_bargain_and_are_an_error(second):
    with pytest.raises(InputError, match=r"step 4: nash-mtl found no coefficients.*opposite"):
        combined(NashMTL(), matrix([1, 0], second))


def test_gradients_at_a_wide_angle_still_have_one():
    alpha_K = combined(NashMTL(), matrix([1, 0], [-1, 0.01]))
    assert alpha_K.tolist() == pytest.approx([0.5, 0.5], rel=1e-3)
