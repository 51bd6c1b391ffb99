"""`make gpu-check`: what of it needs no GPU."""

import json
import subprocess
import sys

import pytest
import torch
from repository import run

from benchmarks import gpu_check, gpu_utilisation, performance_page, records


def check(*arguments):
    return run(sys.executable, "-m", "benchmarks.gpu_check", *arguments, timeout=900)


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_refuses_at_once(tmp_path):
    done = check("--out", str(tmp_path / "gpu_utilisation.json"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "sees no NVIDIA GPU: run it on a machine where nvidia-smi shows one" in done.stderr
    assert not (tmp_path / "gpu_utilisation.json").exists()


def test_every_part_is_taken_in_turn_and_recorded(tmp_path, monkeypatch, capsys):
    """With stand-ins of the tests and the workflow, whose commands are tried elsewhere."""

    def ran(module, *words, **_):
        if module == "snakemake":
            run_folder = tmp_path / gpu_check.FOLDER / "results/runs/symbols/nano/mix/seed0"
            run_folder.mkdir(parents=True)
            (run_folder / "manifest.json").write_text('{"device": "cpu: x"}', encoding="utf-8")
        if module == "benchmarks.gpu_utilisation":
            with monkeypatch.context() as patched:
                patched.chdir(tmp_path)
                patched.setattr("sys.argv", [module, *map(str, words)])
                gpu_utilisation.main()
        return subprocess.CompletedProcess(words, 0, stdout=f"{next(passed)} passed, 1 skipped")

    def checked(*words):
        monkeypatch.setattr("sys.argv", ["gpu_check", "--device", "cpu", "--out", str(out), *words])
        with pytest.raises(SystemExit) as ended:
            gpu_check.main()
        assert ended.value.code == 0
        return json.loads(out.read_text(encoding="utf-8"))

    out, passed = tmp_path / "gpu_utilisation.json", iter(range(1, 9))
    monkeypatch.setattr(records, "ROOT", tmp_path)
    monkeypatch.setattr(gpu_check, "ran", ran)
    record = checked("--sizes", "nano", "--steps", "1", "--side", "64", "--eager")
    names = ["tests", "utilisation", "experiment"]
    assert [name for name, facts in record["check"].items() if facts["holds"]] == names
    assert (record["check"]["tests"]["passed"], record["check"]["experiment"]["trainings"]) == (
        1,
        1,
    )
    assert record["steps"]["nano"]["utilisation"] > 0
    said = [line for line in capsys.readouterr().out.splitlines() if line[:11] == "gpu-check: "]
    assert said == [*(f"gpu-check: {name}" for name in names), f"gpu-check: {out}: ok"]
    assert "cpu: " in performance_page.where(record)
    assert "| trainings of `make quick` | 1 |  |  |" in performance_page.page(tmp_path)
    # One part alone leaves what the others found.
    again = checked("--parts", "tests")
    assert again["steps"] == record["steps"]
    assert again["check"]["experiment"] == record["check"]["experiment"]
    assert again["check"]["tests"]["passed"] > 1
