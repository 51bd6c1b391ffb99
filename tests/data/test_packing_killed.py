"""`pike pack` in a process of its own, under SIGKILL."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.data import tokenizer
from pipeline.runtime import atomic_files

ROOT = Path(__file__).parents[2]
BATCHES = 800


@pytest.fixture
def packing(tmp_path, monkeypatch, make_source):
    """A source of many batches, and what starts its packing with two workers into a folder."""
    monkeypatch.setattr("pipeline.data.documents.GROUP_BYTES", 8000)
    texts = [f"{number} " + "abcdefgh " * 900 for number in range(BATCHES)]
    source = make_source(tmp_path / "data" / "web", texts)
    values = {"kind": "train", "model": "char", "vocabulary": 40, "characters": 20_000}
    atomic_files.write_json(tmp_path / "t.json", {**values, "validation_share": 0.1})
    tokenizer.build(tmp_path / "t.json", [source], tmp_path / "letters.model")
    settings = {"validation_share": 0.1, "shard_tokens": 200_000}
    atomic_files.write_json(tmp_path / "p.json", settings)

    def start(name):
        places = ["--documents", source, "--tokenizer", tmp_path / "letters.model"]
        places += ["--out", tmp_path / name / "web"]
        command = [sys.executable, "-m", "pipeline", "pack", tmp_path / "p.json", *places]
        return subprocess.Popen(
            list(map(str, [*command, "--workers", 2])),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.DEVNULL,
        )

    return start


def state(partial):
    path = partial / atomic_files.WORK / "state.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"batches": 0, "splits": {}}


def await_batches(child, partial, number):
    while state(partial)["batches"] < number:
        assert child.poll() is None, "it ended before it could be killed"
        time.sleep(0.001)


def finished(partial):
    """Inode and time of writing of every shard that the last state calls finished."""
    found = {}
    for split in state(partial)["splits"].values():
        for shard in split["shards"]["shards"]:
            told = (partial / shard["file"]).stat()
            found[shard["file"]] = (told.st_ino, told.st_mtime_ns)
    return found


@pytest.mark.slow
def test_a_killed_packing_redoes_no_finished_shard(packing, tmp_path):
    assert packing("whole").wait() == 0
    partial, kept = tmp_path / "killed" / ".web.part", {}
    for number in (100, 300, 600):
        child = packing("killed")
        await_batches(child, partial, number)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        assert not (tmp_path / "killed" / "web").exists()
        now = finished(partial)
        assert kept.items() <= now.items()
        assert len(now) > len(kept)
        kept = now
    assert packing("killed").wait() == 0
    out = tmp_path / "killed" / "web"
    for name, told in kept.items():
        again = (out / name).stat()
        assert (again.st_ino, again.st_mtime_ns) == told
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole" / "web").iterdir()}
    assert {path.name: path.read_bytes() for path in out.iterdir()} == whole
