"""The jobs of an experiment, what they wait for, and the bill."""

from pathlib import Path

import pytest
import yaml

from pike_mixing.errors import InputError
from pipeline.planning import cost, jobs, planner
from pipeline.runtime import accelerators

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = [ROOT / "config.yaml", *sorted(ROOT.glob("workflow/configs/*.yaml"))]


def planned(path=ROOT / "config.yaml"):
    return jobs.Jobs(planner.plan(planner.read(path), path.name), accelerators.accelerator("cpu"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_job_waits_for_jobs_of_the_plan(path):
    work = planned(path)
    every = set(work.every())
    for key in every:
        assert set(work.job(*key).after) <= every, key


def test_every_run_of_the_paper_fits_the_gpu_that_profiles_name():
    path = ROOT / "workflow/configs/paper.yaml"
    profile = yaml.safe_load((ROOT / "workflow/profiles/gpu/config.yaml").read_text())
    device = accelerators.accelerator(profile["set-resources"]["pretrain"]["accelerator"])
    work = jobs.Jobs(planner.plan(planner.read(path), path.name), device)
    taken = {run: work.job("pretrain", run).taken for run in work.plan.runs}
    assert len(taken) == 87
    assert [run for run, each in taken.items() if not each.fits or each.devices > 1] == []


def test_memory_grows_for_two_more_tries_and_not_with_every_slice_of_a_time_limit():
    job = jobs.Job("pretrain", seconds=1.0, host_bytes=1_500_000_001, disk_bytes=0)
    assert [job.memory_mb(n) for n in (1, 2, 3, 4, 24)] == [1501, 3002, 4503, 4503, 4503]


def test_the_longest_chain_leads_from_text_to_the_report():
    work = planned()
    seconds, chain = work.waits(("report", ""))
    assert chain[0][0] == "download"
    assert chain[-1] == ("report", "")
    assert ("database", "") in chain
    assert seconds == pytest.approx(sum(work.job(*key).seconds for key in chain))


def test_the_bill_counts_jobs_and_prices_hours():
    text = cost.plan(ROOT / "config.yaml", devices=["h100"], prices=["h100=2.5"])
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert lines["pretrain"][1] == str(len(planned().plan.runs))
    assert "GPU-hours" in text
    assert "at 2.5 each" in text
    assert "critical path:" in text


def test_a_rule_of_ones_own_is_named_in_the_bill(config, tmp_path):
    values = config()
    values["methods"]["random"] = {"rule": "pike_mixing.rules.one_random:Random"}
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(values))
    text = cost.plan(path, devices=["cpu"])
    assert "\nrule pike_mixing.rules.one_random:Random: a plan imports none but ours: its" in text


def test_a_tokenizer_file_that_is_not_here_is_assumed_and_said(tmp_path):
    config = planner.read(ROOT / "config.yaml")
    config["results"] = "nowhere"
    config["tokenizers"]["stdlib"] = {"kind": "file", "path": str(tmp_path / "none.model")}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    text = cost.plan(path, devices=["cpu"])
    assert "tokenizer stdlib: its file is not here: 256,000 pieces are assumed" in text


@pytest.mark.parametrize(
    "price", ["h100", "h100=cheap", "h1oo=2", "h100=-1", "h100=nan", "h100=inf", "h100=", "cpu=1"]
)
def test_a_price_that_cannot_be_read_is_refused(price):
    with pytest.raises(InputError, match="--prices"):
        cost.plan(ROOT / "config.yaml", devices=["h100"], prices=[price])


def test_two_prices_of_one_device_and_a_device_that_there_is_not_are_refused():
    with pytest.raises(InputError, match="--prices: h100 has two prices"):
        cost.plan(ROOT / "config.yaml", devices=["h100"], prices=["h100=1", "h100=2"])
    with pytest.raises(InputError, match=r"--devices: 'h1oo' is unknown: did you mean 'h100'\?"):
        cost.plan(ROOT / "config.yaml", devices=["cpu", "h1oo"])


def test_pieces_are_counted_in_a_tokenizer_file(tmp_path):
    # Field 1 (pieces) twice, field 2 (the trainer's settings) once with 300 bytes, a number.
    path = tmp_path / "a.model"
    path.write_bytes(b"\x0a\x02ab\x12\xac\x02" + bytes(300) + b"\x18\x05\x0a\x00")
    assert jobs.pieces(path) == 2
