"""What `pike watch` shows of runs that wait, train, were killed, and are done."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, run_lock
from pipeline.training import train, watch
from pipeline.training.live_log import Stream

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, write_run, corpora, pike):
    """A results folder with one finished run of PiKE."""
    results = tmp_path_factory.mktemp("results")
    run = write_run(results / "runs/languages/tiny/pike/seed0", **pike)
    train.pretrain(run, corpora, device="cpu", threads=1)
    return results


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of that run, as it was before its end: its parts alone."""
    copy = tmp_path / "runs/languages/tiny/pike/seed0"
    shutil.copytree(finished / "runs/languages/tiny/pike/seed0", copy)
    (copy / atomic_files.MANIFEST).unlink()
    for path in copy.glob("*.parquet"):
        path.unlink()
    shutil.rmtree(copy / "parts" / "step6")
    return copy


def stepped(stream, step, loss):
    numbers = {"learning_rate": 0.1, "gradient_norm": 1.0, "seconds": 2.0}
    pace = {"tokens_per_second": 24.0, "model_flops_utilisation": None, "memory_bytes": 2**30}
    tokens = {"tokens": 48 * (step + 1), "loss": loss}
    stream.add("steps", {"step": step, **tokens, **numbers, **pace})


def test_a_finished_run_is_shown_with_its_domains(finished):
    shown = watch.look(finished / "runs/languages/tiny/pike/seed0")
    assert "seed0: finished" in shown
    assert "step 6 of 6 (100.0%), 288 tokens" in shown
    rows = pq.read_table(finished / "runs/languages/tiny/pike/seed0/weights.parquet").to_pylist()
    for row in rows[-2:]:
        assert f"{row['weight']:.4f}{row['count']:>7}" in shown
    assert "left" not in shown


def test_a_run_that_was_stopped_shows_what_it_had_written(folder):
    assert [row["step"] for row in watch.rows(folder, "steps")] == [0, 1, 2]
    shown = watch.look(folder)
    assert "seed0: stopped" in shown
    assert "step 3 of 6 (50.0%)" in shown


def test_rows_since_the_last_part_are_shown_at_once(folder):
    stream = Stream(folder)
    stream.begin(3)
    stepped(stream, 3, 0.25)
    stream.begin(6)
    path = folder / "live" / "since-step3.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write('{"table": "steps", "st')
    # Rows behind a part that is there already are not counted twice.
    shutil.copy(path, folder / "live" / "since-step0.jsonl")
    with run_lock.acquire(folder):
        assert [row["step"] for row in watch.rows(folder, "steps")] == [0, 1, 2, 3]
        shown = watch.look(folder)
    assert "seed0: running" in shown
    assert "step 4 of 6 (66.7%), 192 tokens" in shown
    assert "1.00 GiB" in shown


def test_a_line_that_is_no_record_is_passed_over(folder):
    stream = Stream(folder)
    stream.begin(3)
    stepped(stream, 3, 0.25)
    stepped(stream, 4, 0.25)
    stream.begin(6)
    path = folder / "live" / "since-step3.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    # Half a line of a killed run, and at once the next one's first line.
    path.write_bytes(first[:20] + first + second + b"\xff\n3\n{}\n")
    (folder / "live" / "since-step.jsonl").write_text("a copy")
    assert [row["step"] for row in watch.rows(folder, "steps")] == [0, 1, 2, 4]


@pytest.mark.parametrize("content", ["[]", "{", '{"training": {}}', '{"training": {"steps": 0}}'])
def test_a_run_that_cannot_be_read_does_not_hide_the_others(folder, tmp_path, content):
    other = tmp_path / "runs/languages/tiny/mix/seed0/run.json"
    other.parent.mkdir(parents=True)
    other.write_text(content)
    _, broken, whole = watch.look(tmp_path).splitlines()
    assert broken.split()[:2] == ["languages/tiny/mix/seed0", "unreadable"]
    assert str(other) in broken
    assert whole.split()[:3] == ["languages/tiny/pike/seed0", "stopped", "3/6"]
    with pytest.raises(InputError, match=str(other)):
        watch.look(other.parent)


def test_a_damaged_part_is_named(folder):
    path = folder / "parts" / "step3" / "steps.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=f"{path} is not whole"):
        watch.look(folder)


def test_what_goes_while_one_looks_is_left_out(folder, monkeypatch):
    read = pq.read_table

    def late(path):
        shutil.rmtree(folder / "parts", ignore_errors=True)
        return read(path)

    monkeypatch.setattr(pq, "read_table", late)
    assert watch.rows(folder, "steps") == []
    assert "seed0: stopped" in watch.look(folder)


def test_all_runs_of_a_folder_are_listed(finished, write_run):
    write_run(finished / "runs/languages/tiny/mix/seed0", training={"steps": 2000})
    lines = watch.look(finished).splitlines()
    assert lines[1].split() == ["languages/tiny/mix/seed0", "waiting", "0/2,000"]
    assert lines[2].split()[:3] == ["languages/tiny/pike/seed0", "finished", "6/6"]


def test_programs_get_the_numbers_of_all_runs_and_more_of_one(finished):
    runs = json.loads(watch.watch(finished, format="json"))
    (trained,) = [run for run in runs if run["run"] == "languages/tiny/pike/seed0"]
    assert (trained["state"], trained["step"], trained["steps"]) == ("finished", 6, 6)
    folder = finished / "runs/languages/tiny/pike/seed0"
    alone = json.loads(watch.watch(folder, format="json"))
    last = pq.read_table(folder / "weights.parquet").to_pylist()[-2:]
    assert [d["weight"] for d in alone["domains"]] == [row["weight"] for row in last]
    assert alone["loss"] == trained["loss"]
    assert "seconds_left" not in alone


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no run \(no run\.json\): give a run's folder"):
        watch.watch(tmp_path, once=True)


@pytest.mark.slow
def test_it_needs_no_torch_and_ends_without_a_terminal(finished):
    code = (
        "import sys; sys.modules['torch'] = None; from pipeline.__main__ import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "watch", finished],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "languages/tiny/pike/seed0" in done.stdout
