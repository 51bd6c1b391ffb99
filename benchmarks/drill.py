"""Faults on purpose: what becomes of a training that is killed, cut off, doubled or robbed.

    python -m benchmarks.drill                  writes docs/drill.md
    python -m benchmarks.drill --trainings      the same without the tests, in a minute

Every drill begins the same tiny run anew, does one thing to it, starts it again with the same
command until it is done, and compares all that is left with a run to which nothing happened: the
bits of every kept checkpoint and every row of every record, but for what the clock says. The
processes are real and so are the signals; they are forked from one that has loaded torch, so that
a drill takes a second. Drills with Snakemake and Slurm are tests, which are run and listed.
"""

import os
import random
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import torch
import torch._dynamo  # An optimizer asks for it at its first step; here it is loaded once.

from benchmarks import faults
from pipeline import files, pretrain, stages
from pipeline.data import packing, sources, tokenizer

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "drill.md"
TESTS = ("test_interruption", "test_two_at_once", "test_slurm")
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
        files.write_json(root / f"{name}.json", values)
        sources.download(root / f"{name}.json", root / name)
    wanted = {"kind": "train", "model": "char", "vocabulary": 64, "characters": 4000}
    files.write_json(root / "symbols.json", {**wanted, "validation_share": 0.2})
    model = root / "symbols.model"
    tokenizer.build(root / "symbols.json", [root / name for name in DOMAINS], model)
    files.write_json(root / "packing.json", {"validation_share": 0.2})
    for name in DOMAINS:
        packing.pack(root / "packing.json", root / name, model, root / "corpora" / name)
    return root / "corpora"


def one(root: Path, corpora: Path, number: int) -> faults.Training:
    """A run that has not begun."""
    folder = root / f"run{number}"
    folder.mkdir()
    files.write_json(folder / "run.json", RUN)
    return faults.Training(folder, corpora)


def drilled(root: Path) -> list[tuple[str, str, str]]:
    """Kind, what happened, and what became of the results, of every drill on a training."""
    corpora = root / "corpora"
    unbroken = one(root, corpora, 0)
    unbroken.finish()
    expected, rows = unbroken.outcome(), []
    for number, (kind, drill) in enumerate(faults.drills(random.Random(1)), start=1):
        run = one(root, corpora, number)
        try:
            story = drill(run)
        except PermissionError as error:
            rows.append((kind, str(error), "not drilled"))
            continue
        if not (run.folder / files.MANIFEST).exists():
            run.finish()
        same = run.outcome() == expected
        rows.append((kind, story, "same bits" if same else "CHANGED"))
        print(*rows[-1], sep=" | ", flush=True)
    return rows


def tested(root: Path) -> list[tuple[str, str, str]]:
    """The same of the tests with Snakemake and Slurm."""
    report = root / "tests.xml"
    names = [f"tests/workflow/{name}.py" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "workflow", f"--junit-xml={report}"]
    subprocess.run([*command, *names], cwd=ROOT, check=False)
    rows = []
    for case in ElementTree.parse(report).iter("testcase"):
        kind = case.get("classname", "").rpartition("test_")[2].replace("_", " ")
        story = case.get("name", "").removeprefix("test_").replace("_", " ")
        skipped = case.find("skipped")
        if skipped is not None:
            rows.append((kind, story, f"not drilled: {skipped.get('message')}"))
        else:
            failed = case.find("failure") is not None or case.find("error") is not None
            rows.append((kind, story, "FAILED" if failed else "as it says"))
    return rows


def page(of_trainings: list[tuple[str, str, str]], of_tests: list[tuple[str, str, str]]) -> str:
    """The page with both tables."""
    bad = [row for row in (*of_trainings, *of_tests) if row[2] in ("CHANGED", "FAILED")]
    left = [row for row in (*of_trainings, *of_tests) if row[2].startswith("not drilled")]
    done = len(of_trainings) + len(of_tests) - len(left)
    lines = [
        "# Faults on purpose",
        "",
        "<!-- Made by `make drill` (benchmarks/drill.py). -->",
        "",
        f"{done} faults were injected; {len(bad)} lost or changed a result.",
        "",
        "Each line is a training of its own, to which one thing was done and which was then "
        "started again with the same command. *Same bits*: every kept checkpoint and every row of "
        "its records equals those of a run that nothing happened to.",
        "",
        *_table(("fault", "what happened", "results"), of_trainings),
        "",
        "Snakemake and Slurm have drills of their own, which are tests (`tests/workflow/`).",
    ]
    if of_tests:
        lines += ["", *_table(("with", "what was drilled", "outcome"), of_tests)]
    return "\n".join(lines) + "\n"


def _table(titles: tuple[str, ...], rows: list[tuple[str, str, str]]) -> list[str]:
    lines = [titles, ("---",) * len(titles), *rows]
    return [f"| {' | '.join(cell.replace('|', ' ') for cell in line)} |" for line in lines]


def drill() -> int:
    """Drills, writes the page, and says whether all went well."""
    torch.set_num_threads(1)
    # Every process forked from this one finds them done.
    assert stages.STAGES["pretrain"].startswith(pretrain.__name__)
    stages.code("pretrain", "pike")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        # In a process of its own: its threads must not be there when others are forked.
        ready = os.fork()
        if not ready:
            prepared(root)
            os._exit(0)
        assert os.waitpid(ready, 0)[1] == 0, "the corpora could not be made"
        of_trainings = drilled(root)
        of_tests = [] if "--trainings" in sys.argv[1:] else tested(root)
    text = page(of_trainings, of_tests)
    PAGE.write_text(text, encoding="utf-8")
    return int("CHANGED" in text or "FAILED" in text)


if __name__ == "__main__":
    sys.exit(drill())
