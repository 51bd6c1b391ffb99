import math

import numpy as np
import pytest
from arrays import assert_close, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.interface import RunFacts, Signals, Statistics
from pike_mixing.numerics.laws import (
    SLOPE_VARIANCE,
    falls_per_row_and_variances,
    has_above_mean_relative_fall,
    with_batch_losses,
)
from pike_mixing.numerics.moments import shrunk_distances_from_mean
from pike_mixing.rules.scale_free_pike import (
    ScaleFreePiKE,
    log_prior_moved_to_leaders,
    log_weights_at_most_halfway,
    mean_scores_and_variances,
)

DOMAINS = ("code", "prose", "tables", "web")


def after(method, steps, *, rows=2):
    """States after each step: a batch of `rows` rows of each domain, an estimate unless None."""
    K = len(steps[0][1])
    state, states, count_K = method.init(DOMAINS[:K], 0), [], np.full(K, rows)
    for step, (squared_norm, loss) in enumerate(steps):
        loss_K = np.array(loss, dtype=float)
        state = method.observe(state, Signals(step, rows * K, count_K=count_K, loss_K=loss_K))
        if squared_norm is not None:
            q_K = np.array(squared_norm, dtype=float)
            measured = Statistics(q_K, q_K, q_K, loss_K, np.full(K, 16.0))
            state = method.observe(state, Signals(step + 1, rows * K, statistics=measured))
        states.append(state)
    return states


def weights(method, steps, **others):
    return method.weights(after(method, steps, **others)[-1], len(steps))


def falling(squared_norm, slope_K, fell=()):
    """Losses 9 - slope log(rows) of 400 batches of one row each, estimates after each 100.

    Those that fell were 18 in the first batch, which is noise to the slopes.
    """
    steps = [
        (squared_norm if n % 100 == 0 else None, 9 - np.array(slope_K) * math.log(n - 0.5))
        for n in range(1, 401)
    ]
    steps[0][1][[*fell]] = 18
    return steps


HALF_WAY = {"strength": math.log(5) * 2**0.5, "max_change": 1, "min_share": 0.2}
"""Of scores sqrt 2 apart one is sqrt 1/2 behind, and tau 0.1 of 0.5; half the way is 3 : 1."""


def test_a_run_by_hand():
    # Both measures are (1, 0), in root mean squares (sqrt 2, 0): sqrt 2 apart.
    # w = 0.8 (0.75, 0.25) + 0.2 (0.5, 0.5).
    method = ScaleFreePiKE(**HALF_WAY)
    states = after(method, falling((4, 0), (0.5, 0), fell=[1]), rows=1)
    assert_close(method.weights(states[398], 0), vector(0.5, 0.5))
    assert_close(method.weights(states[399], 0), vector(0.7, 0.3), atol=1e-4)


def test_what_has_not_begun_to_fall_keeps_its_rows():
    steps = falling((4, 0), (0.5, 0))
    assert_close(weights(ScaleFreePiKE(**HALF_WAY), steps, rows=1), vector(0.5, 0.5))
    # Parts 0.5, 0.25 and 0 of the first loss have fallen: the mean is 0.25.
    at = {"first_loss_K": vector(8.0, 4, 1), "late_loss_K": vector(4.0, 3, 1)}
    assert has_above_mean_relative_fall(at).tolist() == [True, False, False]


def test_what_is_ahead_gets_rows_however_small_a_part_of_its_loss_has_fallen():
    steps = falling((4, 4, 0), (0.4, 0.4, 0), fell=[1, 2])
    states = after(ScaleFreePiKE(**HALF_WAY), steps, rows=1)
    assert has_above_mean_relative_fall(states[-1]).tolist() == [False, True, True]
    small, large, level = ScaleFreePiKE(**HALF_WAY).weights(states[-1], 400).tolist()
    assert small == pytest.approx(large, rel=1e-3)
    assert level < 0.3


def test_a_fall_whose_square_is_beyond_a_float64_is_a_fall():
    # The variance of a row is that of the losses behind the first.
    steps = [((4, 1), (loss, 1)) for loss in (1e300, 1, 2, 1, 2, 1, 2)]
    state = after(ScaleFreePiKE(), steps)[-1]
    with np.errstate(over="ignore"):
        fall_2, _ = falls_per_row_and_variances(state, np.ones(2))
    assert np.isfinite(ScaleFreePiKE().weights(state, 7)).all()
    assert fall_2[0] > fall_2[1] == 0


def test_a_target_weighs_gradients_and_falls():
    # Equal gradients, equal falls, but only the first domain counts: as above.
    level = {"code": 1, "prose": 1}
    method = ScaleFreePiKE(target={"code": 2, "prose": 0}, prior=level, **HALF_WAY)
    steps = falling((4, 4), (0.5, 0.5), fell=[1])
    assert_close(weights(method, steps, rows=1), vector(0.7, 0.3), atol=1e-4)
    equal = ScaleFreePiKE(target={"code": 5, "prose": 5}, **HALF_WAY)
    assert_close(weights(equal, steps, rows=1), vector(0.5, 0.5))


def test_it_starts_at_the_target():
    method = ScaleFreePiKE(target={"code": 3, "prose": 1})
    assert_close(method.weights(method.init(DOMAINS[:2], 0), 0), vector(0.75, 0.25))
    # What does not count gets no row, whatever is measured.
    method = ScaleFreePiKE(target={"code": 2, "prose": 0}, **HALF_WAY)
    assert_close(weights(method, falling((1, 9), (0.1, 2)), rows=1), np.array([1, 0]))


def test_a_domain_that_was_read_over_goes_back_to_its_prior():
    # A batch has one row of 4 tokens of each: 1,600 tokens of each are read. In tau the other two
    # share 2/3 at odds of 9 : 1: falls of (1, 0) are the smaller score. v is half way from thirds.
    sizes = {"code": 1600, "prose": 1600, "tables": 1599}
    method = ScaleFreePiKE(tokens_by_domain=sizes, batch_tokens=12, **HALF_WAY)
    steps = falling((4, 0, 1), (0.5, 0, 2), fell=[1])
    half_3 = np.sqrt([9 / 15, 1 / 15, 5 / 15])
    expected_3 = 0.8 * half_3 / half_3.sum() + 0.2 / 3
    assert_close(weights(method, steps, rows=1), expected_3, atol=1e-4)
    # Half way from 0.7 and 0.3 in logarithms, where the step may be as long.
    method = ScaleFreePiKE(**HALF_WAY)
    state = method.init(DOMAINS[:2], 0)
    state |= {"log_weights_K": np.log([0.7, 0.3])}
    none, both = np.zeros(2, dtype=bool), np.ones(2, dtype=bool)
    back = np.exp(method.log_weights_after_step(state, np.ones(2), none, both))
    assert_close(back, np.array([0.7**0.5, 0.3**0.5]) / (0.7**0.5 + 0.3**0.5))


def test_mean_losses_by_hand():
    # Losses 3 and 2 of two rows each: (3 * 2^4 + 2 (4^4 - 2^4)) / 4^4, and the same to the 8th.
    # Each row's variance is (3 - 2)^2 / (1/2 + 1/2). The other domain had no rows.
    state = ScaleFreePiKE().init(DOMAINS[:2], 0)
    for loss in (3, 2):
        state = with_batch_losses(state, np.array([loss, np.nan]), np.array([2, 0]))
    assert_close(state["early_loss_K"], np.array([33 / 16, np.nan]))
    assert_close(state["late_loss_K"], np.array([513 / 256, np.nan]))
    assert_close(state["row_variance_K"], np.array([1, np.nan]))
    assert_close(state["rows_K"], np.array([4, 0]))


def test_falls_by_hand():
    # A slope of 8 (3 - 2) = 8, and 2 per row at the 4th: sqrt 2 root mean squares.
    at = {
        "rows_K": np.array([4, 4]),
        "early_loss_K": vector(3.0, 1.0),
        "late_loss_K": vector(2.0, 1.0),
        "row_variance_K": vector(1.0, 0.0),
    }
    fall_2, variance_2 = falls_per_row_and_variances(at, np.ones(2))
    assert_close(fall_2, np.array([2**0.5, 0]))
    assert_close(variance_2, np.array([SLOPE_VARIANCE / 4**3 / 2, 0]))


def test_the_slope_is_that_of_a_line_in_log_rows():
    state = after(ScaleFreePiKE(), falling(None, (0.5, 0.25)), rows=1)[-1]
    slope_2 = 8 * (state["early_loss_K"] - state["late_loss_K"])
    assert_close(slope_2, vector(0.5, 0.25), rtol=1e-3)


def test_the_slope_of_noise_has_the_variance_that_is_stated():
    K, generator = 4000, np.random.default_rng(1)
    state = ScaleFreePiKE().init(tuple(map(str, range(K))), 0)
    for _ in range(200):
        state = with_batch_losses(state, generator.normal(size=K), np.ones(K))
    slope_K = 8 * (state["early_loss_K"] - state["late_loss_K"])
    assert slope_K.var() == pytest.approx(SLOPE_VARIANCE / 200, rel=0.1)
    assert state["row_variance_K"].mean() == pytest.approx(1, rel=0.02)


def test_what_nobody_set_is_that_of_the_run():
    run = RunFacts({"code": 100, "prose": 1}, 80, steps=10)
    method = ScaleFreePiKE().for_run(run)
    # A batch of 8 tokens; half a step between updates is one.
    assert_close(method.init(("code", "prose"), 0)["epochs_of_batch_K"], vector(0.08, 8))
    assert (method.every, ScaleFreePiKE(every=7).for_run(run).every) == (1, 7)
    # Steps without sizes: no domain counts as read over. And nothing at all.
    for facts, every in ((RunFacts({}, 1, steps=450), 22), (RunFacts({"code": 1}, 1), 100)):
        method = ScaleFreePiKE().for_run(facts)
        assert (method.needs().statistics.first, method.needs().statistics.every) == (every, every)
        assert method.init(("code", "prose"), 0)["epochs_of_batch_K"].tolist() == [0, 0]
    with pytest.raises(InputError, match="batch_tokens: the size of a batch is not known"):
        ScaleFreePiKE(tokens_by_domain={"code": 1}).init(("code",), 0)


def test_shrinkage_by_hand():
    # A: 5, then 3. Mean (2 * 3 + 5) / 3 = 11/3; variance of one (5 - 3)^2 / 2 = 2, of the mean
    # 2 (4/9 + 1/9) = 10/9. B: 1, 1. The means spread by (8/3)^2 / 2 = 32/9, noise explains 5/9 of
    # it: 27/32 of +-4/3 remain.
    at = {"mean_K": vector(2.75, 0.75), "scatter_K": vector(1.0, 0.0)}
    mean_2, variance_2 = mean_scores_and_variances(at | {"estimates_K": np.array([2, 2])})
    assert_close(mean_2, np.array([11 / 3, 1]))
    assert_close(variance_2, np.array([10 / 9, 0]))
    assert_close(shrunk_distances_from_mean(mean_2, variance_2), np.array([9 / 8, -9 / 8]))


@pytest.mark.parametrize("fall", [(0, 1), (1, 1), (0, 0), (-1, 0)])
def test_a_long_gradient_alone_moves_nothing(fall):
    loss_K, windows = vector(9.0, 9.0), []
    for _ in range(6):
        windows.append(((4, 0), loss_K))
        loss_K = loss_K - fall
    assert_close(weights(ScaleFreePiKE(), windows), vector(0.5, 0.5))


def test_rows_move_from_those_behind_to_those_ahead_alone():
    # The first gives half of 0.4; the last two, at leads of 1 : 3 and equal priors, share it so.
    prior_4 = vector(0.4, 0.2, 0.2, 0.2)
    tau_4 = np.exp(log_prior_moved_to_leaders(np.log(prior_4), np.array([-math.log(2), 0, 1, 3])))
    assert_close(tau_4, vector(0.2, 0.2, 0.25, 0.35))
    # None is ahead: those of lead 0 get it.
    tau_4 = np.exp(
        log_prior_moved_to_leaders(np.log(prior_4), np.array([-math.log(2), 0, 0, -math.log(4)]))
    )
    assert_close(tau_4, vector(0.2, 0.375, 0.375, 0.05))
    # Zeros but for last bits.
    for lead in (0, -1e-17):
        assert_close(log_prior_moved_to_leaders(np.log(prior_4), np.full(4, lead)), np.log(prior_4))


def test_a_step_ends_where_its_divergence_reaches_the_bound():
    log_v_2, log_tau_2 = np.log([0.5, 0.5]), np.log([0.99, 0.01])
    new_2 = np.exp(log_weights_at_most_halfway(log_tau_2, log_v_2, 0.1))
    assert (new_2 * np.log(new_2 / 0.5)).sum() == pytest.approx(0.1)
    # Half way is sqrt(99) : 1.
    assert_close(
        np.exp(log_weights_at_most_halfway(log_tau_2, log_v_2, 9)),
        np.array([99**0.5, 1]) / (99**0.5 + 1),
        rtol=1e-6,
    )


def windows_of(K):
    """Adversarial windows: norms and losses over many orders of magnitude, of any sign."""
    number = st.builds(
        lambda s, e: s * 10.0**e, st.sampled_from((-1, 0, 1, 1, 1)), st.floats(-9, 9)
    )
    loss = st.floats(0, 12)
    both = st.tuples(*(st.lists(n, min_size=K, max_size=K) for n in (number, loss)))
    # Repeats, for a score beyond noise.
    return st.lists(st.tuples(both, st.integers(1, 5)), min_size=1, max_size=8).map(
        lambda runs: [window for window, times in runs for _ in range(times)]
    )


few = effort(max_examples=25)


@pytest.mark.slow
@few
@given(windows_of(3), st.integers(-12, 12))
def test_scaling_all_gradients_changes_nothing(windows, power):
    scaled = [(np.array(q) * 2.0**power, loss) for q, loss in windows]
    assert_close(weights(ScaleFreePiKE(), scaled), weights(ScaleFreePiKE(), windows))


@pytest.mark.slow
@few
@given(windows_of(3))
def test_an_update_changes_the_weights_by_no_more_than_the_bound(windows):
    # Two of the domains are read over in the middle of the run.
    sizes = {"code": 9, "prose": 5, "tables": 1000}
    method = ScaleFreePiKE(tokens_by_domain=sizes, batch_tokens=6)
    states = [method.init(DOMAINS[:3], 0), *after(method, windows)]
    w_TxK = np.stack([method.weights(state, 0) for state in states])
    divergence_T = (w_TxK[1:] * np.log(w_TxK[1:] / w_TxK[:-1])).sum(axis=1)
    assert divergence_T.max() <= 0.1 + 1e-9


@pytest.mark.slow
@few
@given(windows_of(4), st.integers(1, 64))
def test_no_domain_is_without_rows_for_good(windows, b):
    method, state = ScaleFreePiKE(), after(ScaleFreePiKE(), windows)[-1]
    assert method.weights(state, 0).min() >= 0.1 / 4
    # A weight of 1/40 of b >= 1 rows gets one in 41 steps.
    served_K = sum(method.allocate(state, step, b) for step in range(82))
    assert served_K.min() >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("K", "least"), [(2, 1.34), (3, 1.67)])
def test_effective_domains_stay_above_the_bound_that_the_class_states(K, least):
    @few
    @given(windows_of(K))
    def holds(windows):
        for state in after(ScaleFreePiKE(), windows):
            w_K = ScaleFreePiKE().weights(state, 0)
            assert np.exp(-(w_K * np.log(w_K)).sum()) >= least

    holds()
    # The most that both can show, for long, comes within a hundredth of it.
    gain_K = np.eye(K)[0]
    first, rest = (
        (gain_K, np.full(K, 100.0)),
        [(gain_K, 1 + (99 - t) * gain_K) for t in range(1, 80)],
    )
    w_K = weights(ScaleFreePiKE(), [first, *rest])
    assert least <= np.exp(-(w_K * np.log(w_K)).sum()) < least + 0.01


@pytest.mark.slow
@few
@given(windows_of(3))
def test_equal_domains_bring_the_prior_back(windows):
    prior = {"code": 5, "prose": 3, "tables": 2}
    level = [((1, 1, 1), (2.0, 2.0, 2.0))] * 40
    found_K = weights(ScaleFreePiKE(prior=prior), windows + level)
    assert_close(found_K, vector(0.5, 0.3, 0.2), atol=1e-3)
