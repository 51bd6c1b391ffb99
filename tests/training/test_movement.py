"""Methods that never move a row: three domains, twelve rows of a batch, windows of four steps."""

import logging

import numpy as np
import pytest
from recipes import recipe
from watched import Watched

from pike_mixing import interface, method_registry
from pike_mixing.alarms import AlarmLimits
from pike_mixing.interface import Statistics
from pike_mixing.moved_rows import needs_movement_check
from pipeline import settings
from pipeline.training.step_log import build_alarm_watch

DOMAINS = ("en", "hi", "de")
PIKE = {"zeta1": 1e-6, "zeta2": 1e-6, "every": 2, "first": 2}


def begun(rule="pike", method=PIKE, domains=DOMAINS, **training):
    """An alarm's watch over a run of the rule, and its method."""
    own = recipe(**{"rows": 12, "steps": 20, "alarms": AlarmLimits(window=4)} | training)
    model = settings.Model(layers=1, width=8, heads=2, head_width=4)
    work = settings.Run("s", "tiny", "any", 0, domains, "t", model, own, rule, method)
    rule = method_registry.build_method(rule, method, "method")

    def counts(state, step):
        return interface.rows_of_domains(rule, state, step, own.rows, own.rounding, len(domains))

    return Watched(build_alarm_watch(rule, work, dict.fromkeys(domains, 1e9))), counts


def weights(*values):
    return np.array(values, dtype=np.float64)


def played(watch, counts, weights_of, steps=20, coefficients=None, begin=0):
    """Step and message of every `never-moved`, for weights by step."""
    found = []
    for step in range(begin, steps):
        weights_K = weights_of(step)
        state = {"log_weights_K": np.log(weights_K), "weights_K": weights_K}
        found += watch.after_step(
            step,
            weights_K,
            counts(state, step),
            np.zeros(len(weights_K)),
            None if coefficients is None else coefficients(step),
        )
    return {a.step: a.message for a in found if a.kind == "never-moved"}


def apart(change, since=0):
    """Equal weights, and from a step on the first domain's is larger, the last one's smaller."""
    third = 1 / 3
    return lambda step: (
        weights(third + change, third, third - change) if step >= since else weights(*[third] * 3)
    )


def statistics(squared_norm, variance, loss=(1.0, 1.0, 1.0)):
    norm_K, variance_K = weights(*squared_norm), weights(*variance)
    return Statistics(norm_K, norm_K, variance_K, weights(*loss), weights(8, 8, 8))


def test_weights_that_move_no_row_are_told_after_a_window_and_at_the_end():
    told = played(*begun(), apart(0.001, since=6))
    # Steps 6 to 9 are the first window; 15 steps of 12 rows at the end.
    assert list(told) == [9, 19]
    assert "any has moved 0 of 48 rows in the 4 steps since its weights" in told[9]
    assert "largest change of a weight 0.001; one row of 12 is 0.083" in told[9]
    # 1 / 12 / 0.001 = 83.
    assert "raise zeta1 and zeta2 by about 83 times" in told[9]
    assert "0 of 168 rows in the 14 steps" in told[19]


def test_weights_that_move_a_row_are_not_told():
    # Quotas 4.6, 4, 3.4: largest remainders give 5, 4, 3.
    assert played(*begun(), apart(0.05)) == {}


def test_what_largest_remainders_hide_is_named_with_the_remedy():
    # 0.03 x 12 = 0.36 rows of each batch, 7.2 in 20; every quota still rounds to 4.
    told = played(*begun(), apart(0.03))
    assert list(told) == [3, 19]
    assert "round systematically (largest remainders hid 7.2 rows)" in told[19]
    assert played(*begun(rounding="systematic"), apart(0.03)) == {}


@pytest.mark.parametrize(
    ("rounding", "rows", "change", "before", "after"),
    [
        ("largest-remainder", 13, -1e-8, [5, 4, 4], [4, 4, 5]),
        ("systematic", 12, 1e-8, [4, 4, 4], [5, 4, 3]),
    ],
)
def test_a_tie_that_the_least_change_breaks_is_no_move(rounding, rows, change, before, after):
    watch, counts = begun(rows=rows, rounding=rounding)
    for weights_of, count in ((apart(0), before), (apart(change), after)):
        assert counts({"log_weights_K": np.log(weights_of(0))}, 0).tolist() == count
    assert list(played(watch, counts, apart(change))) == [3, 19]


def test_one_row_in_a_window_is_enough_however_long_the_run():
    # 0.0005 x 12 = 0.006 rows a step, fewer than one in 100 steps, but 2.4 in 400 steps.
    watch, counts = begun(rounding="systematic", steps=400, alarms=AlarmLimits(window=100))
    assert list(played(watch, counts, apart(0.0005), steps=400)) == [99, 399]
    watch, counts = begun(rounding="systematic", steps=400, alarms=AlarmLimits(window=100))
    assert played(watch, counts, apart(0.001), steps=400) == {}


def test_a_method_that_is_never_measured_is_told_before_training_and_at_the_end():
    watch, counts = begun(method=PIKE | {"first": 20})
    told = played(watch, counts, apart(0))
    assert list(told) == [0, 19]
    assert "have it begin earlier (first, every)" in told[0]
    watch, counts = begun("skill-it", {"every": 20})
    assert list(played(watch, counts, apart(0))) == [0, 19]


def test_a_single_domain_is_nothing_to_mix():
    watch, counts = begun(domains=("en",))
    told = played(watch, counts, lambda step: weights(1.0))
    assert list(told) == [0, 19]
    assert "has one domain alone, and nothing to mix" in told[0]


def test_coefficients_that_are_the_shares_of_the_rows_are_told():
    # A third each but for 0.0005: 0.006 rows of 12.
    told = played(*begun("famo", {}), apart(0), coefficients=apart(0.0005))
    assert list(told) == [3, 19]
    assert "largest change of a coefficient 0.0005" in told[3]
    assert "raise rate by about 170 times" in told[3]
    # Coefficients that sum to K, as some rules' sources have them.
    told = played(*begun("pcgrad", {}), apart(0), coefficients=lambda step: weights(1, 1, 1))
    assert list(told) == [19]
    assert "nothing was measured that changed any" in told[19]


def test_excursions_of_the_rule_itself_are_no_move():
    method = {"slot": 1, "every": 10, "sweeps": 1, "rows": 2, "lean": 0.9}
    watch, counts = begun("aioli", method)
    movement = watch.watch.movement
    rule, start = movement.method, movement.start
    leaning = played(watch, lambda _, step: counts(start, step), lambda s: rule.weights(start, s))
    assert list(leaning) == [19]


def test_measured_statistics_propose_coefficients(caplog):
    watch, counts = begun()
    with caplog.at_level(logging.INFO, logger="pike"):
        watch.after_statistics(2, statistics((4, 1, 1), (30, 6, 6)))
        watch.after_statistics(4, statistics((7, 1, 1), (54, 6, 6)))
    # Once: ln 1.1 / (4 - 1) and ln 1.1 x 24 / (30 - 6).
    (text,) = [record.getMessage() for record in caplog.records]
    assert text.startswith("any, step 2: by what was measured zeta1 = 0.032 or zeta2 = 0.095 alone")
    told = played(watch, counts, apart(0))
    assert list(told) == [5, 19]
    assert "raise zeta1 and zeta2; by what was measured zeta1 = 0.016 or zeta2 = 0.048" in told[5]


def test_which_methods_can_fail_to_move():
    built = {
        rule: needs_movement_check(method_registry.build_method(rule, method, "method"))
        for rule, method in {
            "mix": {},
            "random": {},
            "fixed": {"weights_by_domain": {"en": 1}},
            "pike": PIKE,
            "odm": {},
            "famo": {},
            "pcgrad": {},
            "adatask": {},
        }.items()
    }
    assert [rule for rule, can in built.items() if can] == ["pike", "odm", "famo", "pcgrad"]
