"""The last bit of trained weights: no change of the code moves it but one that means to.

    python tests/training/test_bits.py

writes the weights' SHA-256 anew, after a change that moves numbers on purpose (a line under
*Numbers* in CHANGELOG.md). Bits are those of a kind of processor and a version of torch: the table
has an entry for each that it was written on, and elsewhere the test is skipped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from faults import train_together

from pipeline.model import pipeline_passes
from pipeline.runtime import atomic_files, devices
from pipeline.training import train

pytestmark = pytest.mark.slow

TABLE = Path(__file__).with_name("bits.json")
WRITES = "PIKE_WRITE_BITS"
PIKE = {"zeta1": 0.5, "zeta2": 0.1, "every": 2, "rows": 3}
PARTS = {"rows": 11, "microbatch_rows": 4, "statistics_microbatch": 2, "rounding": "systematic"}
"""Passes that do not come out even."""
RUNS = {
    "mix": {},
    "pike": {"rule": "pike", "method": PIKE},
    "pike of the batch": {"rule": "pike", "method": {**PIKE, "batch": "training"}},
    "scale-free-pike": {"rule": "scale-free-pike", "method": {"every": 1, "rows": 4}},
    "famo": {"rule": "famo"},
    "gradnorm": {"rule": "gradnorm", "method": {"first": 1}},
    "pcgrad": {"rule": "pcgrad"},
    "nash-mtl": {"rule": "nash-mtl"},
    "adatask": {"rule": "adatask"},
    "bfloat16": {"rule": "pcgrad", "training": {"precision": "bfloat16"}},
    "deep": {"model": {"layers": 3}, "training": {"activation_checkpointing": True}},
}
SHAPES = ("pike of the batch", "famo", "pcgrad")
"""Runs whose passes have one shape, too, as a device that compiles wants them."""
PROCESSES = {"whole": (), "shards": ("--shard",)}


def kind():
    """The processor and torch, as far as bits are known to depend on them."""
    first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    facts = dict(map(str.strip, line.split(":", 1)) for line in first.splitlines() if ":" in line)
    names = ("model name", "cpu family", "model", "stepping")
    which = " ".join(facts.get(name, "") for name in names)
    return f"{which} {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def checked(name, folder):
    """Compares a run's weights with the table's, or writes them there."""
    found = atomic_files.read_json(folder / atomic_files.MANIFEST)["weights_sha256"]
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    if os.environ.get(WRITES):
        table.setdefault(kind(), {})[name] = found
        TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    elif kind() not in table:
        pytest.skip(f"bits of {kind()} are not known: python tests/training/test_bits.py")
    assert found == table.get(kind(), {}).get(name, found), "the weights have other bits"


def written(write_run, folder, name):
    changes = RUNS[name]
    return write_run(folder, **{**changes, "training": PARTS | changes.get("training", {})})


@pytest.mark.parametrize("name", RUNS)
def test_one_process(write_run, tmp_path, corpora, name):
    run = written(write_run, tmp_path, name)
    train.pretrain(run, corpora, device="cpu", threads=1)
    checked(name, tmp_path)


@pytest.mark.parametrize("name", SHAPES)
def test_passes_of_one_shape(write_run, tmp_path, corpora, monkeypatch, name):
    compiling = SimpleNamespace(**vars(devices) | {"is_xla": lambda device: True})
    monkeypatch.setattr(pipeline_passes, "devices", compiling)
    run = written(write_run, tmp_path, name)
    train.pretrain(run, corpora, device="cpu", threads=1)
    checked(f"{name}, one shape", tmp_path)


@pytest.mark.parametrize("how", PROCESSES)
def test_two_processes(write_run, tmp_path, corpora, how):
    run = written(write_run, tmp_path / "run", "pike of the batch")
    assert train_together(run, corpora, *PROCESSES[how]) == [0, 0]
    checked(f"two processes, {how}", run.parent)


if __name__ == "__main__":
    words = [sys.executable, "-m", "pytest", "-q", __file__]
    raise SystemExit(subprocess.run(words, env={**os.environ, WRITES: "1"}, check=False).returncode)
