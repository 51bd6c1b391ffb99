"""The table of what a run's time went to."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.__main__ import main
from pipeline.runtime import atomic_files
from pipeline.training import step_log


def written(folder, phases, seconds, firing):
    for name, table in {
        "timings": {"phase": list(phases), "seconds": list(phases.values())},
        "steps": {"step": list(range(len(seconds))), "seconds": seconds},
        "gradient_statistics": {"step": firing},
    }.items():
        pq.write_table(pa.table(table), folder / f"{name}.parquet")


def test_phases_stand_in_a_steps_order_with_their_share(tmp_path):
    seconds = [14.0, 0.1, 0.2, 0.1, 0.1]
    written(tmp_path, {"backward": 6.0, "forward": 3.0, "optimizer": 1.0}, seconds, [])
    head, *phases, whole, first = step_log.phase_time_table(tmp_path).splitlines()
    assert head.split() == ["phase", "ms", "a", "step", "share"]
    assert [line.split()[:3] for line in phases] == [
        ["forward", "600.000", "30.00%"],
        ["backward", "1200.000", "60.00%"],
        ["optimizer", "200.000", "10.00%"],
    ]
    assert whole.split()[:5] == ["all", "2000.000", "100.00%", "5", "steps"]
    assert first == (
        "the first step, which compiles what is compiled, took 14.000 s; of the others the median "
        "0.100 s"
    )


def test_firing_steps_are_compared_with_the_others(tmp_path):
    # Steps 0 and 3 fire: 3 seconds against 2, so 2 of 14 seconds more.
    written(tmp_path, {"loop": 14.0}, [3.0, 2.0, 2.0, 3.0, 2.0, 2.0], [0, 0, 3, 3])
    last = step_log.phase_time_table(tmp_path).splitlines()[-1]
    assert last == (
        "2 steps with gradient statistics took 1.50 times a step without (medians), "
        "14.29% of all time"
    )


@pytest.mark.slow
def test_a_run_shows_what_its_time_went_to(make_run, corpora, pike, capsys):
    run = make_run(rule="pike", method={**pike["method"], "batch": "training"})
    assert main(["pretrain", str(run), "--corpora", str(corpora), "--device=cpu", "--profile"]) == 0
    shown = capsys.readouterr().out
    phases = re.findall(r"^([a-z]+) .*%", shown, flags=re.MULTILINE)
    assert phases == [*(p for p in step_log.MEANINGS if p != "validation"), "all"]
    assert "3 steps with gradient statistics took" in shown
    assert (run.parent / atomic_files.MANIFEST).exists()
