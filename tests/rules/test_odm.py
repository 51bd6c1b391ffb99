import math

import numpy as np
import pytest
from arrays import assert_close, observed, recorded, seen, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.rules.odm import OnlineDataMixing, exploration_rate, exponential_weights

DOMAINS = ("a", "b", "c", "d")
ABSENT = {"": (), ", fourth domain absent": (3,)}

few = effort(max_examples=30)


@pytest.fixture(scope="module")
def known():
    """Weights of the released code's updaters after each of 60 mixed batches."""
    return recorded("odm")


def losses(known, absent):
    loss_TxK = np.array(known["losses_TxK"], dtype=np.float64)
    loss_TxK[:, list(absent)] = np.nan
    return loss_TxK


@pytest.mark.parametrize("which", ABSENT)
def test_the_codes_rule_follows_the_released_code(known, which):
    first = dict(zip(DOMAINS, known["first_weights_K"], strict=True))
    method = OnlineDataMixing(variant="code", warmup=0, prior=first)
    state = method.init(DOMAINS, 0)
    for step, loss_K in enumerate(losses(known, ABSENT[which])):
        state = method.observe(state, seen(step, loss_K=loss_K))
        expected_K = vector(*known["weights_TxK"][f"code{which}"][step])
        assert_close(method.weights(state, step + 1), expected_K, rtol=0, atol=1e-12)


@pytest.mark.parametrize("which", ABSENT)
def test_the_papers_policy_is_exp3s(known, which):
    # Exp3 in the released code adds up L / 10 / w, where the paper averages L / w.
    weights_K, reward_K = vector(*known["first_weights_K"]), np.zeros(4)
    for step, loss_K in enumerate(losses(known, ABSENT[which])):
        reward_K = reward_K + np.nan_to_num(loss_K / 10 / weights_K)
        weights_K = exponential_weights(reward_K, step + 1)
        expected_K = vector(*known["weights_TxK"][f"exp3{which}"][step])
        assert_close(weights_K, expected_K, rtol=0, atol=1e-12)


def test_one_update_of_the_papers_rule():
    method = OnlineDataMixing(warmup=0, prior={"en": 0.8, "hi": 0.2})
    state = observed(method, seen(9, loss_K=vector(4, 3)))
    # Rewards 0.1 * 4 / 0.8 and 0.1 * 3 / 0.2 after the tenth step: a rare domain's counts for more.
    assert_close(state["reward_K"], vector(0.5, 1.5))
    eps9, eps10 = (math.sqrt(math.log(2) / (2 * t)) for t in (9, 10))
    share = 1 / (1 + math.exp(eps9))
    expected = (1 - 2 * eps10) * share + eps10
    assert_close(method.weights(state, 10), vector(expected, 1 - expected))


def test_the_warm_up_sees_no_reward():
    method = OnlineDataMixing(variant="code", warmup=3, prior={"en": 3, "hi": 1})
    state = method.init(("en", "hi"), 0)
    for step in range(3):
        # exp(11) = 60,000 would outweigh every later loss for a hundred steps.
        assert method.observe(state, seen(step, loss_K=vector(11, 2))) is state
        assert method.weights(state, step).tolist() == [0.75, 0.25]
    state = method.observe(state, seen(3, loss_K=vector(1, 1)))
    assert_close(state["reward_K"], vector(0.1, 0.1) * math.e)


@few
@given(
    st.lists(st.floats(0, 12), min_size=2, max_size=6),
    st.integers(0, 10**5),
    st.sampled_from(["paper", "code"]),
)
def test_no_weight_falls_below_the_exploration_rate(loss, step, variant):
    method = OnlineDataMixing(variant=variant, warmup=0)
    domains = tuple(f"domain{k}" for k in range(len(loss)))
    state = method.observe(method.init(domains, 0), seen(step, loss_K=vector(*loss)))
    weights_K = method.weights(state, step + 1)
    assert weights_K.min() >= exploration_rate(len(loss), step + 1) * (1 - 1e-12)
    assert weights_K.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_a_reward_beyond_a_float_is_none(variant):
    # e^800, and a loss over a weight of 0.
    method = OnlineDataMixing(variant=variant, warmup=0, prior={"en": 1, "hi": 0, "de": 1})
    state = observed(method, seen(loss_K=vector(1, 800, 1)))
    if variant == "paper":
        state = state | {"weights_K": vector(0.5, 0, 0.5)}
        state = method.observe(state, seen(1, loss_K=vector(1, 800, 1)))
    assert state["reward_K"][1] == 0
    assert method.weights(state, 2).sum().item() == pytest.approx(1)
