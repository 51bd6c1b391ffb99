import json
import math
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from pike_mixing.errors import InputError
from pike_mixing.interface import Statistics
from pipeline.training import live_log
from pipeline.training.metric_log import TABLES, Records

DOMAINS = ("en", "hi")


def add_step(records, step):
    records.add(
        "steps", step, (step + 1) * 32, 2.5 - step, 1e-3, 0.5, 0.01, 3200.0, math.nan, 2**20
    )
    loss_K = np.array([1.5, math.nan], dtype=np.float64)
    weights_K = np.array([0.75, 0.25], dtype=np.float64)
    records.add_mixture(step, DOMAINS, loss_K, weights_K, np.array([4, 0]))
    with records.timed("optimizer"):
        pass


def written(folder, until, *, every=2, since=0):
    """Records of the steps `since` to `until`, with a part every other step as the loop makes."""
    records = Records(folder)
    if not since:
        records.write(records.drain(0))
    for step in range(since, until):
        add_step(records, step)
        if (step + 1) % every == 0:
            records.write(records.drain(step + 1))
    return records


def read(folder, table):
    return pq.read_table(folder / f"{table}.parquet").to_pylist()


def test_every_table_has_the_columns_that_others_rely_on(tmp_path):
    paths = written(tmp_path, 4).finish(4)
    assert [path.name for path in paths] == [f"{name}.parquet" for name in TABLES]
    columns = {name: pq.read_schema(tmp_path / f"{name}.parquet").names for name in TABLES}
    assert columns == {
        "steps": [
            *("step", "tokens", "loss", "learning_rate", "gradient_norm", "seconds"),
            *("tokens_per_second", "model_flops_utilisation", "memory_bytes"),
        ],
        "domain_losses": ["step", "domain", "loss"],
        "weights": ["step", "domain", "weight", "count"],
        "gradient_statistics": [
            "step",
            "domain",
            "squared_norm",
            "squared_norm_unbiased",
            "variance",
            "loss",
            "rows",
            "seconds",
        ],
        "coefficients": ["step", "domain", "coefficient"],
        "alarms": ["step", "kind", "domain", "message"],
        "timings": ["phase", "seconds", "share"],
    }


def test_a_step_is_recorded_as_it_was(tmp_path):
    written(tmp_path, 2).finish(2)
    assert read(tmp_path, "steps")[1] == {
        "step": 1,
        "tokens": 64,
        "loss": 1.5,
        "learning_rate": 1e-3,
        "gradient_norm": 0.5,
        "seconds": 0.01,
        "tokens_per_second": 3200.0,
        "model_flops_utilisation": None,
        "memory_bytes": 2**20,
    }
    assert read(tmp_path, "weights")[:2] == [
        {"step": 0, "domain": "en", "weight": 0.75, "count": 4},
        {"step": 0, "domain": "hi", "weight": 0.25, "count": 0},
    ]


def test_a_domain_that_was_absent_has_no_loss(tmp_path):
    written(tmp_path, 2).finish(2)
    assert read(tmp_path, "domain_losses")[:2] == [
        {"step": 0, "domain": "en", "loss": 1.5},
        {"step": 0, "domain": "hi", "loss": None},
    ]


def test_statistics_are_recorded_by_domain(tmp_path):
    records = Records(tmp_path)
    vectors = [np.array([1.0 * n, math.nan], dtype=np.float64) for n in (4, 3, 8, 2)]
    rows_K = np.array([8.0, 0.0], dtype=np.float64)
    records.add_statistics(6, DOMAINS, Statistics(*vectors, rows_K), 0.25)
    records.write(records.drain(0))
    records.finish(0)
    english, hindi = read(tmp_path, "gradient_statistics")
    assert english == {
        "step": 6,
        "domain": "en",
        "squared_norm": 4.0,
        "squared_norm_unbiased": 3.0,
        "variance": 8.0,
        "loss": 2.0,
        "rows": 8,
        "seconds": 0.25,
    }
    assert hindi["rows"] == 0
    assert hindi["variance"] is None


def test_coefficients_are_recorded_by_domain(tmp_path):
    records = Records(tmp_path)
    records.add_coefficients(3, DOMAINS, np.array([1.25, math.nan], dtype=np.float64))
    records.write(records.drain(0))
    records.finish(0)
    assert read(tmp_path, "coefficients") == [
        {"step": 3, "domain": "en", "coefficient": 1.25},
        {"step": 3, "domain": "hi", "coefficient": None},
    ]


def test_alarms_are_recorded_with_their_domain_if_they_have_one(tmp_path):
    records = Records(tmp_path)
    records.add_alarms([(9, "no-rows", "hi", "lost"), (9, "effective-domains", None, "collapsed")])
    records.write(records.drain(0))
    records.finish(0)
    assert read(tmp_path, "alarms") == [
        {"step": 9, "kind": "no-rows", "domain": "hi", "message": "lost"},
        {"step": 9, "kind": "effective-domains", "domain": None, "message": "collapsed"},
    ]


@pytest.mark.slow
def test_the_joined_files_hold_every_step_once_and_in_order(tmp_path):
    written(tmp_path, 22).finish(22)
    assert [row["step"] for row in read(tmp_path, "steps")] == list(range(22))
    assert [row["step"] for row in read(tmp_path, "weights")] == [n // 2 for n in range(44)]


@pytest.mark.slow
def test_what_lies_behind_the_checkpoint_is_dropped_and_made_again(tmp_path):
    written(tmp_path, 7)
    # Killed at step 7: parts up to 6 were written, but the last whole checkpoint is that of 4.
    records = Records(tmp_path)
    records.drop_after(4)
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == [
        "step0",
        "step2",
        "step4",
    ]
    written(tmp_path, 8, since=4).finish(8)
    assert [row["step"] for row in read(tmp_path, "steps")] == list(range(8))


@pytest.mark.slow
def test_a_part_written_twice_counts_once(tmp_path):
    written(tmp_path, 4)
    records = Records(tmp_path)
    records.drop_after(2)
    written(tmp_path, 4, since=2)
    written(tmp_path, 4, since=2).finish(4)
    assert [row["step"] for row in read(tmp_path, "steps")] == [0, 1, 2, 3]


@pytest.mark.slow
def test_finishing_twice_gives_the_same_files(tmp_path):
    records = written(tmp_path, 4)
    before = [path.read_bytes() for path in records.finish(4)]
    assert [path.read_bytes() for path in Records(tmp_path).finish(4)] == before


def test_a_run_whose_records_are_lost_is_not_gone_on_with(tmp_path):
    written(tmp_path, 4)
    with pytest.raises(
        InputError, match=r"not hold all records up to step 6: delete .*checkpoints"
    ):
        Records(tmp_path).refuse_gaps(6)
    Records(tmp_path).clear()
    with pytest.raises(InputError, match="not hold all records up to step 4"):
        Records(tmp_path).refuse_gaps(4)


@pytest.mark.parametrize("lost", ["step2", "step4", "step6"])
def test_a_single_lost_part_is_missed(tmp_path, lost):
    records = written(tmp_path, 6)
    shutil.rmtree(tmp_path / "parts" / lost)
    with pytest.raises(
        InputError, match=r"not hold all records up to step 6: delete .*checkpoints"
    ):
        records.finish(6)
    with pytest.raises(InputError, match="not hold all records up to step 6"):
        Records(tmp_path).refuse_gaps(6)
    assert not (tmp_path / "steps.parquet").exists()


@pytest.mark.slow
def test_beginning_anew_forgets_all_parts(tmp_path):
    written(tmp_path, 4)
    Records(tmp_path).clear()
    written(tmp_path, 2).finish(2)
    assert [row["step"] for row in read(tmp_path, "steps")] == [0, 1]


@pytest.mark.slow
def test_rows_that_no_part_holds_can_be_read_meanwhile(tmp_path):
    records = written(tmp_path, 4)
    add_step(records, 4)
    records.stream.begin(4)
    assert list(live_log.places(tmp_path)) == [4]
    lines = live_log.places(tmp_path)[4].read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["table"] for line in lines] == [
        *("steps", "domain_losses", "weights", "domain_losses", "weights")
    ]
    # A run that goes on from the checkpoint of step 2 repeats them.
    Records(tmp_path).drop_after(2)
    assert live_log.places(tmp_path) == {}
    written(tmp_path, 6, since=2).finish(6)
    assert not (tmp_path / "live").exists()


def test_listeners_hear_every_row_by_its_columns(tmp_path):
    heard = []

    class Ear:
        def add(self, table, row):
            heard.append((table, row))

    records = Records(tmp_path)
    records.listeners.append(Ear())
    add_step(records, 0)
    assert heard[1] == ("domain_losses", {"step": 0, "domain": "en", "loss": 1.5})
    assert heard[3] == ("domain_losses", {"step": 0, "domain": "hi", "loss": None})


@pytest.mark.slow
def test_timings_add_up_over_parts_and_interruptions(tmp_path):
    written(tmp_path, 4)
    records = written(tmp_path, 8, since=4)
    records.finish(8)
    (phase,) = read(tmp_path, "timings")
    assert phase["phase"] == "optimizer"
    assert phase["share"] == 1.0
    parts = [pq.read_table(p / "timings.parquet") for p in (tmp_path / "parts").iterdir()]
    seconds = sum(sum(part["seconds"].to_pylist()) for part in parts)
    assert phase["seconds"] == pytest.approx(seconds)
    assert records.seconds() == pytest.approx(seconds)


def test_what_was_timed_behind_the_last_part_counts(tmp_path):
    records = written(tmp_path, 2)
    records.clock.seconds["checkpoint"] = 3.0
    records.finish(2)
    assert read(tmp_path, "timings")[0]["phase"] == "checkpoint"
    assert read(tmp_path, "timings")[0]["seconds"] == 3.0
    assert records.seconds() > 3.0


def test_shares_of_several_phases_sum_to_one(tmp_path):
    records = Records(tmp_path)
    for phase in ("data", "optimizer", "data"):
        with records.timed(phase):
            sum(range(1000))
    records.write(records.drain(0))
    records.finish(0)
    timings = read(tmp_path, "timings")
    assert [row["phase"] for row in timings] == ["data", "optimizer"]
    assert sum(row["share"] for row in timings) == pytest.approx(1)


def test_a_folder_that_cannot_be_written_is_named_with_a_way_out(tmp_path):
    (tmp_path / "parts").touch()
    records = Records(tmp_path)
    add_step(records, 0)
    with pytest.raises(InputError, match=r"parts.* a file is in the place of a folder"):
        records.write(records.drain(1))


def test_a_full_disk_is_named_with_a_way_out(small_disk):
    disk = small_disk(16)
    (disk / "filler").write_bytes(b"0" * 12288)
    records = Records(disk)
    add_step(records, 0)
    with pytest.raises(InputError, match=r"No space left on device.*free some space"):
        records.write(records.drain(1))
    assert list((disk / "parts").iterdir()) == []


@pytest.mark.parametrize("name", ["steps", "weights"])
def test_a_part_that_is_cut_or_of_other_columns_is_refused(tmp_path, name):
    records = written(tmp_path, 6)
    path = tmp_path / "parts" / "step4" / f"{name}.parquet"
    whole = path.read_bytes()
    for spoiled in (whole[:-9], b"", (path.parent / "timings.parquet").read_bytes()):
        path.write_bytes(spoiled)
        with pytest.raises(InputError, match=rf"{name}\.parquet is not a whole table of {name}"):
            records.finish(6)
