"""A corpus's README.md: the dataset card in the format of the Hugging Face Hub."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import yaml

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
_BOUNDS = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
SIZES = {1_000: "n<1K"} | {
    10**place: f"{low}<n<{high}" for place, (low, high) in enumerate(pairwise(_BOUNDS), 4)
}
"""The Hub's size categories, by their exclusive upper bound in documents."""


def text(facts: Mapping[str, Any]) -> str:
    """The card of a corpus."""
    documents = sum(split["documents"] for split in facts["splits"].values())
    head = {
        "pretty_name": facts["source"],
        # The Hub has its own list of licences; any other is named beside `other`.
        "license": "other",
        "license_name": facts["licence"],
        "task_categories": ["text-generation"],
        "size_categories": [next((s for n, s in SIZES.items() if documents < n), "n>1T")],
        "tags": ["pretraining", "tokenized"],
    }
    rows = [
        f"| {name} | {split['documents']:,} | {split['tokens']:,} | {split['largest_share']:.1%} | "
        f"{split['bytes']:,} |"
        for name, split in facts["splits"].items()
    ]
    skipped = (f"{count:,} {reason}" for reason, count in facts["skipped"].items() if count)
    made = {
        "head": yaml.safe_dump(head, sort_keys=False, allow_unicode=True),
        "skipped": ", ".join(skipped) or "nothing",
        "rows": "\n".join(rows),
    }
    return CARD.format_map({**facts, **made})
