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
    "documents": "{:,}",
    "tokens": "{:,}",
    "bytes": "{:,}",
    "bytes_per_token": "{:.2f}",
    "tokens_per_document": "{:.0f}",
    "unigram_entropy_nats": "{:.3f}",
    "vocabulary_share": "{:.1%}",
    "unknown_share": "{:.2%}",
    "seen_in_training": "{:.1%}",
}


def _table(rows: list[Row], columns: list[str]) -> str:
    """Two aligned tables: sizes, and documents by their length."""
    lengths = [name for name in columns if name.startswith("documents_from_")]
    first = [name for name in columns if name not in lengths]
    if all(row["seen_in_training"] is None for row in rows):
        first.remove("seen_in_training")
    names = ["tokenizer", "domain", "split"]
    short = {name: name.removeprefix("documents_from_").removesuffix("_tokens") for name in lengths}
    sizes = [[_cell(name, row) for name in first] for row in rows]
    counts = [[f"{row[n]:,}" if n in short else row[n] for n in [*names, *lengths]] for row in rows]
    return "\n".join(
        [
            *_aligned([name.replace("_", " ") for name in first], sizes),
            "",
            "Documents of at least so many tokens, and fewer than twice as many:",
            *_aligned([*names, *short.values()], counts),
        ]
    )


def _cell(name: str, row: Row) -> str:
    value = row[name]
    return "" if value is None else _SHOWN.get(name, "{}").format(value)


def _aligned(header: list[str], rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(width)
            if rows[0][place].replace(",", "")[:1].isalpha()
            else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
