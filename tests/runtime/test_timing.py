"""Time counted to phases, told by hand."""

from pipeline.training import metric_log


def test_time_counts_once_in_the_innermost_phase_with_what_a_device_has_to_do_there(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(metric_log.time, "perf_counter", lambda: now[0])

    def pass_time(seconds):
        now[0] += seconds

    clock = metric_log.Clock()
    with clock.timed("loop"):
        pass_time(1)
        with clock.timed("step"):
            pass_time(2)
            with clock.timed("norms"):
                pass_time(4)
            with clock.timed("norms"):
                pass_time(8)
        pass_time(16)
    assert clock.seconds == {"loop": 17, "step": 2, "norms": 12}
    clock, waiting = metric_log.Clock(), [0, 3, 0, 0]
    clock.settle = lambda: pass_time(waiting.pop(0))
    with clock.timed("launch"):
        pass
    with clock.timed("other"):
        pass_time(1)
    assert clock.seconds == {"launch": 3, "other": 1}
