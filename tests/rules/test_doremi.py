import math

import arrays
import numpy as np
import pytest
from arrays import assert_close, observed, recorded, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.rules.doremi import DoReMi

LN3 = math.log(3)
few = effort(max_examples=30)


def seen(excess_K, count_K=None, step=0):
    return arrays.seen(step, count_K, excess_K=excess_K, loss_K=excess_K)


def trajectory(method, name):
    """Weights and averages of the rule on the token excesses of a recorded run; and the record."""
    known = recorded("doremi")
    record = known["runs"][name]
    state, weights, averages = method.init(("a", "b", "c", "d"), 0), [], []
    for step in range(12):
        batch = record["other_batches"].get(str(step), known["batches"][step])
        excess_BxL = np.array(batch["excess_BxL"], dtype=np.float64).clip(min=0)
        counted_BxL, domain_B = np.array(batch["counted_BxL"]), np.array(batch["domain_B"])
        sums = [(excess_BxL * counted_BxL)[domain_B == k].sum() for k in range(4)]
        tokens = [counted_BxL[domain_B == k].sum() for k in range(4)]
        state = method.observe(state, seen(np.array(sums) / np.array(tokens), step=step))
        weights.append(state["dro_K"])
        averages.append(state["average_K"])
    expected = [np.array(record[f"{n}_TxK"], dtype=np.float64) for n in WHAT]
    return np.stack(weights), np.stack(averages), *expected


WHAT = ("weights", "average")


@pytest.mark.parametrize("name", ["every domain in every batch", "third domain absent at step 5"])
def test_12_steps_follow_the_authors_code(name):
    weights, averages, expected, expected_average = trajectory(DoReMi(reference="mix"), name)
    assert_close(weights, expected, rtol=0, atol=1e-4)
    assert_close(averages, expected_average, rtol=0, atol=1e-4)


def test_a_domain_absent_at_first_does_not_take_all_the_weight():
    weights, averages, expected, expected_average = trajectory(
        DoReMi(reference="mix"), "third domain absent at step 0"
    )
    # The authors' code begins with an excess of ln V = 10.8 nats for every domain.
    assert expected[0, 2] > 0.99
    assert expected_average[-1, 2] > 0.9
    assert weights[0, 2].item() == pytest.approx(0.25, abs=0.02)
    assert averages[-1, 2] < 0.4


@pytest.mark.parametrize(
    ("smoothing", "expected"),
    # 3 : 1; with uniform weights mixed in 0.8 * 3/4 + 0.1.
    [(1e-9, (0.75, 0.25)), (0.2, (0.7, 0.3))],
)
def test_an_excess_raises_the_odds(smoothing, expected):
    state = observed(DoReMi(reference="mix", smoothing=smoothing), seen(excess_K=vector(LN3, 0)))
    assert_close(state["dro_K"], vector(*expected), rtol=0, atol=1e-8)


def test_the_loss_is_a_mean_over_tokens_each_weighed_by_w_over_q():
    method = DoReMi(reference="mix", smoothing=1e-9)
    state = method.init(("en", "hi"), 0)
    signals = seen(count_K=[1, 3], excess_K=vector(LN3, 0))
    # Weights 3/4 and 1/4 over 1/2 each: three rows of 0.5 beside one of 1.5.
    loss_weights_K = method.loss_weights(state, signals)
    assert_close(loss_weights_K, vector(0.5, 0.5), rtol=0, atol=1e-8)


def test_before_any_excess_the_loss_is_mixs():
    method = DoReMi(reference="mix", prior={"en": 3, "hi": 1}, smoothing=1e-12)
    state = method.init(("en", "hi"), 0)
    assert method.weights(state, 0).tolist() == [0.75, 0.25]
    assert method.allocate(state, 0, 8).tolist() == [6, 2]
    signals = seen(count_K=[6, 2], excess_K=vector(0, 0))
    assert_close(method.loss_weights(state, signals), vector(0.75, 0.25))


def test_a_domain_of_prior_0_is_no_part_of_the_mixture():
    method = DoReMi(reference="mix", smoothing=0.2, prior={"en": 1, "de": 0, "hi": 1})
    state = method.init(("en", "de", "hi"), 0)
    signals = seen(count_K=[2, 0, 2], excess_K=vector(LN3, math.nan, 0))
    # 0.8 * 3/4 + 0.1, over the one half that is sampled.
    assert_close(method.loss_weights(state, signals), vector(0.7, 0, 0.3))
    after = method.observe(state, signals)
    assert_close(after["dro_K"], vector(0.7, 0, 0.3))
    assert_close(after["average_K"], vector(0.6, 0, 0.4))


@few
@given(st.lists(st.floats(0, 50), min_size=9, max_size=9))
def test_no_weight_dies_out(excess):
    method = DoReMi(reference="mix")
    state = observed(method, *(seen(excess_K=e_K) for e_K in vector(*excess).reshape(3, 3)))
    for name in ("dro_K", "average_K"):
        assert state[name].min() >= 1e-3 / 3 * (1 - 1e-9)
        assert state[name].sum().item() == pytest.approx(1)
