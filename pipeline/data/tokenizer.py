"""SentencePiece: a given model, or one trained on a deterministic sample of training documents."""

import hashlib
import heapq
import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import sentencepiece

from pike_mixing import settings as parsing
from pike_mixing.errors import InputError
from pike_mixing.limits import Limits, PositiveInt
from pike_mixing.settings import mapping
from pipeline.data import documents as store
from pipeline.data.splits import is_validation, text_hash
from pipeline.runtime import atomic_files, optional_imports, ownership
from pipeline.settings import Commit, HubId, Sha256

STAGE = "tokenizer"
SPECIAL_PIECES = 3
"""pad = 0, eos = 1, unk = 2, as in T5; there is no bos."""

_EXACT: dict[str, Any] = {
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "add_dummy_prefix": False,
    "allow_whitespace_only_pieces": True,
}
"""Settings with which decoding gives the text back, line breaks and indentation included."""


@dataclass(frozen=True)
class File:
    """A model that somebody else trained, such as T5's `spiece.model`."""

    path: str
    """The model file, relative to the working directory."""
    sha256: Sha256 | None = None
    """Its SHA-256, compared when given."""


@dataclass(frozen=True)
class Hub:
    """A model that somebody else trained, on the Hugging Face Hub."""

    repository: HubId
    """Id on the Hub, such as "google/mt5-base"."""
    revision: Commit
    """Commit, 40 hex digits."""
    sha256: Sha256
    """SHA-256 of the file."""
    file: str = "spiece.model"
    """The model file in the repository."""


@dataclass(frozen=True)
class Train:
    """A model trained on the sources' training documents."""

    model: Literal["unigram", "bpe", "char"]
    """SentencePiece's algorithm; char gives exactly one token a character."""
    vocabulary: Annotated[int, Limits(above=SPECIAL_PIECES)]
    """Pieces asked for, the three special ones included; small texts may give fewer."""
    characters: PositiveInt
    """Training text taken from each source at most."""
    validation_share: Annotated[float, Limits(at_least=0, below=1)]
    """The packing's share of validation documents, which are left out of the training text."""
    newlines: bool = False
    """Whether texts are kept as they are, a line break being a piece of its own; otherwise (unigram
    and bpe) runs of white space become one space and Unicode is normalised, as T5 does it."""


class Tokenizer:
    """Text to token ids and back."""

    def __init__(self, path: Path) -> None:
        """Loads a model file.

        Raises:
            InputError: no such file, not a SentencePiece model, or one with a piece that is not
                UTF-8, or without an end-of-sentence or unknown piece.
        """
        if not path.is_file():
            raise InputError(f"{path} does not exist: make the tokenizer first, or check the path")
        self._processor = _load(path.read_bytes(), str(path))
        self.path = path
        self.sha256 = atomic_files.sha256(path)
        self.vocabulary: int = self._processor.get_piece_size()
        self.eos: int = self._processor.eos_id()
        self.unknown: int = self._processor.unk_id()
        padding: int = self._processor.pad_id()
        self.padding = None if padding < 0 else padding

    @property
    def pieces_sha256(self) -> str:
        """Identity of the pieces and their scores; the file's also covers how it was made."""
        digest = hashlib.sha256()
        for number in range(self.vocabulary):
            piece = self._processor.id_to_piece(number).encode()
            score = struct.pack("<f", self._processor.get_score(number))
            digest.update(struct.pack("<I", len(piece)) + piece + score)
        return digest.hexdigest()

    def encode(self, texts: Sequence[str] | Sequence[bytes]) -> list[npt.NDArray[np.int32]]:
        """Ids of each text (or its UTF-8 bytes), int32, without special tokens, by one thread.

        A text must be given whole: near ties between two ways to cut it are resolved by rounding
        that depends on what stands before, so that a text cut in two can give other ids.
        """
        encoded: list[npt.NDArray[np.int32]] = self._processor.encode(
            texts, out_type="numpy", num_threads=1
        )
        return encoded

    def decode(self, tokens: Sequence[int] | npt.NDArray[np.integer[Any]]) -> str:
        """Text of ids."""
        text: str = self._processor.decode([int(token) for token in tokens])
        return text

    def facts(self) -> dict[str, Any]:
        """What manifests say of the tokenizer."""
        return {
            "sha256": self.sha256,
            "pieces_sha256": self.pieces_sha256,
            "vocabulary": self.vocabulary,
            "eos": self.eos,
            "sentencepiece": sentencepiece.__version__,
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
    chosen = parse(values, where)
    manifest = out.with_suffix(".json") if out.name else out
    if manifest == out:
        raise InputError(f"{out} would be the model and its manifest: give --out a .model file")
    inputs = [settings_file, *sources, *([Path(chosen.path)] if isinstance(chosen, File) else [])]
    for place in (out, manifest):
        ownership.refuse(place, STAGE, inputs)
    sampled: dict[str, int] = {}
    if isinstance(chosen, File):
        content = _given(Path(chosen.path), chosen.sha256, where, "path")
    elif isinstance(chosen, Hub):
        fetch = optional_imports.import_optional("pipeline.runtime.hub:download", where, "hub")
        path = fetch(
            *(chosen.repository, chosen.file, chosen.revision),
            kind="model",
            remedy="fetch it yourself and give it with kind: file",
        )
        content = _given(path, chosen.sha256, where, "file")
    else:
        content, sampled = _train(chosen, sources, where)
    with atomic_files.atomic_write(out, STAGE, inputs) as partial:
        partial.write_bytes(content)
    tokenizer = Tokenizer(out)
    atomic_files.write_manifest(
        manifest,
        stage=STAGE,
        settings=values,
        inputs=[source / atomic_files.MANIFEST for source in sources],
        files=[out],
        modules=[__name__],
        facts={**tokenizer.facts(), "unknown": tokenizer.unknown, "training_characters": sampled},
        alone=True,
    )


def parse(values: dict[str, Any], where: str) -> File | Hub | Train:
    """Settings of a tokenizer from plain values, `kind` among them.

    Raises:
        InputError: what is wrong with them, all at once.
    """
    kinds: dict[str, type[File | Hub | Train]] = {"file": File, "hub": Hub, "train": Train}
    fields = {n: value for n, value in mapping(values, where).items() if n != "kind"}
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"{where}.kind: {kind!r} is not one of {', '.join(map(repr, kinds))}")
    return parsing.parse(kinds[kind], fields, where)


def sample(folder: Path, characters: int, validation_share: float) -> list[str]:
    """Training documents of a source in the order of their hash, cut at `characters`.

    A function of the set of documents: neither their order nor a random stream matters. Memory
    holds no more than what is returned and one document.
    """
    nearest: list[tuple[int, str]] = []
    total = 0
    for _, text in store.read(folder):
        hashed = text_hash(text)
        if is_validation(hashed, validation_share):
            continue
        # A heap whose first entry has the largest hash: the first to go when there is enough.
        heapq.heappush(nearest, (-hashed, text))
        total += len(text)
        while total - len(nearest[0][1]) >= characters:
            total -= len(heapq.heappop(nearest)[1])
    texts = [text for _, text in sorted(nearest, reverse=True)]
    if total > characters:
        texts[-1] = texts[-1][: characters - total]
    return texts


def _given(path: Path, sha256: str | None, where: str, key: str) -> bytes:
    """The content of a model file that a setting names."""
    if not path.is_file():
        raise InputError(f"{where}.{key}: {path} does not exist (from {Path.cwd()})")
    found = atomic_files.sha256(path)
    if sha256 is not None and found != sha256.lower():
        raise InputError(f"{where}.sha256: {path} has SHA-256 {found}, not {sha256}: fetch it anew")
    content = path.read_bytes()
    _load(content, f"{where}.{key}: {path}")
    return content


def _load(content: bytes, place: str) -> sentencepiece.SentencePieceProcessor:
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError:
        processor = None
    # Of no bytes at all SentencePiece makes a processor without pieces.
    if processor is None or not content:
        raise InputError(f"{place} is not a SentencePiece model: check the path")
    try:
        for number in range(processor.get_piece_size()):
            processor.id_to_piece(number)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place} is damaged: piece {number} is not UTF-8 ({error}): fetch it anew"
        ) from None
    if processor.eos_id() < 0 or processor.unk_id() < 0:
        raise InputError(f"{place} has no end-of-sentence or no unknown piece: take another model")
    return processor


def _train(chosen: Train, sources: Sequence[Path], where: str) -> tuple[bytes, dict[str, int]]:
    """The model's bytes and how many characters were taken from each source."""
    names = [source.name for source in sources]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"--sources: two folders are named {', '.join(twice)}: one would be lost")
    texts = {
        source.name: sample(source, chosen.characters, chosen.validation_share)
        for source in sources
    }
    sampled = {name: sum(map(len, taken)) for name, taken in texts.items()}
    sentences = [line for name in texts for text in texts[name] for line in _sentences(text)]
    found = len(set().union(*sentences)) if sentences else 0
    if not found:
        more = dict.fromkeys(map(store.more, sources))
        raise InputError(f"{where}: no training text in {sampled}: {'; '.join(more)}")
    if chosen.model == "char" and chosen.vocabulary < found + SPECIAL_PIECES + 2:
        raise InputError(
            f"{where}.vocabulary: {found} different characters, the special pieces, a space and a "
            f"line break need {found + SPECIAL_PIECES + 2}, not {chosen.vocabulary}: raise it"
        )
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            # The order of sentences, one thread, no sampling by SentencePiece itself and a model
            # in memory (a file's name would be kept in it) make the bytes a function of the text.
            sentence_iterator=iter(sentences),
            model_writer=model,
            num_threads=1,
            input_sentence_size=0,
            max_sentence_length=2**30,
            model_type=chosen.model,
            vocab_size=chosen.vocabulary,
            hard_vocab_limit=False,
            character_coverage=1.0 if chosen.model == "char" else 0.9995,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            minloglevel=2,
            **(_EXACT if chosen.newlines or chosen.model == "char" else {}),
            user_defined_symbols=["\n"] if chosen.newlines else [],
        )
    except RuntimeError as error:
        raise InputError(
            f"{where}: SentencePiece cannot make {chosen.vocabulary} {chosen.model} pieces of "
            f"{sampled} characters ({error}): change `vocabulary` or give more text"
        ) from error
    return model.getvalue(), sampled


def _sentences(text: str) -> Iterator[str]:
    """Lines: SentencePiece's trainer wants no line break within a sentence."""
    return (line for line in text.split("\n") if line.strip())
