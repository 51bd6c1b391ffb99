import math

import pytest
from arrays import assert_close, observed, recorded, seen, vector

from pike_mixing.errors import InputError
from pike_mixing.rules.famo import FAMO

DOMAINS = ("en", "hi", "de")


@pytest.mark.parametrize("run", range(3))
def test_40_steps_follow_the_authors_code(run):
    known = recorded("famo")
    expected = known["runs"][run]
    bounds = expected["lower_bounds_K"]
    method = FAMO(
        rate=expected["rate"],
        gamma=expected["gamma"],
        lower_bounds=bounds and dict(zip(DOMAINS, bounds, strict=True)),
    )
    state = method.init(DOMAINS, 0)
    pairs = zip(known["losses_TxK"], known["losses_after_TxK"], strict=True)
    for step, (before, after) in enumerate(pairs):
        signals = seen(step, loss_K=vector(*before), loss_after_K=vector(*after))
        loss_weights_K = vector(*expected["loss_weights_TxK"][step])
        assert_close(method.loss_weights(state, signals), loss_weights_K, rtol=0, atol=1e-4)
        state = method.observe(state, signals)
        logits_K = vector(*expected["logits_TxK"][step])
        assert_close(state["logits_K"], logits_K, rtol=0, atol=5e-4)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    # z equal: 1/1 : 1/3; and gaps of 1 and 1.
    [(None, (0.75, 0.25)), ({"hi": 2, "en": 0}, (0.5, 0.5))],
)
def test_a_small_gap_to_the_lower_bound_weighs_more(bounds, expected):
    method = FAMO(lower_bounds=bounds)
    loss_weights_K = method.loss_weights(
        method.init(("en", "hi"), 0), seen(loss_K=vector(1, 3), loss_after_K=vector(1, 3))
    )
    assert_close(loss_weights_K, vector(*expected), rtol=0, atol=1e-7)


def test_an_absent_domain_has_no_weight_and_waits():
    method, nan = FAMO(), math.nan
    state = observed(method, seen(loss_K=vector(2, 2, 2), loss_after_K=vector(1, 2, 1.5)))
    absent = seen(loss_K=vector(3, 2, nan), loss_after_K=vector(2, 2, nan))
    loss_weights_K = method.loss_weights(state, absent)
    # Counted as a loss of 0 it would take all the weight.
    assert loss_weights_K[2] == 0
    assert loss_weights_K.sum().item() == pytest.approx(1)
    after = method.observe(state, absent)
    assert after["updates_K"].tolist() == [2, 2, 1]
    for name in ("logits_K", "first_K", "second_K"):
        assert after[name][2] == state[name][2]
        assert after[name][0] != state[name][0]


def test_a_loss_below_its_lower_bound_is_refused():
    method = FAMO(lower_bounds={"en": 1, "hi": 2.5})
    state = method.init(("en", "hi"), 0)
    with pytest.raises(InputError, match=r"2\.5 of the run's domain 2 .* 2\.25 at step 7: lower"):
        method.loss_weights(state, seen(7, loss_K=vector(3, 2.25), loss_after_K=vector(3, 2.25)))
