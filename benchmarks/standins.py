"""The stand-ins of all downstream tasks, fetched, with tokenizers and a model to ask."""

import json
from pathlib import Path

import torch

from pipeline import settings
from pipeline.data import sources
from pipeline.data.tokenizer import Tokenizer, build
from pipeline.model import checkpoint
from pipeline.model.transformer import initialised, padded_vocabulary
from pipeline.runtime import atomic_files
from pipeline.tasks import registry
from pipeline.tasks.benchmark import TaskSpec
from pipeline.tasks.fetch import fetch
from pipeline.tasks.formats import Formulation

STANDINS = Path(__file__).resolve().parents[1] / "tests" / "tasks" / "standins"
OTHER = "0" * 40
"""A commit that is not the pinned one, whose files' checksums are not known."""


def taken(task: str) -> list[str]:
    """A stand-in's files as `fetch` takes them."""
    return [f"{path.stem}={path}" for path in sorted((STANDINS / task).glob("*.jsonl"))]


def fetched(out: Path) -> Path:
    """Fetches all stand-ins into a folder."""
    for task in registry.TASKS:
        fetch([task], out=out, revision=OTHER, taken=taken(task))
    return out


def asked(task: str, shots: int = 0, formulation: Formulation = "cf", **others: object) -> TaskSpec:
    """Settings of a stand-in: translations have demonstrations behind their first five rows."""
    items = {"items": 5} if task.startswith("hellaswag_") else {}
    return TaskSpec(**{"task": task, "shots": shots, "formulation": formulation, **items, **others})


def tokenizers(root: Path) -> dict[str, Tokenizer]:
    """Unigram and BPE models of English, German and Hindi, with and without line breaks."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(STANDINS.glob("*/*.jsonl"))]
    texts += ["Question: Goal: Answer: A. B. C. D. E. Choose the best continuation; 0 °C"] * 20
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (root / "texts.jsonl").write_text(lines, encoding="utf-8")
    wanted = {"kind": "local", "files": [str(root / "texts.jsonl")], "licence": "our own"}
    atomic_files.write_json(root / "source.json", wanted)
    sources.download(root / "source.json", root / "source")
    made = {}
    for model in ("unigram", "bpe"):
        for newlines in (False, True):
            name = f"{model}, {'with' if newlines else 'without'} line breaks"
            values = {"kind": "train", "model": model, "vocabulary": 700, "characters": 10**6}
            values |= {"validation_share": 0.0, "newlines": newlines}
            atomic_files.write_json(root / "tokenizer.json", values)
            path = root / f"{model}{newlines:d}.model"
            build(root / "tokenizer.json", [root / "source"], path)
            made[name] = Tokenizer(path)
    return made


def checkpointed(folder: Path, tokenizer: Tokenizer) -> Path:
    """A checkpoint of a small model with random weights."""
    shape = settings.Model(2, 32, 4, 8)
    vocabulary = padded_vocabulary(tokenizer.vocabulary, shape.vocabulary_multiple)
    model = initialised(shape, vocabulary, seed=0)
    none = torch.zeros(1, dtype=torch.int64)
    optimizer = torch.optim.SGD(model.parameters())
    checkpoint.save(folder, model, optimizer, checkpoint.TrainState(0, {}, none, none), "random")
    return folder
