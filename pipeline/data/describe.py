"""`pike corpus`: what corpora hold, per domain and split, from their manifests."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pike_mixing.errors import InputError
from pipeline.data.corpus_manifest import SPLITS, folders, manifest_of
from pipeline.data.ngrams import corpus_hashes, occurring
from pipeline.data.shards import Corpus
from pipeline.runtime import atomic_files, manifests

Format = Literal["table", "csv", "json"]
Row = dict[str, Any]


def corpus(
    given: Sequence[str | Path], *, format: Format = "table", ngrams: int | None = None
) -> str:
    """Describes corpora, one row per split.

    Args:
        given: Folders of corpora, or folders that hold such at any depth.
        format: table for reading, csv and json for machines.
        ngrams: Length of n-grams of tokens; then validation has the share of its n-grams that
            occur in the training text too. That reads both splits.

    Raises:
        InputError: no corpus, or one that was packed before its text was measured.
    """
    rows = []
    for name in given:
        found = folders(Path(name), ("pack",))
        if not found:
            raise InputError(f"{name} holds no corpus: name a folder such as results/corpora")
        rows += [row for folder in found for row in _rows(folder, ngrams)]
    if format == "json":
        return json.dumps(rows, indent=2, ensure_ascii=False)
    least = sorted({n for row in rows for n in row["lengths"]})
    flat = [
        {name: value for name, value in row.items() if name != "lengths"}
        | {f"documents_from_{n}_tokens": row["lengths"].get(n, 0) for n in least}
        for row in rows
    ]
    columns = list(flat[0])
    if format == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)
        return out.getvalue().rstrip("\n")
    return _table(flat, columns)


def _rows(folder: Path, ngrams: int | None) -> Iterator[Row]:
    manifest = manifest_of(folder)
    vocabulary = manifest["tokenizer"]["vocabulary"]
    shared = None if ngrams is None else overlap(folder, ngrams)
    for split in SPLITS:
        facts = manifest["splits"][split]
        remedy = "it was packed before corpora were measured: pack it anew"
        manifests.require(facts, manifests.MEASURED, folder / atomic_files.MANIFEST, remedy)
        yield {
            "tokenizer": folder.parent.name,
            "domain": manifest["source"],
            "split": split,
            "documents": facts["documents"],
            "tokens": facts["tokens"],
            "bytes": facts["bytes"],
            "bytes_per_token": facts["bytes"] / facts["tokens"],
            "tokens_per_document": facts["tokens"] / facts["documents"],
            "unigram_entropy_nats": facts["entropy_nats"],
            "vocabulary_share": facts["pieces"] / vocabulary,
            "unknown_share": facts["unknown_tokens"] / facts["tokens"],
            "seen_in_training": shared if split == "validation" else None,
            "licence": manifest["licence"],
            "lengths": {int(least): count for least, count in facts["lengths"].items()},
        }


def overlap(folder: Path, length: int) -> float:
    """Share of the validation split's n-grams of tokens that occur in the training split.

    Whole documents never do: they are split by the hash of their text. Each n-gram has a hash of
    64 bits, so that the share is too high by about G / 2**64 for G training n-grams.

    Raises:
        InputError: `length` is below 1, or the validation split is shorter.
    """
    validation, train = (Corpus.open(folder, split) for split in ("validation", "train"))
    if not 1 <= length <= validation.tokens:
        raise InputError(
            f"--ngrams {length}: must lie between 1 and the {validation.tokens:,} tokens of the "
            f"validation split of {folder}"
        )
    asked = np.concatenate(list(corpus_hashes(validation, length)))
    return float(occurring(asked, train, length).mean())


_SHOWN = {
    "bytes_per_token": "{:.2f}",
    "tokens_per_document": "{:.0f}",
    "unigram_entropy_nats": "{:.3f}",
    "vocabulary_share": "{:.1%}",
    "unknown_share": "{:.2%}",
    "seen_in_training": "{:.1%}",
}


def _table(rows: list[Row], columns: list[str]) -> str:
    """Two aligned tables: sizes, and documents by their length."""
    header = {name: name.replace("_", " ") for name in columns}
    if all(row["seen_in_training"] is None for row in rows):
        del header["seen_in_training"]
    lengths = {name: name.split("_")[2] for name in columns if name.startswith("documents_from_")}
    sizes = {name: shown for name, shown in header.items() if name not in lengths}
    named = {name: name for name in ("tokenizer", "domain", "split")}
    return "\n".join(
        [
            *_aligned(sizes, rows),
            "",
            "Documents of at least so many tokens, and fewer than twice as many:",
            *_aligned(named | lengths, rows),
        ]
    )


def _aligned(header: dict[str, str], rows: list[Row]) -> Iterator[str]:
    """Lines of columns with their headings: texts to the left, numbers to the right."""
    columns = []
    for name, heading in header.items():
        cells = [heading, *(_cell(name, row[name]) for row in rows)]
        width = max(map(len, cells))
        text = isinstance(rows[0][name], str)
        columns.append([c.ljust(width) if text else c.rjust(width) for c in cells])
    for line in zip(*columns, strict=True):
        yield "  ".join(line).rstrip()


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    return _SHOWN.get(name, "{:,}" if isinstance(value, int) else "{}").format(value)
