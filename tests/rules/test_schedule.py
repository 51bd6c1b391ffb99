import math

import numpy as np
import pytest
from arrays import assert_close, vector
from hypothesis import assume, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing import Schedule, make
from pike_mixing.errors import InputError
from pike_mixing.interface import RunFacts
from pike_mixing.rules.schedule import cap_factors

AB = ("a", "b")
EVEN, ALL_A, ALL_B = {"a": 1, "b": 1}, {"a": 1, "b": 0}, {"a": 0, "b": 1}


def weights(method, *steps, domains=AB):
    state = method.init(domains, 0)
    return [method.weights(state, step).tolist() for step in steps]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        # Half way from (1, 0) to (0, 1) at step 20, a quarter of the way at 15.
        ("constant", [1, 1, 1, 1, 0, 0]),
        ("linear", [1, 1, 0.75, 0.5, 0, 0]),
        ("cosine", [1, 1, 1 - (1 - math.cos(math.pi / 4)) / 2, 0.5, 0, 0]),
    ],
)
def test_weights_between_two_points_by_hand(between, expected):
    method = Schedule(points=(ALL_A, ALL_B), at=(10, 30), unit="steps", between=between)
    found = weights(method, 0, 10, 15, 20, 30, 99)
    assert_close(np.array(found)[:, 0], vector(*expected))
    assert_close(np.array(found).sum(axis=1), np.ones(6))


@pytest.mark.parametrize(
    ("unit", "at"), [("share", (0.1, 0.3)), ("steps", (10, 30)), ("tokens", (640, 1920))]
)
def test_places_are_shares_steps_or_tokens_of_the_run(unit, at):
    method = Schedule(points=(ALL_A, ALL_B), at=at, unit=unit, between="linear")
    # 100 steps of 64 tokens.
    method = method.for_run(RunFacts({"a": 1, "b": 1}, 6400, steps=100))
    assert_close(np.array(weights(method, 10, 20, 30)), np.array([[1, 0], [0.5, 0.5], [0, 1]]))


def test_a_warm_up_and_a_cool_down_are_four_points():
    method = Schedule(
        points=(EVEN, {"a": 4, "b": 1}, {"a": 4, "b": 1}, ALL_B),
        at=(0, 10, 80, 100),
        unit="steps",
        between="linear",
    )
    assert_close(
        np.array(weights(method, 0, 5, 10, 50, 80, 90))[:, 0],
        vector(0.5, 0.65, 0.8, 0.8, 0.8, 0.4),
    )


def test_without_points_it_is_mix():
    method = make("schedule")
    assert weights(method, 0, 10**6) == [[0.5, 0.5]] * 2
    assert method.allocate(method.init(AB, 0), 3, 7).tolist() == [4, 3]


def test_a_cap_holds_over_all_phases_by_hand():
    # Ten steps of a alone and ten of both in equal parts: a has 3/4 of the rows. One epoch of it is
    # 5/8: in the second phase its share falls to 1/4, where m / (m + 1) = 1/4.
    method = Schedule(
        points=(ALL_A, EVEN),
        at=(0, 10),
        unit="steps",
        epochs=1,
        steps=20,
        tokens_by_domain={"a": 5, "b": 100},
        budget_tokens=8,
    )
    assert_close(np.array(weights(method, 0, 15)), np.array([[1, 0], [0.25, 0.75]]), rtol=1e-4)
    state = method.init(AB, 0)
    assert_close(state["factor_K"], vector(1 / 3, 1), rtol=1e-4)


def test_a_cap_near_the_whole_is_found():
    # Odds of 4999 to 1 fall to 1999 to 1.
    factor_K = cap_factors(np.array([[0.9998, 0.0002]]), vector(0.9995, 1), AB)
    assert_close(factor_K, vector(1999 / 4999, 1))


def test_a_cap_that_does_not_bind_changes_no_bit():
    points, at = ({"a": 3, "b": 1}, EVEN), (0, 0.5)
    free = Schedule(points=points, at=at, steps=10)
    capped = Schedule(
        points=points, at=at, epochs=4, steps=10, tokens_by_domain=EVEN, budget_tokens=2
    )
    assert weights(free, *range(10)) == weights(capped, *range(10))


@effort(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from(["constant", "linear", "cosine"]))
def test_no_cap_is_passed_and_odds_of_uncapped_domains_stay(seed, K, between):
    random, names = np.random.default_rng(seed), tuple("abcde"[:K])
    points_2xK = random.dirichlet(np.ones(K), 2) + 0.01
    sizes_K = random.uniform(0.2, 2, K)
    assume(sizes_K.sum() > 1.2)
    method = Schedule(
        points=tuple(dict(zip(names, row, strict=True)) for row in points_2xK.tolist()),
        at=(0, 0.9),
        between=between,
        epochs=1,
        steps=60,
        tokens_by_domain=dict(zip(names, sizes_K.tolist(), strict=True)),
        budget_tokens=1,
    )
    state = method.init(names, 0)
    read_K = np.mean([method.weights(state, step) for step in range(60)], axis=0)
    assert (read_K <= sizes_K * (1 + 1e-5)).all()
    free = np.flatnonzero(read_K < sizes_K * (1 - 1e-3))
    own = state | {"factor_K": np.ones(K)}
    for step in (0, 30, 59):
        before_K, after_K = method.weights(own, step)[free], method.weights(state, step)[free]
        assert_close(after_K / after_K.sum(), before_K / before_K.sum(), rtol=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"points": [EVEN], "at": [0, 1]}, "at: has 2 places for 1 point"),
        ({"points": [EVEN, EVEN], "at": [0.5, 0.5]}, r"at: \[0.5, 0.5\] must ascend"),
        ({"points": [EVEN, EVEN], "at": [0, 10]}, "at: a share of the run is 1 at most"),
        ({"points": [], "at": []}, "points: give one at least"),
        ({"points": [{"a": 0}]}, r"points\[0\]: at least one must be positive"),
    ],
)
def test_settings_that_are_no_schedule_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        make("schedule", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"points": [{"a": 1, "c": 1}]}, r"points\[0\]: 'c' is unknown"),
        ({"points": [EVEN, ALL_A], "at": [0, 0.5]}, "steps: the length of the run is not known"),
        ({"epochs": 1}, "budget_tokens: the length of the run is not known"),
        (
            {"epochs": 1, "budget_tokens": 8, "steps": 4, "tokens_by_domain": {"a": 2, "b": 9}}
            | {"points": [ALL_A]},
            "epochs: a would be read more often than allowed",
        ),
    ],
)
def test_what_a_run_cannot_have_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        make("schedule", **settings).init(AB, 0)
