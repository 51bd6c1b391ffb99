"""Packed corpora of token ids that are written down by hand."""

import hashlib

import numpy as np

from pipeline.data.shards import DOCUMENT, FORMAT, SplitWriter, data_fingerprint, token_dtype
from pipeline.runtime import atomic_files, made_from


def name_of(document):
    """16 hex digits of the hash of a document's tokens."""
    return hashlib.sha256(np.array(document, "<u2").tobytes()).hexdigest()[:16]


def write(folder, splits, *, vocabulary, eos, shard_tokens):
    """A corpus; `splits` gives of each split its tokens and its documents (of `DOCUMENT`)."""
    folder.mkdir(parents=True)
    dtype, facts = token_dtype(vocabulary), {}
    for split, (tokens, documents) in splits.items():
        with SplitWriter(folder, split, vocabulary=vocabulary, shard_tokens=shard_tokens) as writer:
            writer.add(np.asarray(tokens, np.int64), np.array(documents, DOCUMENT), 0)
            facts[split] = writer.close_and_return_facts(unknown_id=None)
    made_from.InputSnapshot("pack", []).write_manifest(
        folder / atomic_files.MANIFEST,
        settings={},
        files=sorted(folder.iterdir()),
        facts={
            "format": FORMAT,
            "source": folder.name,
            "licence": "CC0-1.0",
            "tokenizer": {
                "vocabulary": vocabulary,
                "eos": eos,
                "sha256": f"of {vocabulary} pieces",
            },
            "dtype": dtype.name,
            "splits": facts,
            "fingerprint": data_fingerprint(dtype.name, facts),
        },
    )
    return folder
