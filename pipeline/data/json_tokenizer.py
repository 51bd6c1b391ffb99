"""Tokenizers of Hugging Face's `tokenizers` (extra `[hf]`), whose file is a `tokenizer.json`.

Such a file does not say which piece ends a document. The model file of the pipeline holds both:
`{"end": "</s>", "tokenizer": {...}}`.
"""

import codecs
import importlib.metadata
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pike_mixing import foreign_json
from pike_mixing.errors import InputError
from pipeline.runtime.environment import import_attribute

LOADER = "tokenizers:Tokenizer"


def is_json_tokenizer(content: bytes) -> bool:
    """Whether a model file holds a tokenizer.json: no SentencePiece model begins with a brace."""
    return content.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"{"


def parse_tokenizer_json(content: bytes, place: str) -> dict[str, Any]:
    """A `tokenizer.json` as a mapping."""
    try:
        values: dict[str, Any] = foreign_json.parse_json_or_value_error(content)
    except ValueError as error:
        raise InputError(f"{place} is not valid JSON ({error}): download it again") from None
    try:
        known = piece_ids(values)
        is_sound = known and all(isinstance(number, int) for number in known.values())
    except (TypeError, KeyError, ValueError, AttributeError):
        is_sound = False
    if not is_sound:
        raise InputError(f"{place} has no model.vocab: give a tokenizer.json of tokenizers")
    return values


def piece_ids(tokenizer_json: dict[str, Any]) -> dict[str, int]:
    """The pieces of a `tokenizer.json` and their ids, without the package."""
    own = tokenizer_json["model"]["vocab"]
    # A unigram model lists its pieces with their scores.
    listed = own.items() if isinstance(own, dict) else ((p, n) for n, (p, _) in enumerate(own))
    return {
        **dict(listed),
        **{t["content"]: t["id"] for t in tokenizer_json.get("added_tokens", ())},
    }


def embedding_row_count(ids_by_piece: dict[str, int]) -> int:
    """Rows that pieces need in an embedding: ids may leave some out."""
    return 1 + max(ids_by_piece.values())


def model_file_of_tokenizer_json(content: bytes, end_piece: str, place: str, setting: str) -> bytes:
    """The pipeline's model file of a `tokenizer.json` and the piece that ends a document.

    `place` says where the file lies and `setting` where the piece was set, for messages.

    Raises:
        InputError: it is not a `tokenizer.json`, or there is no such piece.
    """
    values = parse_tokenizer_json(content, place)
    if end_piece not in piece_ids(values):
        raise InputError(f"{setting}: {place} has no piece {end_piece!r}: give its eos_token")
    for token in values.get("added_tokens", ()):
        # Within a text the name of a special piece is text; that of another one is the piece.
        if token["content"] == end_piece:
            token["special"] = True
    return json.dumps({"end": end_piece, "tokenizer": values}, ensure_ascii=False).encode()


class JsonPieces:
    """Text to ids and back, as `tokenizers` does it."""

    def __init__(self, content: bytes, place: str) -> None:
        """Loads a model file of the pipeline.

        Raises:
            InputError: it is none, the package is not installed, or cannot read the file.
        """
        try:
            values = foreign_json.parse_json_or_value_error(content)
            self.ids_by_piece = piece_ids(values["tokenizer"])
            self.eos = self.ids_by_piece[values["end"]]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{place} is not a SentencePiece model, nor what `pike tokenizer` makes of a "
                "tokenizer.json: make the tokenizer again"
            ) from None
        # Packing already runs several workers.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        loader: Any = import_attribute(LOADER, place, "tokenizer.json")
        self.content = json.dumps(values["tokenizer"], ensure_ascii=False)
        try:
            self._pieces = loader.from_str(self.content)
        # tokenizers raises plain Exception.
        except Exception as error:
            raise InputError(f"{place}: tokenizers cannot read it ({error})") from error
        # The name of a special token inside a text is ordinary text.
        self._pieces.encode_special_tokens = True
        self._pieces.no_padding()
        self._pieces.no_truncation()
        self._end, self._place = values["end"], place
        self.vocabulary = embedding_row_count(self.ids_by_piece)
        model = values["tokenizer"]["model"]
        # A unigram model gives the id of the unknown piece, other models its name.
        self.unknown: int | None = model.get(
            "unk_id", self.ids_by_piece.get(model.get("unk_token"))
        )
        self.padding: int | None = None
        self.version = {"tokenizers": importlib.metadata.version("tokenizers")}

    def encode(self, texts: Sequence[str] | Sequence[bytes]) -> list[npt.NDArray[np.int32]]:
        """Ids of each text, without special tokens."""
        whole = [text.decode() if isinstance(text, bytes) else text for text in texts]
        made = self._pieces.encode_batch_fast(whole, add_special_tokens=False)
        result = [np.array(one.ids, np.int32) for one in made]
        for ids, text in zip(result, whole, strict=True):
            if (ids == self.eos).any():
                at = max(0, text.find(self._end) - 30)
                raise InputError(
                    f"{self._place}: its pieces make a document's end of {self._end!r} within the "
                    f"text {text[at : at + 80]!r}: give the SentencePiece model (.model) that it "
                    "was made from, or change the text"
                )
        return result

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of ids, without special tokens."""
        return self._pieces.decode([*tokens], skip_special_tokens=True)
