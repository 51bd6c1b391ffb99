import math

import numpy as np
import pytest
from arrays import assert_close
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.interface import Facts, Signals, Statistics
from pike_mixing.rules.scale_free_pike import ScaleFreePiKE, agreed, shrunk, toward

DOMAINS = ("code", "prose", "tables", "web")


def after(method, windows, *, rows=2):
    """States after each window: one batch of `rows` rows of each domain, then an estimate."""
    K = len(windows[0][0])
    state, states = method.init(DOMAINS[:K], 0), []
    for step, (squared_norm, loss) in enumerate(windows):
        q_K, loss_K = np.array(squared_norm, dtype=float), np.array(loss, dtype=float)
        count_K = np.full(K, rows)
        state = method.observe(state, Signals(step, rows * K, count_K=count_K, loss_K=loss_K))
        measured = Statistics(q_K, q_K, q_K, loss_K, np.full(K, 16.0))
        state = method.observe(state, Signals(step + 1, rows * K, statistics=measured))
        states.append(state)
    return states


def weights(method, windows, **others):
    return method.weights(after(method, windows, **others)[-1], len(windows))


def test_three_windows_by_hand():
    # Two falls of 1 nat in 2 rows need three windows. Both measures are then (1, 0), in root mean
    # squares (sqrt 2, 0): sqrt 2 apart. So log tau's odds are strength sqrt 2 = ln 9, half the way
    # is 3 : 1, and w = 0.8 (0.75, 0.25) + 0.2 (0.5, 0.5).
    method = ScaleFreePiKE(strength=math.log(9) / 2**0.5, max_change=1, min_share=0.2)
    windows = [((4, 0), (3, 3)), ((4, 0), (2, 3)), ((4, 0), (1, 3))]
    first, second, third = (method.weights(s, 0) for s in after(method, windows))
    assert_close(first, np.array([0.5, 0.5]))
    assert_close(second, np.array([0.5, 0.5]))
    assert_close(third, np.array([0.7, 0.3]))


def test_a_target_weighs_gradients_and_falls():
    # Gradients of 4 and 4, falls of 1 and 1, but only the first domain counts: as above.
    options = {"strength": math.log(9) / 2**0.5, "max_change": 1, "min_share": 0.2}
    method = ScaleFreePiKE(target={"code": 2, "prose": 0}, **options)
    windows = [((4, 4), (3, 3)), ((4, 4), (2, 2)), ((4, 4), (1, 1))]
    assert_close(weights(method, windows), np.array([0.7, 0.3]))
    equal = ScaleFreePiKE(target={"code": 5, "prose": 5}, **options)
    assert_close(weights(equal, windows), np.array([0.5, 0.5]))


def test_a_domain_that_was_read_over_gets_no_more_than_its_prior():
    # As above; a batch of 4 rows has 2 of each domain. Three batches of 8 tokens read 12 tokens of
    # a domain: 12/11 epochs of 11 tokens, 12/12 of 12.
    options = {"strength": math.log(9) / 2**0.5, "max_change": 1, "min_share": 0.2}
    windows = [((4, 0), (3, 3)), ((4, 0), (2, 3)), ((4, 0), (1, 3))]

    def sized(**tokens):
        return weights(ScaleFreePiKE(tokens_by_domain=tokens, batch_tokens=8, **options), windows)

    assert_close(sized(code=12, prose=11), np.array([0.7, 0.3]))
    # log tau: 0 and -ln 9 / 2 from the prior; half of it are odds of sqrt 3.
    weight = 0.8 * 3**0.5 / (1 + 3**0.5) + 0.1
    assert_close(sized(code=11, prose=12), np.array([weight, 1 - weight]))


def test_sizes_and_batch_are_those_of_the_run():
    run = Facts({"code": 100, "prose": 1}, 80, steps=10)
    method = ScaleFreePiKE().informed(run)
    assert_close(method.init(("code", "prose"), 0)["epochs_of_batch_K"], np.array([0.08, 8]))
    assert_close(ScaleFreePiKE().init(("code",), 0)["epochs_of_batch_K"], np.zeros(1))
    with pytest.raises(InputError, match="batch_tokens: the size of a batch is not known"):
        ScaleFreePiKE(tokens_by_domain={"code": 1}).init(("code",), 0)


def test_shrinkage_by_hand():
    # A: 5, then 3. Mean (2 * 3 + 5) / 3 = 11/3; variance of one (5 - 3)^2 / 2 = 2, of the mean
    # 2 (4/9 + 1/9) = 10/9. B: 1, 1. The means spread by (8/3)^2 / 2 = 32/9, noise explains 5/9 of
    # it: 27/32 of +-4/3 remain.
    found_2 = shrunk(np.array([2.75, 0.75]), np.array([1.0, 0.0]), np.array([2, 2]))
    assert_close(found_2, np.array([9 / 8, -9 / 8]))


def test_noise_as_large_as_the_spread_leaves_nothing():
    assert_close(shrunk(np.array([2.0, 1.5]), np.array([1.0, 1.0]), np.array([2, 2])), np.zeros(2))


@pytest.mark.parametrize("fall", [(0, 1), (1, 1), (0, 0), (-1, 0)])
def test_a_long_gradient_alone_moves_nothing(fall):
    loss_K, windows = np.array([9.0, 9.0]), []
    for _ in range(6):
        windows.append(((4, 0), loss_K))
        loss_K = loss_K - fall
    assert_close(weights(ScaleFreePiKE(), windows), np.array([0.5, 0.5]))


def test_agreement_is_the_smaller_of_the_same_sign():
    found_4 = agreed(np.array([1.0, -2.0, 1.0, 0.0]), np.array([3.0, -1.0, -1.0, 1.0]))
    assert_close(found_4, np.array([1.0, -1.0, 0.0, 0.0]))


def test_a_step_ends_where_its_divergence_reaches_the_bound():
    log_v_2, log_tau_2 = np.log([0.5, 0.5]), np.log([0.99, 0.01])
    new_2 = np.exp(toward(log_tau_2, log_v_2, 0.1))
    assert (new_2 * np.log(new_2 / 0.5)).sum() == pytest.approx(0.1)
    # Half way is sqrt(99) : 1.
    assert_close(
        np.exp(toward(log_tau_2, log_v_2, 9)), np.array([99**0.5, 1]) / (99**0.5 + 1), rtol=1e-6
    )


def test_updates_are_spread_over_the_run_where_its_length_is_known():
    known = Facts({"code": 1}, 1, steps=450)
    assert ScaleFreePiKE().informed(known).needs().statistics.every == 22
    assert ScaleFreePiKE().informed(Facts({"code": 1}, 1, steps=9)).every == 1
    assert ScaleFreePiKE(every=7).informed(known).every == 7
    assert ScaleFreePiKE().informed(Facts({"code": 1}, 1)).needs().statistics.first == 100


def windows_of(K, count=8):
    """Adversarial windows: norms and losses over many orders of magnitude, of any sign."""
    number = st.builds(
        lambda s, e: s * 10.0**e, st.sampled_from((-1, 0, 1, 1, 1)), st.floats(-9, 9)
    )
    loss = st.floats(0, 12)
    both = st.tuples(*(st.lists(n, min_size=K, max_size=K) for n in (number, loss)))
    # Repeats, for a score beyond noise.
    return st.lists(st.tuples(both, st.integers(1, 5)), min_size=1, max_size=count).map(
        lambda runs: [window for window, times in runs for _ in range(times)]
    )


few = effort(max_examples=25, deadline=None)


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
    method = ScaleFreePiKE()
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
@pytest.mark.parametrize(("K", "least"), [(2, 1.38), (3, 1.56)])
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
    w_K = weights(ScaleFreePiKE(), [(gain_K, 100 - t * gain_K) for t in range(40)])
    assert least <= np.exp(-(w_K * np.log(w_K)).sum()) < least + 0.01


@pytest.mark.slow
@few
@given(windows_of(3))
def test_equal_domains_bring_the_prior_back(windows):
    prior = {"code": 5, "prose": 3, "tables": 2}
    level = [((1, 1, 1), (2.0, 2.0, 2.0))] * 40
    found_K = weights(ScaleFreePiKE(prior=prior), windows + level)
    assert_close(found_K, np.array([0.5, 0.3, 0.2]), atol=1e-3)
