"""The stand-ins of all downstream tasks, fetched, with tokenizers and a model to ask."""

import json
from pathlib import Path

import pytest
from recipes import written

from pipeline.data import sources
from pipeline.data.tokenizer import Tokenizer, build_tokenizer
from pipeline.tasks import task_definitions
from pipeline.tasks.fetch import fetch_tasks
from pipeline.tasks.prepared_task import TaskSpec

STANDINS = Path(__file__).with_name("tasks") / "standins"
OTHER = "0" * 40
"""A commit that is not the pinned one, whose files' checksums are not known."""


def ask(task, shots=0, formulation="cf", **others):
    """Settings of a stand-in: translations have demonstrations behind their first five rows."""
    items = {"items": 5} if task.startswith("hellaswag_") else {}
    return TaskSpec(**{"task": task, "shots": shots, "formulation": formulation, **items, **others})


@pytest.fixture(scope="session")
def asked():
    """Settings of a stand-in."""
    return ask


@pytest.fixture(scope="session")
def standin():
    """Arguments of `fetch_tasks` that take a task's stand-in."""

    def given(task):
        paths = sorted((STANDINS / task).glob("*.jsonl"))
        return {"revision": OTHER, "given_files": [f"{path.stem}={path}" for path in paths]}

    return given


@pytest.fixture(scope="session")
def benchmarks(tmp_path_factory, standin):
    """Folder with the stand-ins of all tasks, fetched."""
    out = tmp_path_factory.mktemp("benchmarks")
    for task in task_definitions.TASKS:
        fetch_tasks([task], out=out, **standin(task))
    return out


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory):
    """Unigram and BPE models of English, German and Hindi, with and without line breaks."""
    root = tmp_path_factory.mktemp("tokenizers")
    texts = [path.read_text(encoding="utf-8") for path in sorted(STANDINS.glob("*/*.jsonl"))]
    texts += ["Question: Goal: Answer: A. B. C. D. E. Choose the best continuation; 0 °C"] * 20
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (root / "texts.jsonl").write_text(lines, encoding="utf-8")
    wanted = {"kind": "local", "files": [str(root / "texts.jsonl")], "licence": "our own"}
    sources.download_source(written(root / "source.json", wanted), root / "source")
    made = {}
    for model in ("unigram", "bpe"):
        for newlines in (False, True):
            name = f"{model}, {'with' if newlines else 'without'} line breaks"
            values = {"kind": "train", "model": model, "vocabulary": 700, "characters": 10**6}
            values |= {"validation_share": 0.0, "newlines": newlines}
            path = root / f"{model}{newlines:d}.model"
            build_tokenizer(written(root / "tokenizer.json", values), [root / "source"], path)
            made[name] = Tokenizer(path)
    return made
