"""`make gpu-check`: what of it needs no GPU."""

import json
import sys

import pytest
import torch
from repository import run

from benchmarks import gpu_check, page


def check(*arguments):
    return run(sys.executable, "-m", "benchmarks.gpu_check", *arguments, timeout=900)


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_refuses_at_once(tmp_path):
    done = check("--out", str(tmp_path / "gpu.json"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "sees no NVIDIA GPU: run it on a machine where nvidia-smi shows one" in done.stderr
    assert not (tmp_path / "gpu.json").exists()


@pytest.mark.workflow
def test_on_a_cpu_every_step_is_taken_in_turn_and_recorded(tmp_path):
    small = ("--sizes", "nano", "--steps", "1", "--side", "64", "--eager")
    target = str(gpu_check.FOLDER / "results/runs/symbols/nano/mix/seed220/manifest.json")
    out = tmp_path / "gpu.json"
    done = check("--device", "cpu", "--target", target, "--out", str(out), *small)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(out.read_text(encoding="utf-8"))
    names = ["tests", "utilisation", "experiment"]
    assert [name for name, facts in record["check"].items() if facts["holds"]] == names
    said = [line for line in done.stdout.splitlines() if line.startswith("gpu-check: ")]
    assert said == [*(f"gpu-check: {name}" for name in names), f"gpu-check: {out}: ok"]
    assert record["steps"]["nano"]["utilisation"] > 0
    assert "cpu: " in page.where(record)
    text = page.page(tmp_path)
    assert "| trainings of `make quick` | 1 |  |  |" in text
    # One part alone leaves what the others found.
    assert check("--device", "cpu", "--parts", "tests", "--out", str(out)).returncode == 0
    again = json.loads(out.read_text(encoding="utf-8"))
    assert again["steps"] == record["steps"]
    assert again["check"]["experiment"] == record["check"]["experiment"]
    assert again["check"]["tests"] != record["check"]["tests"]
