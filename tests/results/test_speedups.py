import numpy as np
import pytest

from pipeline.results import speedups
from pipeline.results.measured_results import CheckpointKey, TaskCurve


def test_straight_lines_between_checkpoints():
    for curve, tokens, expected in (
        # A quarter of the way from 0.5 to -1.5.
        ([1.5, 0.5, -1.5], [0, 100, 200], 125),
        ([1, 0, -2], [0, 100, 200], 100),
        # What is lost again was not gained: the last crossing counts, and none that does not last.
        ([1, -1, 2, -3], [0, 100, 200, 300], 240),
        ([1, -1, 0.5], [0, 100, 200], None),
        # There from the start, and never.
        ([-1, -2], [0, 100], 0),
        ([1, 0.5], [0, 100], None),
    ):
        assert speedups.tokens_to_lasting_crossing(np.array(curve, float), tokens) == expected


def runs(curves):
    """Checkpoints at 0, 100, 200 ... tokens, and one part of three documents of one token each.

    curves: by method and seed the mean losses; the documents lie 1 below, at, and 1 above them.
    """
    checkpoints = [
        CheckpointKey(method, seed, step, 100.0 * step)
        for (method, seed), values in curves.items()
        for step in range(len(values))
    ]
    mean_R = np.array([value for values in curves.values() for value in values], float)
    return [TaskCurve(mean_R[:, None] + [-1, 0, 1], np.ones(3), np.arange(3))], checkpoints


TWICE_AS_FAST = {("mix", 0): [9, 8, 7, 6, 5], ("pike", 0): [9, 7, 5, 4, 4]}


def test_twice_as_fast():
    found = speedups.speedup(*runs(TWICE_AS_FAST), "pike", "mix")
    assert found.target == pytest.approx(5)
    assert (found.tokens, found.baseline_tokens) == (pytest.approx(200), 400)
    assert found.ratio == pytest.approx(2)
    # All documents move alike, so that others would change nothing.
    assert (found.low, found.high) == (pytest.approx(2), pytest.approx(2))
    # One seed: no verdict.
    assert (found.p, found.seeds) == (None, 1)


def test_seeds_whose_last_checkpoint_alone_was_evaluated_are_left_out():
    curves = TWICE_AS_FAST | {("mix", 1): [5], ("pike", 1): [4]}
    found = speedups.speedup(*runs(curves), "pike", "mix")
    assert (found.seeds, found.ratio) == (1, pytest.approx(2))


def test_means_over_seeds_and_an_interval_over_them():
    # Seed 0 of pike is there after 100 tokens, seed 1 never; their mean at 100.
    curves = {("mix", 0): [9, 7, 5], ("mix", 1): [9, 7, 5]}
    curves |= {("pike", 0): [9, 3, 3], ("pike", 1): [9, 7, 6]}
    found = speedups.speedup(*runs(curves), "pike", "mix")
    assert (found.seeds, found.tokens) == (2, pytest.approx(100))
    # Two seeds say little: an interval of 12.7 standard errors, here from one end to the other.
    assert found.low is None
    assert found.high > 3


@pytest.mark.parametrize("last", [4.0, 6.0])
def test_a_lead_that_is_lost_after_the_baselines_end_has_no_test(last):
    checkpoints, rows = [], []
    for seed in range(3):
        for method, values in (("mix", [9, 7, 5]), ("pike", [9, 6, 4.5, last])):
            for step, value in enumerate(values):
                checkpoints.append(CheckpointKey(method, seed, step, 100.0 * step))
                rows.append(value + 0.01 * seed * (method == "pike") + np.arange(20) / 10)
    parts = [TaskCurve(np.array(rows), np.ones(20), np.arange(20))]
    found = speedups.speedup(parts, checkpoints, "pike", "mix")
    # 0.49 ahead where the baseline ends, of which seeds say SD 0.01; at 6 it was not there to stay.
    assert (found.ratio is None, found.p is None) == (last > 5, last > 5)
    assert found.p is None or found.p < 0.001


def test_higher_may_be_better():
    curves = {("mix", 0): [0, 1, 2, 3, 4], ("pike", 0): [0, 4, 5, 5, 5]}
    found = speedups.speedup(*runs(curves), "pike", "mix", higher_is_better=True)
    assert (found.target, found.ratio) == (pytest.approx(4), pytest.approx(4))


def test_documents_that_only_one_method_has_do_not_count():
    parts, checkpoints = runs({("mix", 0): [9, 5], ("pike", 0): [9, 5]})
    parts[0].value_RxN[0, 2] = np.nan  # A checkpoint of the baseline that is not compared.
    parts[0].value_RxN[3, 0] = np.nan
    found = speedups.speedup(parts, checkpoints, "pike", "mix")
    assert found.target == pytest.approx((5 + 6) / 2)


def test_methods_without_common_seeds_or_documents_are_not_compared():
    curves = {("mix", 0): [9, 5], ("pike", 1): [9, 5]}
    # A run that was evaluated once has no curve.
    for other in (curves, {("mix", 0): [9, 5], ("pike", 0): [4]}):
        assert speedups.speedup(*runs(other), "pike", "mix") is None
    parts, checkpoints = runs({("mix", 0): [9, 5], ("pike", 0): [9, 5]})
    parts[0].value_RxN[3] = np.nan
    assert speedups.speedup(parts, checkpoints, "pike", "mix") is None
