import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from safetensors.numpy import load, save
from watched import Watched

from pike_mixing.alarms import Watch
from pike_mixing.errors import InputError
from pike_mixing.interface import Statistics
from pike_mixing.numerics.simplex import effective_domains, softmax

DOMAINS = ("en", "hi", "de")
EQUAL = [1 / 3, 1 / 3, 1 / 3]


def begun(domains=DOMAINS, adapts=True, rows=1000, **limits):
    limits = {"least_effective_domains": 1.5, "epochs": 4, "window": 4} | limits
    rows = dict.fromkeys(domains, rows)
    return Watched(Watch(domains=domains, epoch_rows=rows, adapts=adapts, **limits))


def after(watch, step, weights=EQUAL, count=(4, 4, 4), positions=None):
    """(kind, domain) of the alarms of one step."""
    K = len(watch.watch.domains)
    found = watch.after_step(
        step,
        np.array(weights, dtype=np.float64),
        np.array(count),
        np.zeros(K, dtype=np.int64) if positions is None else np.array(positions),
    )
    assert all(alarm.step == step for alarm in found)
    return [(alarm.kind, alarm.domain) for alarm in found]


def statistics(squared_norm, variance=None, rows=(8, 8, 8)):
    squared_norm_K = np.array(squared_norm, dtype=np.float64)
    variance_K = 4 * squared_norm_K if variance is None else np.array(variance)
    rows_K = np.array(rows, dtype=np.float64)
    unbiased_K = squared_norm_K - variance_K / rows_K
    loss_K = np.where(rows_K > 0, 3.0, math.nan)
    return Statistics(squared_norm_K, unbiased_K, variance_K, loss_K, rows_K)


def test_effective_number_is_k_for_equal_weights_and_one_for_a_single_domain():
    assert effective_domains(np.array(EQUAL, dtype=np.float64)) == pytest.approx(3)
    assert effective_domains(np.array([0.0, 1.0, 0.0])) == 1
    # H = 1/2 ln 2 + 2 (1/4 ln 4) = 3/2 ln 2.
    assert effective_domains(np.array([0.5, 0.25, 0.25])) == pytest.approx(2**1.5)


def test_a_collapse_is_told_at_the_end_of_a_window_once_and_again_when_it_comes_back():
    watch = begun()
    weights = [[0.98, 0.01, 0.01]] * 8 + [EQUAL] * 4 + [[0.01, 0.01, 0.98]] * 4
    found = {s: told for s, w in enumerate(weights) if (told := after(watch, s, w))}
    assert found == {3: [("effective-domains", None)], 15: [("effective-domains", None)]}


def test_weights_that_move_from_domain_to_domain_are_no_collapse():
    watch = begun(window=3)
    turns = [[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.01, 0.01, 0.98]]
    assert [after(watch, step, turns[step % 3]) for step in range(9)] == [[]] * 9


def test_a_domain_is_missed_after_a_window_without_rows_and_once():
    watch = begun()
    counts = [(8, 4, 0)] * 2 + [(4, 4, 4)] + [(8, 4, 0)] * 9 + [(4, 4, 4)] + [(8, 4, 0)] * 4
    found = {s: told for s, c in enumerate(counts) if (told := after(watch, s, count=c))}
    # The last row before was that of step 2, then that of step 12.
    assert found == {6: [("no-rows", "de")], 16: [("no-rows", "de")]}
    # One that is measured only, with a weight of zero, misses none.
    watch, weights = begun(), [0.0, 0.5, 0.5]
    found = [told for step in range(9) for told in after(watch, step, weights, (0, 12, 0))]
    assert found == [("no-rows", "de")]


def test_of_a_mixture_that_was_chosen_repetition_alone_is_told_and_once():
    watch = begun(adapts=False, rows=10)
    found = [after(watch, s, [1.0, 0.0, 0.0], (12, 0, 0), (36 + s, 0, 0)) for s in range(12)]
    # 40 rows are four epochs of ten, 41 more than that.
    assert found == [*[[]] * 5, [("epochs", "en")], *[[]] * 6]


def test_a_gradient_that_is_not_finite_is_told_until_it_is_and_once():
    watch, absent = begun(), statistics([1.0, math.nan, 2.0], rows=(8, 0, 8))
    lost, sound = (statistics([1.0, number, 2.0]) for number in (math.nan, 1.0))
    assert watch.after_statistics(6, absent) == []
    (alarm,) = watch.after_statistics(7, statistics([1.0, math.inf, 2.0]))
    assert alarm[:3] == (7, "nan-signal", "hi")
    assert "lower the learning rate" in alarm.message
    # Of a domain without rows nothing is measured: the condition neither goes nor comes back.
    for step, measured in enumerate((lost, absent, lost, sound), start=8):
        assert watch.after_statistics(step, measured) == []
    assert len(watch.after_statistics(12, lost)) == 1


def test_too_few_rows_for_a_variance_are_told_as_such():
    (alarm,) = begun().after_statistics(0, statistics([1.0] * 3, [4, math.nan, 4], (8, 1, 8)))
    assert alarm.domain == "hi"
    assert "no variance could be estimated from 1 row of hi" in alarm.message


def test_every_alarm_says_what_holds():
    watch, weights_K = begun(rows=1), np.array([0.98, 0.01, 0.01])
    raised = []
    for step in range(4):
        raised += watch.after_step(step, weights_K, np.array([12, 0, 0]), np.array([5, 0, 0]))
    raised += watch.after_statistics(4, statistics([1.0, math.nan, 2.0]))
    texts = [alarm.message for alarm in raised]
    assert texts[0].startswith("en has been read more than 4 times over")
    assert "hi had no row in the last 4 steps" in texts[1]
    assert "1.12 effective domains of 3, 98% on en" in texts[3]
    assert "the gradient of hi" in texts[4]
    assert len(texts) == 5


def trajectory(seed, steps):
    """What a run of `steps` steps reports: weights, counts, positions, statistics or None."""
    rng = np.random.default_rng(seed)
    positions_K = np.zeros(3, dtype=np.int64)
    for step in range(steps):
        # Each domain sleeps for long stretches, and weights come close to one domain now and then.
        logits_K = 6 * np.sin(np.arange(3) + step / (5 + seed % 7))
        weights_K = softmax(logits_K)
        count_K = (12 * weights_K).astype(np.int64) * (rng.random(3) > 0.2)
        positions_K = positions_K + count_K
        measured = None
        if step % 3 == 0:
            norm_K = rng.random(3)
            norm_K = np.where(norm_K < 0.4, math.nan, norm_K)
            rows_K = rng.integers(0, 3, 3)
            measured = Statistics(norm_K, norm_K, norm_K, norm_K, rows_K)
        yield weights_K, count_K, positions_K, measured


def watched(watch, seed, first, last):
    """Alarms of the steps `first` to `last`, as the loop asks for them."""
    found = []
    for step, (weights_K, count_K, positions_K, measured) in enumerate(trajectory(seed, last)):
        if step >= first:
            found += watch.after_statistics(step, measured) if measured is not None else []
            found += watch.after_step(step, weights_K, count_K, positions_K)
    return found


@pytest.mark.slow
@effort(max_examples=40, deadline=None)
@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 60), st.integers(1, 12))
def test_a_run_that_was_killed_records_the_alarms_of_one_that_was_not(seed, kept, more, window):
    limits = {"least_effective_domains": 2, "epochs": 1.5, "window": window}
    whole = watched(begun(rows=20, **limits), seed, 0, 60)
    # Killed `more` steps behind its checkpoint at `kept`: what it recorded after that is dropped.
    first = begun(rows=20, **limits)
    recorded = watched(first, seed, 0, kept)
    saved = save(first.state)
    watched(first, seed, kept, min(kept + more, 60))
    resumed = begun(rows=20, **limits)
    resumed.state = load(saved)
    recorded += watched(resumed, seed, kept, 60)
    assert recorded == whole


def test_limits_that_say_nothing_are_refused():
    with pytest.raises(InputError, match=r"Watch\.window: must be at least 1"):
        Watch(domains=DOMAINS, window=0)
    with pytest.raises(InputError, match=r"Watch\.epoch_rows: 'hi' has no number of rows"):
        Watch(domains=DOMAINS, epoch_rows={"en": 5.0, "de": 5.0})


def test_a_state_that_was_given_is_not_changed():
    watch = begun(rows=1).watch
    state = watch.init()
    kept = {name: value.copy() for name, value in state.items()}
    weights_K, count_K = np.array([0.98, 0.01, 0.01]), np.array([12, 0, 0])
    after, raised = watch.after_step(state, 3, weights_K, count_K, 5 * count_K)
    assert {alarm.kind for alarm in raised} == {"epochs", "no-rows"} | {"effective-domains"}
    assert all(np.array_equal(state[name], value) for name, value in kept.items())
    assert not np.array_equal(after["no-rows"], state["no-rows"])


def test_a_domain_that_gets_worse_is_told_with_its_rise_over_the_lowest():
    watch = begun(worse=0.1)

    def told(step, *losses):
        return [(a.domain, a.message) for a in watch.after_validation(step, np.array(losses))]

    assert told(0, 3.0, 2.0, 4.0) == told(10, 2.5, 2.05, math.nan) == []
    # 2.5 to 2.625 is more than 0.1; 2.0 to 2.09 is not.
    ((domain, message),) = told(20, 2.625, 2.09, 3.9)
    assert domain == "en"
    assert "2.625, 0.125 nats above that at step 10" in message
    # Once, until it has come back; what is not measured is as it was.
    assert told(30, 2.7, 2.0, math.nan) == told(40, math.nan, 2.0, 3.9) == []
    assert told(50, 2.5, 2.0, 3.9) == []
    assert [domain for domain, _ in told(60, 2.7, 2.0, 4.1)] == ["en", "de"]
    # A model that diverged.
    ((domain, message),) = told(70, 2.5, math.inf, 3.9)
    assert domain == "hi"
    assert "its held-out loss is inf, inf nats above that at step 0" in message
