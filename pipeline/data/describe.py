"""What corpora hold, for people: `pike corpus`, and the card of a corpus as a data set."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import yaml

from pike_mixing.errors import InputError
from pipeline.data.shards import SPLITS, read_corpus_manifest
from pipeline.runtime import atomic_files, manifests, output_formats

Format = Literal["table", "csv", "json"]
Row = dict[str, Any]


def describe_corpora(given: Sequence[str | Path], *, format: Format = "table") -> str:
    """Describes corpora, one row per split that holds text: for reading, or for machines.

    They are folders of corpora, or folders that hold such at any depth.

    Raises:
        InputError: no corpus.
    """
    rows: list[Row] = []
    for name in given:
        folders = _find_corpus_folders(Path(name))
        if not folders:
            raise InputError(f"{name} holds no corpus: name a folder such as results/corpora")
        rows += [row for folder in folders for row in _nonempty_split_statistics(folder)]
    bounds = sorted({n for row in rows for n in row["lengths"]})
    if format == "csv":
        for row in rows:
            lengths = row.pop("lengths")
            row |= {f"documents_from_{n}_tokens": lengths.get(n, 0) for n in bounds}
    return output_formats.json_csv_or_text(format, rows, lambda: _statistics_text(rows, bounds))


def _find_corpus_folders(folder: Path) -> list[Path]:
    """The folder itself where it holds a manifest, or all corpora below it."""
    if (folder / atomic_files.MANIFEST).is_file():
        return [folder]
    found = sorted(folder.rglob(atomic_files.MANIFEST))
    return [
        path.parent
        for path in found
        if manifests.recorded_stage(atomic_files.read_json(path)) == "pack"
    ]


def _nonempty_split_statistics(corpus: Path) -> Iterator[Row]:
    manifest = read_corpus_manifest(corpus)
    for split, facts in ((name, manifest["splits"][name]) for name in SPLITS):
        if facts["documents"]:
            place = corpus / atomic_files.MANIFEST
            manifests.require_type(facts, manifests.MEASURED, place, "pack it again")
            yield {
                "tokenizer": corpus.parent.name,
                "domain": manifest["source"],
                "split": split,
                **{name: facts[name] for name in ("documents", "tokens", "bytes")},
                "bytes_per_token": facts["bytes"] / facts["tokens"],
                "tokens_per_document": facts["tokens"] / facts["documents"],
                "unigram_entropy_nats": facts["entropy_nats"],
                "vocabulary_share": facts["pieces"] / manifest["tokenizer"]["vocabulary"],
                "unknown_share": facts["unknown_tokens"] / facts["tokens"],
                "licence": manifest["licence"],
                "lengths": {int(bound): count for bound, count in facts["lengths"].items()},
            }


_SHOWN = {
    "bytes_per_token": ".2f",
    "tokens_per_document": ".0f",
    "unigram_entropy_nats": ".3f",
    "vocabulary_share": ".1%",
    "unknown_share": ".2%",
}
"""How a number is shown; whole ones with commas."""


def _statistics_text(rows: list[Row], lower_length_bounds: list[int]) -> str:
    facts = [{name: value for name, value in row.items() if name != "lengths"} for row in rows]
    lengths = [
        {name: row[name] for name in ("tokenizer", "domain", "split")}
        | {n: row["lengths"].get(n, 0) for n in lower_length_bounds}
        for row in rows
    ]
    about = "Documents of at least so many tokens, and fewer than twice as many:"
    return "\n".join([_aligned_text(facts), "", about, _aligned_text(lengths)])


def _aligned_text(rows: Sequence[Mapping[Any, Any]]) -> str:
    texts = [
        [v if isinstance(v, str) else format(v, _SHOWN.get(k, ",")) for k, v in row.items()]
        for row in rows
    ]
    right = [not isinstance(value, str) for value in rows[0].values()]
    return output_formats.align_columns(
        [str(name).replace("_", " ") for name in rows[0]], texts, right
    )


CARD = """\
---
{head}---

# {source}

One domain of text, tokenized for pretraining by `pike pack`. `manifest.json` has the SHA-256 of
every file.

- Text: `{source}`, revision `{revision}`, licence {licence}; skipped documents: {skipped}.
- Tokens: {tokenizer[vocabulary]:,} pieces, model of SHA-256 `{tokenizer[sha256]}`. Piece \
{tokenizer[eos]} ends a
  document.
- Token fingerprint: `{fingerprint}`.

| split | documents | tokens | largest document's share | bytes of text |
| --- | ---: | ---: | ---: | ---: |
{rows}

`*.bin` holds the concatenated token ids of the documents, little-endian {dtype}; `*-documents.npy`
lists the documents.
"""
SIZES = {
    10**digits: f"{low}<n<{high}" if low else f"n<{high}"
    for digits, (low, high) in enumerate(
        pairwise(["", "1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T"]), 3
    )
}
"""The Hub's size categories, by their exclusive upper bound in documents."""


def corpus_card_text(manifest: Mapping[str, Any]) -> str:
    documents = sum(split["documents"] for split in manifest["splits"].values())
    head = {
        "pretty_name": manifest["source"],
        # The Hub has its own list of licences; any other is named beside `other`.
        "license": "other",
        "license_name": manifest["licence"],
        "task_categories": ["text-generation"],
        "size_categories": [next((s for n, s in SIZES.items() if documents < n), "n>1T")],
        "tags": ["pretraining", "tokenized"],
    }
    rows = [
        f"| {name} | {split['documents']:,} | {split['tokens']:,} | {split['largest_share']:.1%} | "
        f"{split['bytes']:,} |"
        for name, split in manifest["splits"].items()
    ]
    skipped = (f"{count:,} {reason}" for reason, count in manifest["skipped"].items() if count)
    made = {
        "head": yaml.safe_dump(head, sort_keys=False, allow_unicode=True),
        "skipped": ", ".join(skipped) or "nothing",
        "rows": "\n".join(rows),
    }
    return CARD.format_map({**manifest, **made})
