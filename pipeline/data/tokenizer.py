"""A given tokenizer, or a SentencePiece model trained on a sample of training documents."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import sentencepiece
from pydantic import Discriminator

from pike_mixing.errors import InputError
from pipeline.data import json_tokenizer, tokenizer_training
from pipeline.data.json_tokenizer import JsonPieces, is_json
from pipeline.data.tokenizer_settings import File, Hub, Train
from pipeline.runtime import atomic_files, environment, file_kinds, made_from, ownership
from pipeline.runtime.validation import validate

STAGE = "tokenizer"
Chosen: Any = Annotated[File | Hub | Train, Discriminator("kind")]


class _SentencePieces:
    """Text to ids and back, as SentencePiece does it."""

    def __init__(self, content: bytes, place: str) -> None:
        """Loads a model, or raises InputError as `Tokenizer` says."""
        try:
            processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        except RuntimeError:
            processor = None
        # Of no bytes at all SentencePiece makes a processor without pieces.
        if processor is None or not content:
            raise InputError(
                f"{place} is not a SentencePiece model, nor a tokenizer.json: check the path"
            )
        self._processor, self.vocabulary = processor, int(processor.get_piece_size())
        self.known: dict[str, int] = {}
        try:
            for number in range(self.vocabulary):
                self.known[processor.id_to_piece(number)] = number
        except UnicodeDecodeError as error:
            raise InputError(
                f"{place} is damaged: piece {number} is not UTF-8 ({error}): fetch it anew"
            ) from None
        self.eos: int = processor.eos_id()
        self.unknown: int | None = processor.unk_id()
        if min(self.eos, processor.unk_id()) < 0:
            raise InputError(
                f"{place} has no end-of-sentence or no unknown piece: take another model"
            )
        self.padding: int | None = processor.pad_id() if processor.pad_id() >= 0 else None
        self.version = {"sentencepiece": sentencepiece.__version__}

    def encode(self, texts: Sequence[str] | Sequence[bytes]) -> list[npt.NDArray[np.int32]]:
        return self._processor.encode(texts, out_type="numpy", num_threads=1)

    def decode(self, tokens: Iterable[int]) -> str:
        return self._processor.decode([*tokens])


class Tokenizer:
    """Text to token ids and back."""

    def __init__(self, path: Path) -> None:
        """Loads a model file.

        Raises:
            InputError: no such file, neither a SentencePiece model nor one that `build` made of a
                `tokenizer.json`, or a SentencePiece model with a piece that is not UTF-8, or
                without an end-of-sentence or unknown piece.
        """
        if not path.is_file():
            raise InputError(f"{path} does not exist: make the tokenizer first, or check the path")
        file_kinds.refuse_other_kind(path)
        content, place = path.read_bytes(), str(path)
        self._pieces: JsonPieces | _SentencePieces = (
            JsonPieces(content, place) if is_json(content) else _SentencePieces(content, place)
        )
        self.path = path
        self.sha256 = atomic_files.sha256(path)
        self.vocabulary = self._pieces.vocabulary
        self.eos, self.unknown = self._pieces.eos, self._pieces.unknown
        self.padding = self._pieces.padding
        self.pieces = self._pieces.known

    @property
    def json(self) -> str | None:
        """The `tokenizer.json` that the model was made of, if it was."""
        return self._pieces.content if isinstance(self._pieces, JsonPieces) else None

    def encode(self, texts: Sequence[str] | Sequence[bytes]) -> list[npt.NDArray[np.int32]]:
        """Ids of each text (or its UTF-8 bytes), int32, without special tokens, by one thread.

        A text must be given whole: near ties between two ways to cut it are resolved by rounding
        that depends on what stands before, so that a text cut in two can give other ids.

        Raises:
            InputError: a text would end a document: a `tokenizer.json` may have such pieces.
        """
        return self._pieces.encode(texts)

    def decode(self, tokens: Sequence[int] | npt.NDArray[np.integer[Any]]) -> str:
        """Text of ids."""
        return self._pieces.decode(int(token) for token in tokens)

    def facts(self) -> dict[str, Any]:
        """What manifests say of the tokenizer."""
        return {
            "sha256": self.sha256,
            "vocabulary": self.vocabulary,
            "eos": self.eos,
            **self._pieces.version,
        }


def build(settings_file: Path, sources: Sequence[Path], out: Path) -> None:
    """Copies, fetches or trains a tokenizer; its manifest lies beside it with the suffix `.json`.

    Args:
        settings_file: JSON of `kind` ("file", "hub" or "train") and the fields of `File`, `Hub`
            or `Train`.
        sources: Folders of documents to train on; a given file needs none.
        out: The model's place; its name without the suffix is the tokenizer's name.

    Raises:
        InputError: wrong settings, a file that is no usable model, or too little text.
    """
    values = atomic_files.read_mapping(settings_file)
    where = f"tokenizers.{out.stem}"
    chosen: File | Hub | Train = validate(Chosen, values, where)
    manifest = out.with_suffix(".json") if out.name else out
    if manifest == out:
        raise InputError(f"{out} would be the model and its manifest: give --out a .model file")
    given = [Path(chosen.path)] if isinstance(chosen, File) else []
    inputs = [settings_file, *sources, *given]
    for place in (out, manifest):
        ownership.refuse(place, STAGE, inputs)
    read = [source / atomic_files.MANIFEST for source in sources]
    taken = made_from.Taken(STAGE, [__name__], inputs=read, given=given)
    if taken.stands(manifest, values):
        return
    sampled: dict[str, int] = {}
    if isinstance(chosen, File):
        content = _model_content(Path(chosen.path), chosen, where, "path")
    elif isinstance(chosen, Hub):
        fetch = environment.import_optional(
            "pipeline.runtime.hub_downloads:download", f"{where}.kind", "hub"
        )
        path = fetch(
            *(chosen.repository, chosen.file, chosen.revision),
            kind="model",
            remedy="fetch it yourself and give it with kind: file",
        )
        content = _model_content(path, chosen, where, "file")
    else:
        content, sampled = tokenizer_training.train(chosen, sources, where)
    with atomic_files.atomic_write(out, STAGE, inputs) as partial:
        partial.write_bytes(content)
    tokenizer = Tokenizer(out)
    made_from.write_manifest(
        manifest,
        stage=STAGE,
        settings=values,
        inputs=read,
        given=given,
        files=[out],
        modules=[__name__],
        facts={**tokenizer.facts(), "unknown": tokenizer.unknown, "training_characters": sampled},
        taken=taken,
    )


def named_pieces(path: Path) -> dict[str, int]:
    """Pieces of a model file that somebody gives, and their ids.

    Raises:
        InputError: it is none.
    """
    file_kinds.refuse_other_kind(path)
    content = path.read_bytes()
    if is_json(content):
        return json_tokenizer.pieces(json_tokenizer.read(content, str(path)))
    return _SentencePieces(content, str(path)).known


def given_pieces(path: Path) -> int:
    """Rows that the pieces of such a file need in an embedding.

    Raises:
        InputError: it is none.
    """
    return json_tokenizer.rows(named_pieces(path))


def _model_content(path: Path, chosen: File | Hub, where: str, key: str) -> bytes:
    """The content of a model file that a setting names, with the end of a document."""
    if not path.is_file():
        raise InputError(f"{where}.{key}: {path} does not exist (from {Path.cwd()})")
    result = atomic_files.sha256(path)
    if chosen.sha256 is not None and result != chosen.sha256.lower():
        raise InputError(
            f"{where}.sha256: {path} has SHA-256 {result}, not {chosen.sha256}: fetch it anew"
        )
    content, place = path.read_bytes(), f"{where}.{key}: {path}"
    file_kinds.refuse_other_kind(path, place)
    if is_json(content):
        return json_tokenizer.with_end(content, chosen.end, place, f"{where}.end")
    _SentencePieces(content, place)
    if chosen.end is not None:
        raise InputError(f"{where}.end: a SentencePiece model has its own: leave it out")
    return content
