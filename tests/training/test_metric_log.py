"""What a run writes down: a row at a time in its log, and as one table each at its end."""

import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from pike_mixing.errors import InputError
from pipeline.training import metric_log
from pipeline.training.metric_log import LOG, TABLES, RunRecords, read_log_file_rows

DOMAINS = ("en", "hi")
PACE = {"tokens_per_second": 3200.0, "model_flops_utilisation": math.nan, "memory_bytes": 2**20}
GAP = r"not hold all records up to step 6: delete .*checkpoints"


def add_step(records, step):
    numbers = {"learning_rate": 1e-3, "gradient_norm": 0.5, "seconds": 0.01}
    records.add_row("steps", step=step, tokens=(step + 1) * 32, loss=2.5 - step, **numbers, **PACE)
    records.add_row_per_domain("domain_losses", step, loss=np.array([1.5, math.nan]))
    records.add_row_per_domain(
        "weights", step, weight=np.array([0.75, 0.25]), count=np.array([4, 0])
    )
    with records.timed("optimizer"):
        pass


def written(folder, until, *, since=0):
    """Records of the steps `since` to `until`, with a mark every other step as the loop makes."""
    records = RunRecords(folder, DOMAINS)
    if not since:
        records.mark_before_checkpoint(0)
    for step in range(since, until):
        add_step(records, step)
        if step % 2:
            records.mark_before_checkpoint(step + 1)
    return records


def read(folder, table):
    return pq.read_table(folder / f"{table}.parquet").to_pylist()


def steps(folder):
    return [row["step"] for row in read(folder, "steps")]


def test_rows_are_recorded_as_they_were_and_nan_is_null(tmp_path):
    records = RunRecords(tmp_path, DOMAINS)
    add_step(records, 0)
    values = ("squared_norm", "squared_norm_unbiased", "variance", "loss")
    norms = {
        name: np.array([float(n), math.nan]) for name, n in zip(values, (4, 3, 8, 2), strict=True)
    }
    records.add_row_per_domain(
        "gradient_statistics", 0, **norms, rows=np.array([8, 0]), seconds=np.full(2, 0.25)
    )
    records.add_row_per_domain("coefficients", 0, coefficient=np.array([1.25, math.nan]))
    records.add_row("alarms", step=0, kind="no-rows", domain="hi", message="lost")
    records.add_row("alarms", step=0, kind="effective-domains", domain=None, message="collapsed")
    with pytest.raises(AssertionError, match="alarms: "):
        records.add_row("alarms", step=1)
    records.mark_before_checkpoint(1)
    records.write_tables(1)
    english, hindi = {"step": 0, "domain": "en"}, {"step": 0, "domain": "hi"}
    assert {n: read(tmp_path, n) for n in TABLES if n not in ("steps", "timings")} == {
        "domain_losses": [english | {"loss": 1.5}, hindi | {"loss": None}],
        "weights": [english | {"weight": 0.75, "count": 4}, hindi | {"weight": 0.25, "count": 0}],
        "gradient_statistics": [
            english | dict(zip(values, (4, 3, 8, 2), strict=True)) | {"rows": 8, "seconds": 0.25},
            hindi | dict.fromkeys(values) | {"rows": 0, "seconds": 0.25},
        ],
        "coefficients": [english | {"coefficient": 1.25}, hindi | {"coefficient": None}],
        "alarms": [
            hindi | {"kind": "no-rows", "message": "lost"},
            {"step": 0, "kind": "effective-domains", "domain": None, "message": "collapsed"},
        ],
    }
    (step,) = read(tmp_path, "steps")
    assert (step["tokens"], step["loss"], step["model_flops_utilisation"]) == (32, 2.5, None)


@pytest.mark.slow
def test_what_lies_behind_the_checkpoint_is_dropped_and_made_again(tmp_path):
    written(tmp_path, 7)
    # Killed at step 7 in the midst of a line; the last whole checkpoint is that of 4.
    with (tmp_path / LOG).open("a") as log:
        log.write('{"table": "ste')
    RunRecords(tmp_path, DOMAINS).cut_after_checkpoint(4)
    assert [row["step"] for row in read_log_file_rows(tmp_path, ["steps"])["steps"]] == [0, 1, 2, 3]
    joined = [path.read_bytes() for path in written(tmp_path, 8, since=4).write_tables(8)]
    assert steps(tmp_path) == list(range(8))
    assert [row["step"] for row in read(tmp_path, "weights")] == [n // 2 for n in range(16)]
    assert [path.read_bytes() for path in RunRecords(tmp_path, DOMAINS).write_tables(8)] == joined
    RunRecords(tmp_path, DOMAINS).begin_log_anew()
    written(tmp_path, 2).write_tables(2)
    assert steps(tmp_path) == [0, 1]


def without(*lost):
    return lambda lines: [one for n, one in enumerate(lines) if n not in lost]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda _: None, GAP),
        (lambda lines: lines[:-1], GAP),
        (without(1), GAP),
        (lambda lines: [*lines[:3], lines[3][:-9], *lines[4:]], r"log\.jsonl:4 is no row"),
        (lambda lines: [*lines[:3], b"3\n", *lines[4:]], r"log\.jsonl:4 is no row"),
        (lambda lines: [lines[1].replace(b"loss", b"lost")], r"log\.jsonl:1 is no row.*columns"),
        (lambda lines: [lines[1].replace(b"2.5", b'"x"')], r"log\.jsonl:1 is no row"),
    ],
)
def test_lost_and_damaged_rows_are_missed(tmp_path, damage, says):
    records = written(tmp_path, 6)
    path = tmp_path / LOG
    lines = damage(path.read_bytes().splitlines(keepends=True))
    path.unlink()
    if lines is not None:
        path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=says):
        records.write_tables(6)
    with pytest.raises(InputError, match=says):
        RunRecords(tmp_path, DOMAINS).refuse_missing_steps(6)
    assert not (tmp_path / "steps.parquet").exists()


@pytest.mark.slow
def test_timings_add_up_over_checkpoints_and_interruptions(tmp_path):
    written(tmp_path, 4)
    records = written(tmp_path, 8, since=4)
    # Behind the last mark: that checkpoint.
    records.clock.seconds["checkpoint"] = 3.0
    records.write_tables(8)
    checkpoint, optimizer = read(tmp_path, "timings")
    assert (checkpoint["phase"], checkpoint["seconds"]) == ("checkpoint", 3.0)
    assert checkpoint["share"] + optimizer["share"] == pytest.approx(1)
    seconds = sum(row["seconds"] for row in read_log_file_rows(tmp_path, ["timings"])["timings"])
    assert optimizer["seconds"] == pytest.approx(seconds)
    assert records.wall_seconds_in_tables() == pytest.approx(3 + seconds)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    """A full disk: test_going_on.py."""
    (tmp_path / LOG).mkdir()
    records = RunRecords(tmp_path, DOMAINS)
    add_step(records, 0)
    with pytest.raises(InputError, match=r"log\.jsonl.* a folder is in the place of a file"):
        records.mark_before_checkpoint(1)


def test_rows_are_written_once_a_second_by_one_process(tmp_path, monkeypatch):
    records = RunRecords(tmp_path, DOMAINS)
    add_step(records, 0)
    records.write_if_due()
    assert read_log_file_rows(tmp_path, ["steps"]) == {"steps": []}
    monkeypatch.setattr(metric_log, "SECONDS", 0.0)
    records.write_if_due()
    english, _ = read_log_file_rows(tmp_path, ["domain_losses"])["domain_losses"]
    assert english == {"step": 0, "domain": "en", "loss": 1.5}
    silent = RunRecords(tmp_path / "other", DOMAINS, writes=False)
    add_step(silent, 0)
    silent.mark_before_checkpoint(1)
    assert not (tmp_path / "other").exists()
