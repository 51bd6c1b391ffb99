"""What `pike watch` shows of runs that wait, train, were killed, and are done."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, locks
from pipeline.training import watch
from pipeline.training.metric_log import LOG, RunRecords


@pytest.fixture
def finished(piked, tmp_path):
    """A finished run of PiKE in a results folder."""
    return shutil.copytree(piked, tmp_path / "runs/languages/tiny/pike/seed0")


@pytest.fixture
def folder(finished):
    """That run as it was before its end: its log up to the checkpoint of step 3."""
    (finished / atomic_files.MANIFEST).unlink()
    for path in finished.glob("*.parquet"):
        path.unlink()
    RunRecords(finished, ("en", "hi")).cut_after_checkpoint(3)
    return finished


def weights_of(path):
    rows = pq.read_table(path / "weights.parquet").to_pylist()
    return [f"{row['weight']:.3f}" for row in rows[-2:]]


def test_runs_that_wait_and_are_finished_are_listed(finished, tmp_path, make_run):
    make_run("runs/languages/tiny/mix/seed0", training={"steps": 2000})
    head, _, waiting, done, _ = watch.watch_runs_until_interrupted(tmp_path, once=True).splitlines()
    assert head.split() == ["run", "state", "step", "steps", "loss", "tokens_per_second", "weights"]
    assert waiting.split() == ["languages/tiny/mix/seed0", "waiting", "0", "2000"]
    assert done.split()[:4] == ["languages/tiny/pike/seed0", "finished", "6", "6"]
    own = weights_of(finished)
    assert [done.split()[7], done.split()[9]] == own
    _, row = json.loads(watch.watch_runs_until_interrupted(tmp_path, format="json"))
    assert [f"{w:.3f}" for w in row["weights"].values()] == own


def test_rows_since_the_last_checkpoint_are_shown_at_once(folder):
    numbers = {"step": 3, "loss": 0.25, "tokens_per_second": 24.0}
    weight = {"step": 3, "domain": "en", "weight": 0.75, "count": 3}
    rows = [{"table": "steps", **numbers}, {"table": "weights", **weight}]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    # Half a line of a killed run, and at once the next one's first; a line that is half written.
    with (folder / LOG).open("ab") as log:
        log.write(b'{"table": "st' + lines + lines + b'\xff\n3\n{"table": "steps", "st')
    with locks.acquire_lease(folder):
        (run,) = watch.read_status_of_runs(folder)
    assert (run["state"], run["step"], run["loss"]) == ("running", 4, 0.25)
    assert run["weights"] == {"en": 0.75}


def test_a_run_that_cannot_be_read_does_not_hide_one_that_was_stopped(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "runs/languages/tiny/mix/seed0")
    path = tmp_path / "runs/languages/tiny/mix/seed0/run.json"
    path.write_bytes(path.read_bytes()[:100])
    broken, whole = watch.read_status_of_runs(tmp_path)
    assert broken["run"] == "languages/tiny/mix/seed0"
    assert broken["state"].startswith("unreadable: ")
    assert (whole["state"], whole["step"]) == ("stopped", 3)
    assert "unreadable" in watch.watch_runs_until_interrupted(tmp_path, once=True)


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no run \(no run\.json\): give a run's folder"):
        watch.watch_runs_until_interrupted(tmp_path, once=True)
