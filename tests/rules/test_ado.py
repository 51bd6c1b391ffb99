import logging
import math

import numpy as np
import pytest
from arrays import assert_close, vector

from pike_mixing.errors import InputError
from pike_mixing.interface import Signals
from pike_mixing.numerics import scaling_law
from pike_mixing.rules.ado import ADO
from pike_mixing.settings import parse

DOMAINS = ("en", "hi", "de")
SMALL = {"first": 40, "every": 20, "ignore": 10, "stride": 2, "window": 11}
LAW_Kx3 = np.array([[3.0, 0.7, 0.3], [4.0, 1.0, 0.5], [2.0, 0.8, 0.2]], dtype=np.float64)


def seen(step, loss_K, count_K=(2, 1, 1)):
    count_K = np.array(count_K)
    return Signals(step=step, batch_rows=int(count_K.sum()), loss_K=loss_K, count_K=count_K)


def lawful(step):
    """Losses of three domains that follow their laws exactly, with 4 rows a step."""
    a_K, c_K, alpha_K = LAW_Kx3.T
    return np.exp(c_K) + np.exp(a_K) * float(4 * (step + 1)) ** -alpha_K


def run(method, steps, loss=lawful):
    state = method.init(DOMAINS, 0)
    for step in range(steps):
        state = method.observe(state, seen(step, loss(step)))
    return state


def noisy(step):
    generator = np.random.default_rng(step)
    return lawful(step) + 0.1 * generator.random(3)


@pytest.mark.slow
def test_the_laws_of_the_domains_are_found_to_four_digits():
    # Behind the first thousand steps the laws are straight enough for a cubic over 101 of them.
    method = ADO(first=2000, ignore=1000)
    state = method.init(DOMAINS, 0)
    for step in range(2001):
        state = method.observe(state, seen(step, lawful(step)))
    assert_close(state["law_Kx3"], LAW_Kx3, rtol=1e-4, atol=0)


def test_until_the_first_fit_the_weights_are_the_prior():
    method = ADO(**SMALL, prior={"en": 0.5, "hi": 0.25, "de": 0.25})
    state = run(method, 40)
    assert np.isnan(state["law_Kx3"]).all()
    assert method.weights(state, 40).tolist() == [0.5, 0.25, 0.25]
    state = method.observe(state, seen(40, lawful(40)))
    assert np.isfinite(state["law_Kx3"]).all()
    assert method.weights(state, 41)[0] != 0.5


def test_one_step_of_the_policy():
    # Reducible 2, 1 and 1 at 16 rows; slopes as 0.5 * 2 : 0.5 * 1 : 0.25 * 1 = 4 : 2 : 1; shares
    # 1/4, 1/4, 1: rho as 4/2 : 2/2 : 1 = 2 : 1 : 1.
    law_Kx3 = np.array([[math.log(8), 1, 0.5], [math.log(4), 1, 0.5], [math.log(2), 1, 0.25]])
    method = ADO(**SMALL)
    state = method.init(DOMAINS, 0)
    state |= {"law_Kx3": law_Kx3, "share_K": vector(0.25, 0.25, 1)}
    state |= {"average_K": vector(0.2, 0.3, 0.5)}
    after = method.policy(state, rows=16, t=4)
    rho_K = vector(0.5, 0.25, 0.25)
    assert_close(after["weights_K"], 0.9 * vector(0.2, 0.3, 0.5) + 0.1 * rho_K)
    assert_close(after["average_K"], 0.8 * vector(0.2, 0.3, 0.5) + 0.2 * rho_K)


def test_the_running_mean_counts_as_many_steps_as_there_were():
    # The authors' loader divides by t + 1 after step t: by 41 at the first fit, after step 40.
    method = ADO(**SMALL)
    state = run(method, 41)
    rho_K = (state["weights_K"] - 0.9 / 3) / 0.1
    assert_close(state["average_K"], 1 / 3 + (rho_K - 1 / 3) / 41)


def test_a_flat_exponent_counts_as_a_twentieth():
    law_Kx3 = np.array([[0, 1, 0.001], [0, 1, 0.05], [0, 1, 0.001]])
    method = ADO(**SMALL, min_weight=0)
    state = method.init(DOMAINS, 0) | {"law_Kx3": law_Kx3}
    # At one row every reducible loss is e^0.
    after = method.policy(state, rows=1, t=0)
    assert_close(after["weights_K"], vector(1, 1, 1) / 3)


def test_the_floor_is_applied_before_the_sum():
    law_Kx3 = np.array([[0, 1, 0.5], [-30, 1, 0.5], [-30, 1, 0.5]])
    method = ADO(**SMALL, min_weight=0.01)
    state = method.init(DOMAINS, 0) | {"law_Kx3": law_Kx3}
    after = method.policy(state, rows=4, t=0)
    # 1, 0.01 and 0.01 divided by 1.02: a little below the floor.
    assert_close(after["average_K"], vector(1, 0.01, 0.01) / 1.02)


def test_the_prior_multiplies_the_policy():
    law_Kx3 = np.array([[0, 1, 0.5]] * 3)
    method = ADO(**SMALL, prior={"en": 2, "hi": 1, "de": 1})
    state = method.init(DOMAINS, 0) | {"law_Kx3": law_Kx3, "share_K": vector(1, 1, 1)}
    after = method.policy(state, rows=4, t=0)
    assert_close(after["average_K"], vector(0.5, 0.25, 0.25))


def test_realised_shares_are_an_average_that_forgets():
    method = ADO(**SMALL)
    state = method.observe(method.init(DOMAINS, 0), seen(0, lawful(0)))
    assert_close(state["share_K"], 0.9 * vector(1, 1, 1) / 3 + vector(0.05, 0.025, 0.025))


def test_an_absent_domain_repeats_its_last_loss():
    method, nan = ADO(**SMALL), math.nan
    state = method.observe(method.init(DOMAINS, 0), seen(0, vector(4, 2, nan)))
    # Never seen, it counts as the mean of the others.
    assert state["recent_WxK"].tolist() == [[4, 2, 3]]
    state = method.observe(state, seen(1, vector(3, nan, 5)))
    assert state["recent_WxK"].tolist() == [[4, 2, 3], [3, 2, 5]]


def test_the_history_is_what_smoothing_the_whole_series_gives():
    method = ADO(**SMALL)
    series_TxK = np.stack([noisy(step) for step in range(41)])
    hat_WxW = scaling_law.smoothing(11)
    # A cubic through the first, the middle and the last window.
    expected_TxK = np.concatenate(
        [
            hat_WxW[:5] @ series_TxK[:11],
            np.stack([hat_WxW[5] @ series_TxK[t : t + 11] for t in range(31)]),
            hat_WxW[6:] @ series_TxK[-11:],
        ]
    )
    state = run(method, 41, noisy)
    step_T, end_TxK = method.smoothed(state, 40, 6, 11)
    step_T, smooth_TxK = (
        np.concatenate([state["step_T"], step_T]),
        np.concatenate([state["smooth_TxK"], end_TxK]),
    )
    assert step_T.tolist() == list(range(10, 41, 2))
    assert_close(smooth_TxK, expected_TxK[10::2])


def test_the_beginning_of_the_series_counts_when_nothing_is_ignored():
    state = run(ADO(**SMALL | {"ignore": 0}), 11)
    assert state["step_T"].tolist() == [0, 2, 4]


def test_the_state_does_not_grow_with_the_run():
    method = ADO(first=10**6, every=1, ignore=3, stride=1, window=5, points=40)
    state = run(method, 300)
    assert len(state["recent_WxK"]) == 5
    assert 20 <= len(state["step_T"]) <= 40
    # Doubled three times: 1, 2, 4, 8.
    assert state["stride"] == 8
    assert state["step_T"].tolist() == list(range(3, 298, 8))


@pytest.mark.slow
def test_a_thinned_history_gives_the_same_laws():
    whole, thinned = ADO(first=600, ignore=300), ADO(first=600, ignore=300, stride=1, points=40)
    expected_Kx3 = run(whole, 601)["law_Kx3"]
    assert_close(run(thinned, 601)["law_Kx3"], expected_Kx3, rtol=0.01, atol=0)


@pytest.mark.slow
def test_a_run_that_stops_and_goes_on_ends_with_the_same_bits():
    method = ADO(**SMALL)
    state = method.init(DOMAINS, 0)
    for step in range(70):
        if step in (9, 30, 41, 65):
            state = {name: value.copy() for name, value in state.items()}
        state = method.observe(state, seen(step, noisy(step)))
    for name, value in run(method, 70, noisy).items():
        assert np.array_equal(state[name], value) or np.isnan(value).all()


def test_a_loop_that_begins_to_observe_late_waits_for_points():
    method, late = ADO(**SMALL), 200
    state = method.init(DOMAINS, 0)
    for step in range(late, late + 21):
        state = method.observe(state, seen(step, lawful(step)))
    # Steps 200 and 220 are due, with 1 step and with all points of 21 steps observed.
    assert state["step_T"].tolist() == [206, 208, 210, 212, 214]
    assert np.isnan(state["law_Kx3"]).all()
    for step in range(late + 21, late + 41):
        state = method.observe(state, seen(step, lawful(step)))
    assert np.isfinite(state["law_Kx3"]).all()


def test_the_order_of_the_domains_does_not_matter():
    method, order = ADO(**SMALL), [2, 0, 1]
    forth, mixed = (method.init(DOMAINS, 0) for _ in range(2))
    for step in range(45):
        forth = method.observe(forth, seen(step, noisy(step), (5, 3, 2)))
        mixed = method.observe(mixed, seen(step, noisy(step)[order], (2, 5, 3)))
    weights_K = method.weights(mixed, 45)
    assert_close(weights_K, method.weights(forth, 45)[order], rtol=0, atol=1e-6)
    assert weights_K.std() > 1e-3


def test_equal_signals_leave_equal_weights_equal():
    method = ADO(**SMALL)
    state = method.init(DOMAINS, 0)
    for step in range(45):
        state = method.observe(state, seen(step, noisy(step)[:1].repeat(3), (1, 1, 1)))
    assert not np.isnan(state["law_Kx3"]).any()
    assert_close(method.weights(state, 45), vector(1, 1, 1) / 3)


def test_a_loss_below_the_bound_of_the_laws_is_told(caplog):
    with caplog.at_level(logging.WARNING, logger="pike"):
        run(ADO(**SMALL), 41, lambda step: lawful(step) - vector(0, 0, 3.5))
    assert "step 40: the loss of the run's domain 3 has fallen below e^min_log" in caplog.text
    assert "domain 1" not in caplog.text


def test_the_published_configuration_that_fits_one_point_is_refused():
    with pytest.raises(InputError, match=r"needs 10 points, .* behind the 1000 ignored: at least"):
        parse(ADO, {"first": 500, "ignore": 1000}, "method")


def test_a_first_fit_before_the_first_whole_window_is_refused():
    with pytest.raises(InputError, match="first: the first fit needs a whole window: 100"):
        parse(ADO, {"first": 99, "ignore": 0}, "method")
    assert parse(ADO, {"first": 100, "ignore": 0}, "method").window == 101
