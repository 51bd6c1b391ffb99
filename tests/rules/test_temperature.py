import pytest
from arrays import assert_close, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.interface import Facts
from pike_mixing.rules.temperature import Temperature

corpora = st.lists(st.integers(1, 10**15), min_size=1, max_size=8)

few = effort(max_examples=30, deadline=None)


def weights(temperature, *tokens):
    names = tuple(f"domain{k}" for k in range(len(tokens)))
    method = Temperature(
        temperature=temperature, tokens_by_domain=dict(zip(names, tokens, strict=True))
    )
    return method.weights(method.init(names, 0), 0)


def test_weights_are_a_root_of_the_sizes():
    # 8^(1/3) : 1^(1/3) = 2 : 1.
    assert_close(weights(3, 8, 1), vector(2, 1) / 3)


def test_temperature_one_keeps_the_proportions():
    assert_close(weights(1, 6, 3, 1), vector(0.6, 0.3, 0.1))


def test_a_high_temperature_gives_equal_parts():
    assert_close(weights(1e9, 10**12, 1), vector(0.5, 0.5))


def test_the_default_is_mt5s():
    # (10^10)^0.3 = 10^3.
    method = Temperature(tokens_by_domain={"en": 1e10, "hi": 1})
    assert_close(method.weights(method.init(("en", "hi"), 0), 0), vector(1000, 1) / 1001)


def test_powers_that_overflow_are_no_problem():
    # 1e200 squared is no float64.
    assert weights(0.5, 1e200, 1).tolist() == [1, 0]


def test_the_run_fills_in_the_sizes_that_nobody_wrote_down():
    found = {"en": 3.0, "hi": 1.0}
    assert Temperature().informed(Facts(found, 100)).tokens_by_domain == found
    written = Temperature(tokens_by_domain={"en": 1, "hi": 1})
    assert written.informed(Facts(found, 100)) == written


def test_without_sizes_there_are_no_weights():
    with pytest.raises(InputError, match="the sizes of the corpora are not known"):
        Temperature().init(("en", "hi"), 0)


@few
@given(corpora, st.floats(0.5, 100))
def test_a_larger_corpus_never_gets_less(tokens, temperature):
    tokens = sorted(tokens, reverse=True)
    weights_K = weights(temperature, *tokens).tolist()
    assert weights_K == sorted(weights_K, reverse=True)
    assert sum(weights_K) == pytest.approx(1)


@few
@given(corpora, st.floats(0.5, 100), st.floats(1e-3, 1e3))
def test_the_unit_of_the_sizes_does_not_matter(tokens, temperature, factor):
    scaled = [n * factor for n in tokens]
    assert_close(weights(temperature, *scaled), weights(temperature, *tokens))
