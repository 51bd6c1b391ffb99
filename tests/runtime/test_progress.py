"""Lines of progress in a log."""

import pytest

from pipeline.runtime import progress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass as they are set."""

    class Clock:
        now = 0.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def test_a_line_has_the_rate_since_the_last_and_the_end_that_of_all(clock, capsys):
    with progress.Progress("train", total=1000, unit="step") as bar:
        for clock.now, steps in ((20, 1), (25, 99), (30, 100), (40, 800)):
            bar.add(steps, loss=2)
    assert capsys.readouterr().err.splitlines() == [
        # One step in 20 seconds: 999 would take 19,980.
        "train: 1/1,000 step, 0.1/s, 19980 s left, loss 2",
        # 199 in ten more: 800 take 40.2.
        "train: 200/1,000 step, 19.9/s, 40 s left, loss 2",
        "train: 1,000/1,000 step, 80.0/s, 0 s left, loss 2",
        "train: 1,000/1,000 step, 25.0/s, 0 s left",
    ]


def test_work_that_was_done_before_counts_for_no_rate(clock, capsys):
    with progress.Progress("train", total=100, unit="step", done=50) as bar:
        clock.now = 10
        bar.add(10)
    assert capsys.readouterr().err.splitlines()[0] == "train: 60/100 step, 1.0/s, 40 s left"


def test_no_time_is_left_behind_a_rounded_total(clock, capsys):
    with progress.Progress("pack", total=5, unit="MB") as bar:
        clock.now = 1
        bar.add(5.4)
    assert capsys.readouterr().err == "pack: 5/5 MB, 5.4/s, 0 s left\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_what_fails_or_is_quiet_ends_without_a_line(clock, capsys, quiet):
    with pytest.raises(ZeroDivisionError), progress.Progress("a", total=1, unit="b", quiet=quiet):
        raise ZeroDivisionError
    with progress.Progress("a", total=1, unit="b", quiet=True) as bar:
        clock.now = 99
        bar.add(1)
    assert capsys.readouterr().err == ""
