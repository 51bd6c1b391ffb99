"""Faults on purpose: what becomes of a training that is killed, cut off, doubled or robbed.

    python -m benchmarks.drill                  all parts; writes docs/drill.md and its record
    python -m benchmarks.drill trainings        one part anew: trainings (a minute), workflow, slurm

Every drill begins the same tiny run anew, does one thing to it, starts it again with the same
command until it is done, and compares all that is left with a run to which nothing happened: the
bits of every kept checkpoint and every row of every record, but for what the clock says. The
processes are real and so are the signals; they are forked from one that has loaded torch, so that
a drill takes a second. Drills with Snakemake and Slurm are tests (tests/workflow), which tell what
they did; what is in benchmarks/results/drill.json is what the page shows.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # An optimizer asks for it at its first step; here it is loaded once.

from benchmarks import faults, faults_of_two, machine
from pipeline.data import packing, sources, tokenizer
from pipeline.planning import stages
from pipeline.runtime import atomic_files
from pipeline.training import train

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "drill.md"
RECORD = ROOT / "benchmarks" / "results" / "drill.json"
PARTS = {
    "trainings": "Each line is a training of its own, to which one thing was done and which was "
    "then started again with the same command.",
    "workflow": "The same with the workflow on one machine: tests of `tests/workflow/`, which fail "
    "unless the results have the same bits.",
    "slurm": "The same with the workflow on a real Slurm of one node: tests, too.",
}
"""What is drilled, by name, and what the page says of it."""
TESTS = {
    "workflow": ("test_interruption", "test_two_at_once", "test_faults"),
    "slurm": ("test_slurm_faults",),
}
LANGUAGE = {"symbols": 12, "documents": 60, "length": 80, "kind": "synthetic", "order": 1}
DOMAINS = {
    "easy": {**LANGUAGE, "successors": 2, "noise": 0.0, "alphabet": 0x4E00, "seed": 1},
    "hard": {**LANGUAGE, "successors": 6, "noise": 0.2, "alphabet": 0x5000, "seed": 2},
}
RUN = {
    "scenario": "languages",
    "model_name": "tiny",
    "method_name": "pike",
    "seed": 0,
    "domains": ["easy", "hard"],
    "tokenizer": "symbols",
    "model": {"layers": 1, "width": 16, "heads": 2, "head_width": 8, "vocabulary_multiple": 8},
    "training": {
        "rows": 8,
        "length": 16,
        "steps": 30,
        "warmup_steps": 3,
        "peak_learning_rate": 1e-2,
        "initial_learning_rate": 1e-3,
        "final_learning_rate": 1e-3,
        "checkpoint_every": 10,
        "resume_every": 3,
    },
    "rule": "pike",
    "method": {"zeta1": 0.5, "zeta2": 0.1, "every": 7, "first": 0, "rows": 3},
}


def prepared(root: Path) -> Path:
    """Corpora of the domains."""
    for name, values in DOMAINS.items():
        atomic_files.write_json(root / f"{name}.json", values)
        sources.download(root / f"{name}.json", root / name)
    wanted = {"kind": "train", "model": "char", "vocabulary": 64, "characters": 4000}
    atomic_files.write_json(root / "symbols-settings.json", {**wanted, "validation_share": 0.2})
    model = root / "symbols.model"
    tokenizer.build(root / "symbols-settings.json", [root / name for name in DOMAINS], model)
    atomic_files.write_json(root / "packing.json", {"validation_share": 0.2})
    for name in DOMAINS:
        packing.pack(root / "packing.json", root / name, model, root / "corpora" / name)
    return root / "corpora"


def one(root: Path, name: str, processes: int = 1) -> faults.Training:
    """A run that has not begun."""
    folder = root / name
    folder.mkdir()
    atomic_files.write_json(folder / "run.json", RUN)
    return faults.Training(folder, root / "corpora", processes=processes)


Row = tuple[str, str, str]
"""Kind, what happened, and what became of the results."""


def drilled(root: Path) -> list[Row]:
    """Every drill on a training."""
    return [
        *_drilled(root, 1, faults.drills(random.Random(1))),
        *_drilled(root, 2, faults_of_two.drills()),
    ]


def _drilled(root: Path, processes: int, drills: Iterable[tuple[str, faults.Drill]]) -> list[Row]:
    """Drills on runs of so many processes, against one that nothing happens to."""
    unbroken = one(root, f"unbroken{processes}", processes)
    unbroken.finish()
    expected, rows = faults.outcome(unbroken.folder), []
    for number, (kind, drill) in enumerate(drills):
        run = one(root, f"run{processes}-{number}", processes)
        try:
            story = drill(run)
        except PermissionError as error:
            rows.append((kind, str(error), "not drilled"))
            continue
        if not (run.folder / atomic_files.MANIFEST).exists():
            run.finish()
        same = faults.outcome(run.folder) == expected
        rows.append((kind, story, "same bits" if same else "CHANGED"))
        print(*rows[-1], sep=" | ", flush=True)
    return rows


def tested(root: Path, names: Sequence[str]) -> list[Row]:
    """Drills that are tests, as they tell of themselves."""
    report = root / "tests.xml"
    paths = [f"tests/workflow/{name}.py" for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "workflow"]
    # Properties of a test are of this kind of report.
    command += ["-o", "junit_family=xunit1", f"--junit-xml={report}"]
    slurm = {"PIKE_TEST_SLURM": "1"} if shutil.which("slurmctld") else {}
    subprocess.run([*command, *paths], cwd=ROOT, check=False, env={**os.environ, **slurm})
    return told_of(report)


def told_of(report: Path) -> list[Row]:
    """What tests that are drills tell of themselves, in pytest's report."""
    rows = []
    for case in ElementTree.parse(report).iter("testcase"):
        told = {p.get("name", ""): p.get("value", "") for p in case.iter("property")}
        kind = told.get("fault", case.get("name", "").removeprefix("test_").replace("_", " "))
        skipped = case.find("skipped")
        if skipped is not None:
            rows.append((kind, str(skipped.get("message")), "not drilled"))
        elif case.find("failure") is not None or case.find("error") is not None:
            rows.append((kind, "the test failed", "CHANGED"))
        elif told:
            rows.append((kind, told["happened"], "same bits"))
    return rows


def page(record: Mapping[str, Any]) -> str:
    """The page, made of the record."""
    every = [row for part in PARTS for row in record.get(part, {"rows": []})["rows"]]
    bad = [row for row in every if row[2] == "CHANGED"]
    done = [row for row in every if row[2] != "not drilled"]
    lines = [
        "# Faults on purpose",
        "",
        "<!-- Made by `make drill` (benchmarks/drill.py) from benchmarks/results/drill.json. -->",
        "",
        f"{len(done)} faults were injected; {len(bad)} lost or changed a result.",
        "",
        "*Same bits*: every kept checkpoint and every row of a run's records equals those of a run "
        "that nothing happened to.",
    ]
    for part, about in PARTS.items():
        if part in record:
            table = _table(("fault", "what happened", "results"), record[part]["rows"])
            lines += ["", about, "", *table]
    return "\n".join(lines) + "\n"


def _table(titles: Row, rows: list[Row]) -> list[str]:
    lines = [titles, ("---",) * len(titles), *rows]
    return [f"| {' | '.join(cell.replace('|', ' ') for cell in line)} |" for line in lines]


def of_trainings(root: Path) -> list[Row]:
    """Drills without the workflow."""
    torch.set_num_threads(1)
    # Every process forked from this one finds them done.
    assert stages.STAGES["pretrain"].startswith(train.__name__)
    stages.code("pretrain", "pike")
    # In a process of its own: its threads must not be there when others are forked.
    ready = os.fork()
    if not ready:
        prepared(root)
        os._exit(0)
    assert os.waitpid(ready, 0)[1] == 0, "the corpora could not be made"
    return drilled(root)


def drill() -> int:
    """Drills, records, writes the page, and says whether all went well."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (all)")
    chosen, bad = parser.parse_args().parts or list(PARTS), 0
    for part in chosen:
        load_before = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            rows = tested(root, TESTS[part]) if part in TESTS else of_trainings(root)
        bad += sum(row[2] == "CHANGED" for row in rows)
        noted = {"machine": machine.described(load_before), "date": time.strftime("%Y-%m-%d")}
        record = atomic_files.read_json(RECORD) if RECORD.exists() else {}
        record[part] = {"rows": rows, **noted}
        RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        PAGE.write_text(page(record), encoding="utf-8")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(drill())
