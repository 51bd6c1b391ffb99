import math

import numpy as np
import pytest
from arrays import assert_close, measured, vector, weights_after
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.rules.pike import BalancedPiKE, tilted_loss_weights

LN3 = math.log(3)


def test_the_tilt_of_two_losses():
    # tau = 1, losses ln 3 and 0: e^ln3 : e^0 = 3 : 1.
    assert_close(tilted_loss_weights(vector(LN3, 0), 1.0), vector(0.75, 0.25))


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=8), st.floats(1e-3, 100))
def test_the_tilt_sums_to_tau_and_grows_with_the_loss(losses, tau):
    y_K = tilted_loss_weights(vector(*losses), tau)
    assert y_K.sum().item() == pytest.approx(tau)
    assert y_K[losses.index(max(losses))] == y_K.max()


def test_the_tilt_is_stable_for_losses_of_a_thousand():
    # exp(3000) overflows float64; the difference of 0.1 nats must still count e^0.3 : 1.
    y_K = tilted_loss_weights(vector(1000.1, 1000.0), 3.0)
    assert (y_K[0] / y_K[1]).item() == pytest.approx(math.exp(0.3), rel=1e-9)
    assert tilted_loss_weights(vector(1000.0, 0.0), 1.0).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("unknown", [math.nan, math.inf])
def test_a_domain_without_a_loss_has_no_part_in_the_tilt(unknown):
    y_K = tilted_loss_weights(vector(LN3, unknown, 0), 1.0)
    assert_close(y_K[[0, 2]], vector(0.75, 0.25))
    assert np.isnan(y_K[1])


def test_at_equal_losses_tau_is_a_step_size():
    # (tau / K)^2 for K = 3: 0.11, 1 and 2.8 at tau 1, 3 and 5.
    for tau, factor in ((1, 1 / 9), (3, 1), (5, 25 / 9)):
        method = BalancedPiKE(zeta1=1, zeta2=0, tau=tau)
        exponent_K = method.log_weight_changes(measured((1, 2, 3), loss=(2.5, 2.5, 2.5)), b=4)
        assert_close(exponent_K, factor * vector(1, 2, 3))


def test_balanced_pike_moves_by_the_squared_tilt():
    # Losses 2 and 1/2 at (2, 1); tau = ln(3) / 1.5 makes y = tau (3/4, 1/4). The exponents differ
    # by zeta1 tau^2 (9/16 * 4 - 1/16 * 1) = zeta1 tau^2 35/16: ln 3 with this zeta1, odds 3 : 1.
    tau = LN3 / 1.5
    method = BalancedPiKE(zeta1=LN3 * 16 / 35 / tau**2, zeta2=0, tau=tau, norm="plug-in")
    weights_K = weights_after(method, measured((4, 1), loss=(2, 0.5)))
    assert_close(weights_K, vector(0.75, 0.25))


def test_proposed_coefficients_count_the_tilt():
    # Equal losses: (y*_k)^2 = (1/2)^2, so that zeta1 is four times PiKE's ln 1.1 / (3 - 1).
    method, statistics = BalancedPiKE(zeta1=1, zeta2=0, tau=1), measured((3, 1), loss=(2, 2))
    zeta1 = method.proposed_settings(statistics, 4)["zeta1"]
    assert zeta1 == pytest.approx(4 * math.log(1.1) / 2)
    proposed = BalancedPiKE(zeta1=zeta1, zeta2=0, tau=1)
    assert_close(weights_after(proposed, statistics), vector(1.1, 1) / 2.1)
