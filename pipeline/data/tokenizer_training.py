"""Training of a SentencePiece model on a sample of training documents."""

import heapq
import io
import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from pike_mixing.errors import InputError
from pipeline.data import documents as store
from pipeline.data.packing_settings import Normalisation, is_held_out, normalise_text, text_hash
from pipeline.data.tokenizer_settings import SPECIAL_PIECES, Train

_EXACT: dict[str, Any] = {
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "add_dummy_prefix": False,
    "allow_whitespace_only_pieces": True,
}
"""Settings with which decoding gives the text back, line breaks and indentation included."""


def sample(
    folder: Path, characters: int, validation_share: float, normalisation: Normalisation = None
) -> list[str]:
    """Training documents of a source in the order of their hash, cut at `characters`.

    A function of the set of documents: neither their order nor a random stream matters. Memory
    holds no more than what is returned and one document.

    Args:
        folder: The documents.
        characters: How many are taken at most.
        validation_share: Share of documents kept for validation, which are left out.
        normalisation: The packing's, which decides which documents these are.
    """
    nearest: list[tuple[int, str]] = []
    total = 0
    if any(map(store.is_validation, store.manifest(folder)["files"])):
        validation_share = 0.0
    for _, text in store.read(folder):
        hashed = text_hash(normalise_text(text, normalisation))
        if is_held_out(hashed, validation_share):
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


def _sentences(
    chosen: Train, sources: Sequence[Path], where: str
) -> tuple[list[str], list[str], dict[str, int]]:
    """Lines that are not blank, pieces that break lines, and characters taken from each source."""
    names = [source.name for source in sources]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"--sources: two folders are named {', '.join(twice)}: one would be lost")
    how = chosen.characters, chosen.validation_share, chosen.normalisation
    texts = {source.name: sample(source, *how) for source in sources}
    sampled = {name: sum(map(len, taken)) for name, taken in texts.items()}
    # Lines: SentencePiece's trainer wants no line break within a sentence.
    lines = (line for taken in texts.values() for text in taken for line in text.split("\n"))
    sentences = [line for line in lines if line.strip()]
    breaks = _breaks(chosen, itertools.chain.from_iterable(texts.values()))
    if not sentences:
        more = dict.fromkeys(map(store.more, sources))
        raise InputError(f"{where}: no training text in {sampled}: {'; '.join(more)}")
    result = len(set().union(breaks, *sentences))
    needed = result + SPECIAL_PIECES
    if chosen.model == "char" and chosen.vocabulary < needed:
        raise InputError(
            f"{where}.vocabulary: {result} different characters and the special pieces need "
            f"{needed}, not {chosen.vocabulary}: raise it"
        )
    return sentences, breaks, sampled


def _breaks(chosen: Train, texts: Iterable[str]) -> list[str]:
    """Line breaks that the texts hold, where they are kept.

    They are pieces by demand: sentences have no line feed, and of those that end with a carriage
    return SentencePiece drops it.
    """
    if not _exact(chosen):
        return []
    held = set().union(*texts)
    return [one for one in "\n\r" if one in held or (one == "\n" and chosen.newlines)]


def _exact(chosen: Train) -> bool:
    return chosen.newlines or chosen.model == "char"


def train(chosen: Train, sources: Sequence[Path], where: str) -> tuple[bytes, dict[str, int]]:
    """The model's bytes and how many characters were taken from each source.

    Args:
        chosen: The settings.
        sources: Folders of documents.
        where: Where the settings stand, for messages.

    Raises:
        InputError: too little text, or text of which no such model can be made.
    """
    sentences, breaks, sampled = _sentences(chosen, sources, where)
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
            **(_EXACT if _exact(chosen) else {}),
            user_defined_symbols=breaks,
        )
    except RuntimeError as error:
        # Each character is a piece, and so are the special ones: more text may need more.
        needed = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        remedy = f"raise `vocabulary` to {needed[1]} or more" if needed else "give more text"
        raise InputError(
            f"{where}: SentencePiece cannot make {chosen.vocabulary} {chosen.model} pieces of "
            f"{sampled} characters ({error}): {remedy}"
        ) from error
    return model.getvalue(), sampled
