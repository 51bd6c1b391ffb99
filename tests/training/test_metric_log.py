"""What a run writes down: as parts, as live rows, and as one table each at its end."""

import json
import math
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from pike_mixing.errors import InputError
from pipeline.training import live_log
from pipeline.training.metric_log import TABLES, Records

DOMAINS = ("en", "hi")
PACE = {"tokens_per_second": 3200.0, "model_flops_utilisation": math.nan, "memory_bytes": 2**20}
GAP = r"not hold all records up to step 6: delete .*checkpoints"


def add_step(records, step):
    numbers = {"learning_rate": 1e-3, "gradient_norm": 0.5, "seconds": 0.01}
    records.add("steps", step=step, tokens=(step + 1) * 32, loss=2.5 - step, **numbers, **PACE)
    records.add_domains("domain_losses", step, loss=np.array([1.5, math.nan]))
    records.add_domains("weights", step, weight=np.array([0.75, 0.25]), count=np.array([4, 0]))
    with records.timed("optimizer"):
        pass


def keep(records, step):
    records.write(step, records.drain(step))


def written(folder, until, *, since=0):
    """Records of the steps `since` to `until`, with a part every other step as the loop makes."""
    records = Records(folder, DOMAINS)
    if not since:
        keep(records, 0)
    for step in range(since, until):
        add_step(records, step)
        if step % 2:
            keep(records, step + 1)
    return records


def read(folder, table):
    return pq.read_table(folder / f"{table}.parquet").to_pylist()


def steps(folder):
    return [row["step"] for row in read(folder, "steps")]


def test_rows_are_recorded_as_they_were_and_nan_is_null(tmp_path):
    records = Records(tmp_path, DOMAINS)
    add_step(records, 1)
    values = ("squared_norm", "squared_norm_unbiased", "variance", "loss")
    norms = {
        name: np.array([float(n), math.nan]) for name, n in zip(values, (4, 3, 8, 2), strict=True)
    }
    records.add_domains(
        "gradient_statistics", 1, **norms, rows=np.array([8, 0]), seconds=np.full(2, 0.25)
    )
    records.add_domains("coefficients", 1, coefficient=np.array([1.25, math.nan]))
    records.add("alarms", step=1, kind="no-rows", domain="hi", message="lost")
    records.add("alarms", step=1, kind="effective-domains", domain=None, message="collapsed")
    with pytest.raises(AssertionError, match="alarms: "):
        records.add("alarms", step=1)
    keep(records, 0)
    # Joined at step 0, that is without a look at the steps.
    (tmp_path / "parts" / "step0").rename(tmp_path / "part")
    english, hindi = {"step": 1, "domain": "en"}, {"step": 1, "domain": "hi"}
    assert {n: read(tmp_path / "part", n) for n in TABLES if n not in ("steps", "timings")} == {
        "domain_losses": [english | {"loss": 1.5}, hindi | {"loss": None}],
        "weights": [english | {"weight": 0.75, "count": 4}, hindi | {"weight": 0.25, "count": 0}],
        "gradient_statistics": [
            english | dict(zip(values, (4, 3, 8, 2), strict=True)) | {"rows": 8, "seconds": 0.25},
            hindi | dict.fromkeys(values) | {"rows": 0, "seconds": 0.25},
        ],
        "coefficients": [english | {"coefficient": 1.25}, hindi | {"coefficient": None}],
        "alarms": [
            hindi | {"kind": "no-rows", "message": "lost"},
            {"step": 1, "kind": "effective-domains", "domain": None, "message": "collapsed"},
        ],
    }
    (step,) = read(tmp_path / "part", "steps")
    assert (step["tokens"], step["loss"], step["model_flops_utilisation"]) == (64, 1.5, None)


@pytest.mark.slow
def test_the_joined_files_hold_every_step_once_and_in_order(tmp_path):
    records = written(tmp_path, 22)
    before = [path.read_bytes() for path in records.finish(22)]
    assert steps(tmp_path) == list(range(22))
    assert [row["step"] for row in read(tmp_path, "weights")] == [n // 2 for n in range(44)]
    assert [path.read_bytes() for path in Records(tmp_path, DOMAINS).finish(22)] == before


@pytest.mark.slow
def test_what_lies_behind_the_checkpoint_is_dropped_and_made_again(tmp_path):
    written(tmp_path, 7)
    # Killed at step 7: parts up to 6 were written, but the last whole checkpoint is that of 4.
    Records(tmp_path, DOMAINS).drop_after(4)
    assert sorted(p.name for p in (tmp_path / "parts").iterdir()) == ["step0", "step2", "step4"]
    written(tmp_path, 8, since=4)
    # A part that is written twice counts once.
    written(tmp_path, 8, since=6).finish(8)
    assert steps(tmp_path) == list(range(8))
    Records(tmp_path, DOMAINS).clear()
    written(tmp_path, 2).finish(2)
    assert steps(tmp_path) == [0, 1]


@pytest.mark.parametrize("lost", ["step2", "step4", "step6", "."])
def test_lost_parts_are_missed(tmp_path, lost):
    records = written(tmp_path, 6)
    shutil.rmtree(tmp_path / "parts" / lost)
    with pytest.raises(InputError, match=GAP):
        records.finish(6)
    with pytest.raises(InputError, match=GAP):
        Records(tmp_path, DOMAINS).refuse_gaps(6)
    assert not (tmp_path / "steps.parquet").exists()


@pytest.mark.parametrize("name", ["steps", "weights"])
def test_a_part_that_is_cut_or_of_other_columns_is_refused(tmp_path, name):
    records = written(tmp_path, 6)
    path = tmp_path / "parts" / "step4" / f"{name}.parquet"
    whole = path.read_bytes()
    for spoiled in (whole[:-9], b"", (path.parent / "timings.parquet").read_bytes()):
        path.write_bytes(spoiled)
        with pytest.raises(InputError, match=rf"{name}\.parquet is not a whole table of {name}"):
            records.finish(6)


@pytest.mark.slow
def test_timings_add_up_over_parts_and_interruptions(tmp_path):
    written(tmp_path, 4)
    records = written(tmp_path, 8, since=4)
    # Behind the last part: that part's own checkpoint.
    records.clock.seconds["checkpoint"] = 3.0
    records.finish(8)
    checkpoint, optimizer = read(tmp_path, "timings")
    assert (checkpoint["phase"], checkpoint["seconds"]) == ("checkpoint", 3.0)
    assert checkpoint["share"] + optimizer["share"] == pytest.approx(1)
    parts = [pq.read_table(p / "timings.parquet") for p in (tmp_path / "parts").iterdir()]
    seconds = sum(sum(part["seconds"].to_pylist()) for part in parts)
    assert optimizer["seconds"] == pytest.approx(seconds)
    assert records.seconds() == pytest.approx(3 + seconds)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    """A full disk: test_going_on.py."""
    (tmp_path / "parts").touch()
    records = Records(tmp_path, DOMAINS)
    add_step(records, 0)
    with pytest.raises(InputError, match=r"parts.* a file is in the place of a folder"):
        keep(records, 1)


# Rows that no part holds yet.


def live(folder):
    """By the step of the part before, each row's table and step."""
    return {
        step: [(row["table"], row["step"]) for row in map(json.loads, path.open(encoding="utf-8"))]
        for step, path in live_log.places(folder).items()
    }


@pytest.mark.slow
def test_a_run_that_goes_on_drops_its_live_rows_and_a_finished_one_has_none(tmp_path):
    records, heard = written(tmp_path, 4), []
    records.listeners.append(lambda *row: heard.append(row))
    add_step(records, 4)
    records.stream.begin(4)
    tables = ["steps", *["domain_losses"] * 2, *["weights"] * 2]
    assert live(tmp_path) == {4: [(table, 4) for table in tables]}
    assert heard[1] == ("domain_losses", {"step": 4, "domain": "en", "loss": 1.5})
    # It goes on from the checkpoint of step 2.
    Records(tmp_path, DOMAINS).drop_after(2)
    assert live(tmp_path) == {}
    written(tmp_path, 6, since=2).finish(6)
    assert not (tmp_path / "live").exists()
