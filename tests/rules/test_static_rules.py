"""Rules whose weights follow no signal: mix, round-robin, random, single, fixed, temperature."""

import itertools
from collections import Counter

import numpy as np
import pytest
from arrays import assert_close, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing import by_domain
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, RunFacts, Signals
from pike_mixing.rules.static import Fixed, Mix, Random, RoundRobin, Single, Temperature

DOMAINS = ("en", "hi", "de")
GLAM = dict(
    zip(
        ("filtered-webpages", "wikipedia", "conversations", "forums", "books", "news"),
        (0.51, 0.05, 0.22, 0.04, 0.20, 0.02),
        strict=True,
    )
)
"""DoReMi's weights as printed in the paper, which sum to 1.04."""
corpora = st.lists(st.integers(1, 10**15), min_size=1, max_size=8)
few = effort(max_examples=30)


@pytest.mark.parametrize(
    ("method", "domains", "step", "b", "expected"),
    [
        # 256 / 3 = 85 remainder 1; plain rounding would give 255 rows.
        (Mix(), DOMAINS, 0, 256, [86, 85, 85]),
        (RoundRobin(), DOMAINS, 0, 256, [256, 0, 0]),
        (RoundRobin(), DOMAINS, 2, 256, [0, 0, 256]),
        (RoundRobin(), DOMAINS, 3_000_001, 256, [0, 256, 0]),
        (Single("hi"), DOMAINS, 3, 256, [0, 256, 0]),
        (Fixed({"en": 0.5, "hi": 0.25, "de": 0.25}), DOMAINS, 9, 16, [8, 4, 4]),
        # By name, not by place; divided by the sum.
        (Fixed({"de": 0.25, "en": 0.75}), ("en", "de"), 0, 8, [6, 2]),
        (Fixed({"en": 3, "hi": 1}), ("en", "hi"), 0, 8, [6, 2]),
        (Fixed(GLAM), tuple(GLAM), 0, 256, [126, 12, 54, 10, 49, 5]),
    ],
)
def test_rows_by_hand(method, domains, step, b, expected):
    state = method.init(domains, 0)
    assert method.allocate(state, step, b).tolist() == expected
    assert method.needs() == Needs()
    signals = Signals(step=step, batch_rows=b)
    assert method.observe(state, signals) is state
    assert method.loss_weights(state, signals) is None
    assert method.gradient_coefficients(state, signals) is None


@pytest.mark.parametrize(
    ("made", "messages"),
    [
        (lambda: Single("english").init(("englisch",), 0), ["'english' is unknown: did you mean"]),
        (
            lambda: Fixed({"en": 1, "hindi": 1}).init(("en", "hind"), 0),
            ["'hindi' is unknown: did you mean 'hind'?", "domain 'hind' has no weight"],
        ),
        (lambda: Fixed({"en": 1}, mixture="doremi"), ["give either these or a mixture"]),
        (
            lambda: Fixed(mixture="doremi").for_run(RunFacts({}, 100)),
            ["'doremi' were not given to the run"],
        ),
        (
            lambda: by_domain.tokens_in_order({"en": 1, "hindi": 1}, ("en", "hind")),
            ["'hindi' is unknown: did you mean 'hind'?", "domain 'hind' has no size"],
        ),
        (lambda: Temperature().init(DOMAINS, 0), ["the sizes of the corpora are not known: give"]),
    ],
)
def test_what_a_rule_cannot_mix_is_refused(made, messages):
    with pytest.raises(InputError) as caught:
        made()
    for message in messages:
        assert message in str(caught.value)


def test_a_mixture_that_other_runs_found_takes_the_place_of_written_weights():
    found = Fixed(mixture="doremi").for_run(RunFacts({}, 100, mixture={"en": 0.75, "hi": 0.25}))
    assert found == Fixed({"en": 0.75, "hi": 0.25})


def drawn(seed, steps):
    method = Random()
    state = method.init(DOMAINS, seed)
    counts = [method.allocate(state, step, 256).tolist() for step in range(steps)]
    assert all(sorted(count_K) == [0, 0, 256] for count_K in counts)
    return [int(np.argmax(count_K)) for count_K in counts]


def test_the_draws_stay_the_same_from_version_to_version():
    assert drawn(0, 12) == [2, 2, 1, 1, 1, 0, 0, 2, 1, 1, 0, 1]
    assert drawn(0, 50) != drawn(1, 50)


def test_draws_are_even_and_those_of_neighbouring_steps_independent():
    draws = drawn(6, 3001)
    # 3,000 draws of 3: each 1,000 with a standard deviation of sqrt(3000 * 1/3 * 2/3) = 26.
    assert all(abs(n - 1000) < 4 * 26 for n in Counter(draws).values())
    # 9 pairs, 3,000 draws: each 333 with a standard deviation of 17.
    pairs = Counter(itertools.pairwise(draws))
    assert len(pairs) == 9
    assert all(abs(n - 333) < 5 * 17 for n in pairs.values())


def weights(temperature, *tokens):
    names = tuple(f"domain{k}" for k in range(len(tokens)))
    by_name = dict(zip(names, tokens, strict=True))
    method = Temperature(temperature=temperature, tokens_by_domain=by_name)
    return method.weights(method.init(names, 0), 0)


@pytest.mark.parametrize(
    ("temperature", "tokens", "expected"),
    [
        # 8^(1/3) : 1^(1/3) = 2 : 1.
        (3, (8, 1), (2, 1)),
        (1, (6, 3, 1), (6, 3, 1)),
        (1e9, (10**12, 1), (1, 1)),
        # mT5's: (10^10)^0.3 = 10^3.
        (Temperature().temperature, (1e10, 1), (1000, 1)),
        # 1e200 squared is no float64.
        (0.5, (1e200, 1), (1, 0)),
    ],
)
def test_weights_are_a_root_of_the_sizes(temperature, tokens, expected):
    assert_close(weights(temperature, *tokens), vector(*expected) / sum(expected))


@few
@given(corpora, st.floats(0.5, 100), st.floats(1e-3, 1e3))
def test_a_larger_corpus_never_gets_less_whatever_the_unit(tokens, temperature, factor):
    tokens = sorted(tokens, reverse=True)
    weights_K = weights(temperature, *tokens)
    assert weights_K.tolist() == sorted(weights_K, reverse=True)
    assert_close(weights(temperature, *[n * factor for n in tokens]), weights_K)
