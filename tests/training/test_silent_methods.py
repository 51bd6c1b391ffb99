"""Runs of methods that change nothing: their alarm is recorded."""

import pyarrow.parquet as pq
import pytest
from trained import manifest

from pipeline.training import train

STEPS = {"steps": 12, "checkpoint_every": 4, "resume_every": 2, "alarms": {"window": 5}}


def alarms(run):
    """Step and message of every `never-moved`."""
    rows = pq.read_table(run.parent / "alarms.parquet").to_pylist()
    return {row["step"]: row["message"] for row in rows if row["kind"] == "never-moved"}


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["largest-remainder", "systematic"])
def test_pike_that_moves_no_row_says_so_and_a_working_one_does_not(
    make_run, corpora, pike, rounding
):
    training = STEPS | {"rounding": rounding}
    working = make_run("working", training=training, **pike)
    small = pike["method"] | {"zeta1": 1e-6, "zeta2": 1e-6}
    silent = make_run("silent", training=training, **pike | {"method": small})
    mix = make_run("mix", training=training)
    for run in (working, silent, mix):
        train.pretrain(run, corpora, device="cpu", threads=1)
    assert alarms(working) == alarms(mix) == {}
    # Measured from step 0 on: the first window ends with step 4.
    told = alarms(silent)
    assert list(told) == [4, 11]
    assert "raise zeta1 and zeta2 by about" in told[11]
    assert "by what was measured zeta1 = " in told[4]
    if rounding == "largest-remainder":
        weights = {run: manifest(run)["weights_sha256"] for run in (working, silent, mix)}
        assert weights[silent] == weights[mix] != weights[working]
