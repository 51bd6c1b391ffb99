import numpy as np
import pytest
from arrays import assert_close, combined, matrix

from pike_mixing.interface import Signals
from pike_mixing.rules.surgery import UPGrad


def gradients(seed, K, D):
    generator = np.random.default_rng(seed)
    length_K = 10 ** (2 * generator.random((K, 1)))
    return generator.standard_normal((K, D)) * length_K


def test_opposite_gradients_leave_nothing():
    gradient_KxD = matrix([1, 0], [-3, 0])
    assert (combined(UPGrad(), gradient_KxD) @ gradient_KxD).tolist() == pytest.approx(
        [0, 0], abs=1e-8
    )


@pytest.mark.slow
def test_rounding_of_opposite_gradients_does_no_harm():
    # Products of float32 numbers: the matrix of cosines is singular but for their rounding.
    generator, method = np.random.default_rng(0), UPGrad()
    for _ in range(60):
        pairs_3xD = generator.standard_normal((3, 60), dtype=np.float32)
        own_D = generator.standard_normal(60, dtype=np.float32)
        gradient_KxD = np.stack([*pairs_3xD, *-pairs_3xD, own_D])
        signals = Signals(
            step=0, batch_rows=7, gram_KxK=(gradient_KxD @ gradient_KxD.T).astype(float)
        )
        update_D = (
            method.gradient_coefficients(method.init(tuple("abcdefg"), 0), signals) @ gradient_KxD
        )
        # Of the pairs nothing is left; of the seventh, what is orthogonal to them.
        shadow_D = np.linalg.lstsq(pairs_3xD.T, own_D)[0] @ pairs_3xD
        assert_close(update_D, (own_D - shadow_D) / 7, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("K", [2, 3, 6])
def test_scipy_agrees(K):
    optimize = pytest.importorskip("scipy.optimize")
    for seed in range(10):
        gradient_KxD = gradients(seed, K, 4)
        nearest = []
        for own_D in gradient_KxD:
            # The projection of g onto the dual cone is g plus the residual's cone part: NNLS.
            raised, _ = optimize.nnls(gradient_KxD.T, -own_D)
            nearest.append(own_D + np.array(raised) @ gradient_KxD)
        expected_D = np.stack(nearest).mean(axis=0)
        assert_close(combined(UPGrad(), gradient_KxD) @ gradient_KxD, expected_D)
