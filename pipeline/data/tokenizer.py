"""A given tokenizer, or a SentencePiece model trained on a sample of training documents."""

import heapq
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import sentencepiece
from pydantic import Discriminator

from pike_mixing.errors import InputError
from pipeline.data import document_store as store
from pipeline.data import json_tokenizer
from pipeline.data.corpus_settings import (
    SPECIAL_PIECES,
    GivenTokenizer,
    HubTokenizer,
    Normalisation,
    TokenizerTraining,
    is_held_out_from_training,
    normalise_text,
    text_hash,
)
from pipeline.data.json_tokenizer import JsonPieces, is_json_tokenizer
from pipeline.runtime import atomic_files, environment, file_kinds, made_from, ownership
from pipeline.runtime.validate_settings import validate

_EXACT: dict[str, Any] = {
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "add_dummy_prefix": False,
    "allow_whitespace_only_pieces": True,
}
"""Settings with which decoding gives the text back, line breaks and indentation included."""
STAGE = "tokenizer"
TokenizerSettings: Any = Annotated[
    GivenTokenizer | HubTokenizer | TokenizerTraining, Discriminator("kind")
]


def sample_training_texts(
    folder: Path,
    max_characters: int,
    validation_share: float,
    split_hash_normalisation: Normalisation = None,
) -> list[str]:
    """Training documents of a source in the order of their hash, cut at `max_characters`.

    A function of the set of documents: neither their order nor a random stream matters. Memory
    holds no more than what is returned and one document. Left out are the documents that packing
    holds out with this share and normalisation; the texts are not normalised.
    """
    nearest: list[tuple[int, str]] = []
    total = 0
    if any(map(store.is_validation_documents_file, store.read_documents_manifest(folder)["files"])):
        validation_share = 0.0
    for _, text in store.read_training_documents(folder):
        hashed = text_hash(normalise_text(text, split_hash_normalisation))
        if is_held_out_from_training(hashed, validation_share):
            continue
        # A heap whose first entry has the largest hash: the first to go when there is enough.
        heapq.heappush(nearest, (-hashed, text))
        total += len(text)
        while total - len(nearest[0][1]) >= max_characters:
            total -= len(heapq.heappop(nearest)[1])
    texts = [text for _, text in sorted(nearest, reverse=True)]
    if total > max_characters:
        texts[-1] = texts[-1][: max_characters - total]
    return texts


def train_tokenizer(
    settings: TokenizerTraining, sources: Sequence[Path], place: str
) -> tuple[bytes, dict[str, int]]:
    """The model's bytes, and how many characters were taken from each source.

    Args:
        settings: The settings.
        sources: Folders of documents.
        place: Where the settings stand, for messages.

    Raises:
        InputError: two sources of one name, too little text, or text of which no such model can be
            made.
    """
    names = [source.name for source in sources]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"--sources: two folders are named {', '.join(twice)}: one would be lost")
    how = settings.characters, settings.validation_share, settings.normalisation
    texts = {source.name: sample_training_texts(source, *how) for source in sources}
    sampled = {name: sum(map(len, taken)) for name, taken in texts.items()}
    every = [text for taken in texts.values() for text in taken]
    # Lines: SentencePiece's trainer wants no line break within a sentence.
    sentences = [line for text in every for line in text.split("\n") if line.strip()]
    if not sentences:
        more = dict.fromkeys(map(store.remedy_for_few_documents, sources))
        raise InputError(f"{place}: no training text in {sampled}: {'; '.join(more)}")
    is_lossless = settings.newlines or settings.model == "char"
    held = set().union(*every, "\n" if settings.newlines else "")
    # Pieces by demand: sentences have no line feed, and SentencePiece drops a last carriage return.
    breaks = [one for one in "\n\r" if is_lossless and one in held]
    characters = len(set().union(breaks, *sentences))
    if settings.model == "char" and settings.vocabulary < characters + SPECIAL_PIECES:
        raise InputError(
            f"{place}.vocabulary: {characters} different characters and the special pieces need "
            f"{characters + SPECIAL_PIECES}, not {settings.vocabulary}: raise it"
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
            model_type=settings.model,
            vocab_size=settings.vocabulary,
            hard_vocab_limit=False,
            character_coverage=1.0 if settings.model == "char" else 0.9995,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            minloglevel=2,
            **(_EXACT if is_lossless else {}),
            user_defined_symbols=breaks,
        )
    except RuntimeError as error:
        # Each character is a piece, and so are the special ones: more text may need more.
        needed = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        remedy = f"raise `vocabulary` to {needed[1]} or more" if needed else "give more text"
        raise InputError(
            f"{place}: SentencePiece cannot make {settings.vocabulary} {settings.model} pieces of "
            f"{sampled} characters ({error}): {remedy}"
        ) from error
    return model.getvalue(), sampled


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
        self.ids_by_piece: dict[str, int] = {}
        try:
            for number in range(self.vocabulary):
                self.ids_by_piece[processor.id_to_piece(number)] = number
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
        """Loads a model file: of SentencePiece, or what `build_tokenizer` made of another.

        Raises:
            InputError: no such file, or one that is no usable model.
        """
        if not path.is_file():
            raise InputError(f"{path} does not exist: make the tokenizer first, or check the path")
        file_kinds.refuse_content_unlike_suffix(path)
        content, place = path.read_bytes(), str(path)
        kind = JsonPieces if is_json_tokenizer(content) else _SentencePieces
        self._pieces: JsonPieces | _SentencePieces = kind(content, place)
        self.path = path
        self.sha256 = atomic_files.sha256(path)
        self.vocabulary = self._pieces.vocabulary
        self.eos, self.unknown = self._pieces.eos, self._pieces.unknown
        self.padding = self._pieces.padding
        self.ids_by_piece = self._pieces.ids_by_piece

    @property
    def tokenizer_json(self) -> str | None:
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
        return self._pieces.decode(int(token) for token in tokens)

    def manifest_facts(self) -> dict[str, Any]:
        return {
            "sha256": self.sha256,
            "vocabulary": self.vocabulary,
            "eos": self.eos,
            **self._pieces.version,
        }


def build_tokenizer(settings_file: Path, sources: Sequence[Path], out: Path) -> None:
    """Copies, fetches or trains a tokenizer; its manifest lies beside it with the suffix `.json`.

    Args:
        settings_file: JSON of `kind` ("file", "hub" or "train") and the fields of
            `GivenTokenizer`, `HubTokenizer` or `TokenizerTraining`.
        sources: Folders of documents to train on; a given file needs none.
        out: The model's place; its name without the suffix is the tokenizer's name.

    Raises:
        InputError: wrong settings, a file that is no usable model, or too little text.
    """
    values = atomic_files.read_json_mapping(settings_file)
    where = f"tokenizers.{out.stem}"
    chosen: GivenTokenizer | HubTokenizer | TokenizerTraining = validate(
        TokenizerSettings, values, where
    )
    manifest = out.with_suffix(".json") if out.name else out
    if manifest == out:
        raise InputError(f"{out} would be the model and its manifest: give --out a .model file")
    given = [Path(chosen.path)] if isinstance(chosen, GivenTokenizer) else []
    inputs = [settings_file, *sources, *given]
    for place in (out, manifest):
        ownership.refuse_foreign_output(place, STAGE, inputs)
    read = [source / atomic_files.MANIFEST for source in sources]
    taken = made_from.InputSnapshot(STAGE, [__name__], inputs=read, given=given)
    if taken.restore_manifest_if_unchanged(manifest, values):
        return
    sampled: dict[str, int] = {}
    if isinstance(chosen, GivenTokenizer):
        content = _read_model_file(Path(chosen.path), chosen, where, "path")
    elif isinstance(chosen, HubTokenizer):
        downloads = "pipeline.runtime.hub_downloads:download_hub_file"
        fetch = environment.import_attribute(downloads, f"{where}.kind", "hub")
        path = fetch(
            *(chosen.repository, chosen.file, chosen.revision),
            kind="model",
            remedy="fetch it yourself and give it with kind: file",
        )
        content = _read_model_file(path, chosen, where, "file")
    else:
        content, sampled = train_tokenizer(chosen, sources, where)
    with atomic_files.atomic_write(out, STAGE, inputs) as partial:
        partial.write_bytes(content)
    tokenizer = Tokenizer(out)
    taken.write_manifest(
        manifest,
        settings=values,
        files=[out],
        facts={
            **tokenizer.manifest_facts(),
            "unknown": tokenizer.unknown,
            "training_characters": sampled,
        },
    )


def piece_ids_of_file(path: Path) -> dict[str, int]:
    """Ids of the pieces of a model file that somebody gives."""
    file_kinds.refuse_content_unlike_suffix(path)
    content = path.read_bytes()
    if is_json_tokenizer(content):
        return json_tokenizer.piece_ids(json_tokenizer.parse_tokenizer_json(content, str(path)))
    return _SentencePieces(content, str(path)).ids_by_piece


def embedding_row_count_of_file(path: Path) -> int:
    """Rows that the pieces of such a file need in an embedding."""
    return json_tokenizer.embedding_row_count(piece_ids_of_file(path))


def _read_model_file(
    path: Path, settings: GivenTokenizer | HubTokenizer, setting: str, key: str
) -> bytes:
    """The content of a model file that a setting names, with the end of a document."""
    if not path.is_file():
        raise InputError(f"{setting}.{key}: {path} does not exist (from {Path.cwd()})")
    result = atomic_files.sha256(path)
    if settings.sha256 is not None and result != settings.sha256.lower():
        raise InputError(
            f"{setting}.sha256: {path} has SHA-256 {result}, not {settings.sha256}: fetch it anew"
        )
    content, place = path.read_bytes(), f"{setting}.{key}: {path}"
    file_kinds.refuse_content_unlike_suffix(path, place)
    if is_json_tokenizer(content):
        if settings.end is None:
            raise InputError(
                f"{setting}.end is missing: {place} does not say which piece ends a document: give "
                "the eos_token of its tokenizer_config.json"
            )
        return json_tokenizer.model_file_of_tokenizer_json(
            content, settings.end, place, f"{setting}.end"
        )
    _SentencePieces(content, place)
    if settings.end is not None:
        raise InputError(f"{setting}.end: a SentencePiece model has its own: leave it out")
    return content
