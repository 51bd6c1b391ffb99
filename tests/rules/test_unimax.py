import pytest
from arrays import assert_close, recorded, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.rules.static import UniMax, weights_capped_by_epochs

corpora = st.lists(st.integers(1, 10**9), min_size=1, max_size=8)

few = effort(max_examples=30)


def test_the_example_published_with_unimax_sampling_is_met():
    known = recorded("unimax")
    method = UniMax(
        epochs=known["epochs"], tokens_by_domain=known["sizes"], budget_tokens=known["budget"]
    )
    weights_K = method.weights(method.init(tuple(known["weights"]), 0), 0)
    assert_close(weights_K, vector(*known["weights"].values()), rtol=0, atol=1e-12)


def test_what_a_small_domain_cannot_take_the_others_share():
    # 12 tokens: 4 each, but 2 epochs of 1 token are 2; the others take (12 - 2) / 2 = 5 each.
    assert_close(weights_capped_by_epochs(vector(9, 1, 7), 12, 2), vector(5, 2, 5) / 12)


def test_a_short_run_takes_equal_parts():
    assert_close(weights_capped_by_epochs(vector(100, 900, 500), 30, 1), vector(1, 1, 1) / 3)


def test_a_run_longer_than_all_epochs_keeps_the_proportions():
    # 4 epochs of 1 and 9 tokens are 40, the budget is 1000.
    assert_close(weights_capped_by_epochs(vector(1, 9), 1000, 4), vector(0.1, 0.9))


def test_a_budget_is_asked_for():
    with pytest.raises(InputError, match="budget_tokens: the length of the run is not known"):
        UniMax(tokens_by_domain={"en": 1}).init(("en",), 0)


@few
@given(corpora, st.integers(1, 10**9), st.integers(1, 10))
def test_no_domain_passes_its_epochs_while_another_has_some_left(tokens, budget, epochs):
    epoch_K = weights_capped_by_epochs(vector(*tokens), budget, epochs) * budget / vector(*tokens)
    if budget <= epochs * sum(tokens):
        assert epoch_K.max() <= epochs * (1 + 1e-9)
    else:
        assert_close(epoch_K, epoch_K.mean().repeat(len(tokens)))
