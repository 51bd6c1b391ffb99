"""Time counted to phases, told by hand."""

import pytest

from pipeline.training import metric_log


@pytest.fixture
def told(monkeypatch):
    """A clock whose time passes when it is told to."""
    now = [100.0]
    monkeypatch.setattr(metric_log.time, "perf_counter", lambda: now[0])

    def passes(seconds):
        now[0] += seconds

    return metric_log.Clock(), passes


def test_a_phase_within_another_counts_once(told):
    watch, passes = told
    with watch.timed("loop"):
        passes(1)
        with watch.timed("step"):
            passes(2)
            with watch.timed("norms"):
                passes(4)
            with watch.timed("norms"):
                passes(8)
        passes(16)
    assert watch.seconds == {"loop": 17, "step": 2, "norms": 12}


def test_what_a_device_still_has_to_do_counts_where_it_was_asked_for(told):
    watch, passes = told
    waiting = [0, 3, 0, 0]
    watch.settle = lambda: passes(waiting.pop(0))
    with watch.timed("launch"):
        pass
    with watch.timed("other"):
        passes(1)
    assert watch.seconds == {"launch": 3, "other": 1}
