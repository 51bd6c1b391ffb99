import json

from pipeline.training import live_log


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def written(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_rows_are_written_between_steps_once_a_second(tmp_path):
    clock = Clock()
    live = live_log.Stream(tmp_path, clock)
    live.begin(0)
    live.add("steps", {"step": 0, "loss": 1.5})
    live.after_step()
    assert live_log.places(tmp_path) == {}
    clock.now = 1.0
    live.add("steps", {"step": 1, "loss": None})
    # A step's rows stay together.
    assert live_log.places(tmp_path) == {}
    live.after_step()
    (path,) = live_log.places(tmp_path).values()
    assert written(path) == [
        {"table": "steps", "step": 0, "loss": 1.5},
        {"table": "steps", "step": 1, "loss": None},
    ]


def test_a_part_takes_the_place_of_the_rows_before_it(tmp_path):
    live = live_log.Stream(tmp_path, Clock())
    live.begin(0)
    live.add("steps", {"step": 0})
    # The part of step 10 is being written, and the run goes on.
    live.begin(10)
    live.add("steps", {"step": 10})
    live.begin(20)
    assert list(live_log.places(tmp_path)) == [0, 10]
    live.drop_before(10)
    assert list(live_log.places(tmp_path)) == [10]
    assert written(live_log.places(tmp_path)[10]) == [{"table": "steps", "step": 10}]
    live.add("steps", {"step": 20})
    live.clear()
    live.begin(30)
    assert live_log.places(tmp_path) == {}
