"""Text, a tokenizer and corpora to measure with, made by the pipeline's own stages."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.data import document_store as store
from pipeline.data import packing, sources, tokenizer
from pipeline.runtime import atomic_files, made_from

TOKENIZER = {"kind": "train", "model": "unigram", "vocabulary": 8192, "characters": 1_000_000}
MODEL = "tokens.model"


def python_code(folder: Path) -> Path:
    """The folder with the documents of Python's standard library."""
    if not (folder / "code").exists():
        atomic_files.write_json(folder / "code.json", {"kind": "python", "topic": "code"})
        sources.download_source(folder / "code.json", folder / "code")
    return folder / "code"


def documents(folder: Path, name: str, size: float) -> Path:
    """Documents of so many bytes: Python's code again and again, each time another document."""
    texts = [text for _, text in store.read_training_documents(python_code(folder))]

    def numbered() -> Iterator[store.Document]:
        total = 0
        for number, text in enumerate(itertools.cycle(texts)):
            if total >= size:
                return
            yield store.Document(str(number), f"{number} {text}")
            total += len(text.encode())

    out = folder / name
    out.mkdir()
    file = out / "documents.parquet"
    facts = store.write_documents_and_return_facts(numbered(), file) | {
        "skipped": {},
        "entropy_nats_per_character": None,
    }
    facts |= {"revision": "-", "licence": "-"}
    made_from.InputSnapshot(store.STAGE, ["pipeline.data.document_store"]).write_manifest(
        out / atomic_files.MANIFEST, settings={}, files=[file], facts=facts
    )
    return out


def trained_tokenizer(folder: Path, texts: list[Path], **changes: Any) -> Path:
    """A SentencePiece model of these documents; the settings of packing lie beside it."""
    values = {**TOKENIZER, "validation_share": 0.05, **changes}
    atomic_files.write_json(folder / "tokenizer.json", values)
    tokenizer.build_tokenizer(folder / "tokenizer.json", texts, folder / MODEL)
    packed = {"validation_share": values["validation_share"]}
    atomic_files.write_json(folder / "packing.json", packed)
    return folder / MODEL


def packed(folder: Path, named: Mapping[str, Mapping[str, Any]], **changes: Any) -> Path:
    """Corpora of sources, with a tokenizer of them all; their folder."""
    for name, values in named.items():
        atomic_files.write_json(folder / f"{name}.json", values)
        sources.download_source(folder / f"{name}.json", folder / name)
    model = trained_tokenizer(folder, [folder / name for name in named], **changes)
    for name in named:
        packing.pack_corpus(
            folder / "packing.json", folder / name, model, folder / "corpora" / name
        )
    return folder / "corpora"


def run_file(folder: Path, domains: list[str], model: Mapping[str, Any], **training: Any) -> Path:
    """`run.json` of a run of Mix."""
    rates = {"peak_learning_rate": 1e-2, "initial_learning_rate": 1e-4, "final_learning_rate": 1e-4}
    names = {"scenario": "text", "model_name": "small", "method_name": "mix", "tokenizer": "text"}
    folder.mkdir()
    atomic_files.write_json(
        folder / "run.json",
        {
            **names,
            "seed": 0,
            "domains": domains,
            "model": model,
            "training": {**rates, **training},
            "rule": "mix",
            "method": {},
        },
    )
    return folder / "run.json"
