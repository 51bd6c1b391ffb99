import logging
import math

import arrays
import numpy as np
import pytest
from arrays import assert_close, vector

from pike_mixing.errors import InputError
from pike_mixing.rules.ado import ADO

DOMAINS = ("en", "hi", "de")
SMALL = {"first": 40, "every": 20, "ignore": 10, "stride": 2, "window": 11}
LAW_Kx3 = np.array([[3.0, 0.7, 0.3], [4.0, 1.0, 0.5], [2.0, 0.8, 0.2]], dtype=np.float64)


def seen(step, loss_K, count_K=(2, 1, 1)):
    return arrays.seen(step, count_K, loss_K=loss_K)


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
    # as 1 : 1 : 4: rho as 4 * 1 : 2 * 1 : 1 * 2 = 2 : 1 : 1. The running mean is of 4 steps.
    law_Kx3 = np.array([[math.log(8), 1, 0.5], [math.log(4), 1, 0.5], [math.log(2), 1, 0.25]])
    share_K, average_K, rho_K = vector(1, 1, 4) / 6, vector(0.2, 0.3, 0.5), vector(0.5, 0.25, 0.25)
    # Of the realised shares the batch's, 2 : 1 : 1, are a tenth.
    before_K = (share_K - 0.1 * vector(2, 1, 1) / 4) / 0.9
    method = ADO(**SMALL)
    state = method.init(DOMAINS, 0)
    state |= {"law_Kx3": law_Kx3, "share_K": before_K, "average_K": average_K}
    after = method.observe(state, seen(3, lawful(3)))
    assert_close(after["share_K"], share_K)
    assert_close(method.weights(after, 4), 0.9 * average_K + 0.1 * rho_K)
    assert_close(after["average_K"], 0.75 * average_K + 0.25 * rho_K)


@pytest.mark.parametrize(
    ("laws", "settings", "expected"),
    [
        # A flat exponent counts as a twentieth.
        ([(0, 1, 0.001), (0, 1, 0.05), (0, 1, 0.001)], {"min_weight": 0}, (1, 1, 1)),
        # 1, 0.01 and 0.01 divided by 1.02: the floor is applied before the sum.
        ([(0, 1, 0.5), (-30, 1, 0.5), (-30, 1, 0.5)], {"min_weight": 0.01}, (1, 0.01, 0.01)),
        ([(0, 1, 0.5)] * 3, {"prior": {"en": 2, "hi": 1, "de": 1}}, (2, 1, 1)),
    ],
)
def test_preferred_weights_by_hand(laws, settings, expected):
    method = ADO(**SMALL, **settings)
    state = method.init(DOMAINS, 0) | {"law_Kx3": np.array(laws), "share_K": vector(1, 1, 1)}
    # At one row every reducible loss is e^a; before any step the average is the preferred weights.
    after = method.with_next_weights(state, rows_seen=1, step=0)
    assert_close(after["average_K"], vector(*expected) / sum(expected))


def test_an_absent_domain_repeats_its_last_loss():
    method, nan = ADO(**SMALL), math.nan
    state = method.observe(method.init(DOMAINS, 0), seen(0, vector(4, 2, nan), (2, 2, 0)))
    # Never seen, it counts as the mean of the others.
    assert state["recent_WxK"].tolist() == [[4, 2, 3]]
    state = method.observe(state, seen(1, vector(3, nan, 5), (2, 0, 2)))
    assert state["recent_WxK"].tolist() == [[4, 2, 3], [3, 2, 5]]


def test_the_history_is_what_smoothing_the_whole_series_gives():
    signal = pytest.importorskip("scipy.signal")
    method = ADO(**SMALL)
    expected_TxK = signal.savgol_filter([noisy(step) for step in range(41)], 11, 3, axis=0)
    state = run(method, 41, noisy)
    step_T, smooth_TxK = method.history_extended_from_window(state, 40, range(6, 11))
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


def test_a_loss_below_the_bound_of_the_laws_is_told(caplog):
    with caplog.at_level(logging.WARNING, logger="pike"):
        run(ADO(**SMALL), 41, lambda step: lawful(step) - vector(0, 0, 3.5))
    assert "step 40: the loss of the run's domain 3 has fallen below e^min_log" in caplog.text
    assert "domain 1" not in caplog.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        # The published configuration fits one point.
        ({"first": 500, "ignore": 1000}, "needs 10 points, .* behind the 1000 ignored: at least"),
        ({"first": 99, "ignore": 0}, "first: the first fit needs a whole window: 100"),
    ],
)
def test_a_first_fit_without_its_points_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        ADO(**settings)
    assert ADO(first=100, ignore=0).window == 101
