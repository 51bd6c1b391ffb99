"""A SentencePiece model as Hugging Face's `tokenizers` has it: `tokenizer.json`.

Both cut a text the same way but for three cases: where several cuts have the same score up to
rounding; where a text holds the name of a special piece, such as `</s>`, which Hugging Face takes
for the piece; and where a letter and its combining marks have six bytes or more, which its map of
characters reads one by one.
"""

import functools
from pathlib import Path
from typing import Any

import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, decoders, models, normalizers

from pike_mixing.errors import InputError

UNIGRAM, BPE, CHAR = 1, 2, 4
"""SentencePiece's numbers of its algorithms."""
CONTROL, USER_DEFINED = 3, 4
"""And of its kinds of pieces."""
BLANK = "\N{LOWER ONE EIGHTH BLOCK}"
"""What stands for a blank in a piece."""


def converted(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer of a SentencePiece model file.

    Raises:
        InputError: the model cuts texts into words, which `tokenizers` cannot do in this way.
    """
    # Classes that are made when the module is loaded: no type checker sees them.
    messages: Any = sentencepiece_model_pb2
    proto = messages.ModelProto.FromString(path.read_bytes())
    made = tokenizers.Tokenizer(_model(proto, path))
    made.normalizer = _normalizer(proto.normalizer_spec)
    made.decoder = decoders.Sequence(
        [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()]
        + ([decoders.Strip(" ", 1, 0)] if proto.normalizer_spec.add_dummy_prefix else [])
    )
    # Beside the pieces that have a meaning of their own, those that a text is cut around.
    kinds = {CONTROL: True, USER_DEFINED: False}
    made.add_tokens(
        [
            AddedToken(piece.piece, normalized=False, special=kinds[piece.type])
            for piece in proto.pieces
            if piece.type in kinds
        ]
    )
    return made


@functools.cache
def scores(path: Path) -> list[float]:
    """The score of each piece of a SentencePiece model file."""
    messages: Any = sentencepiece_model_pb2
    return [piece.score for piece in messages.ModelProto.FromString(path.read_bytes()).pieces]


def _model(proto: Any, path: Path) -> models.Model:
    spec = proto.trainer_spec
    scores = [(piece.piece, piece.score) for piece in proto.pieces]
    if spec.model_type in (UNIGRAM, CHAR):
        # Pieces of single characters leave Unigram no choice: that is SentencePiece's `char`.
        return models.Unigram(scores, spec.unk_id, spec.byte_fallback)
    if spec.model_type == BPE:
        return models.BPE(
            {piece: number for number, (piece, _) in enumerate(scores)},
            _merges(scores),
            unk_token=spec.unk_piece,
            fuse_unk=True,
            byte_fallback=spec.byte_fallback,
        )
    raise InputError(f"{path} cuts texts into words: only unigram, bpe and char can be exported")


def _merges(scores: list[tuple[str, float]]) -> list[tuple[str, str]]:
    """The pairs that make each piece, in the order in which SentencePiece would join them."""
    numbers = {piece: number for number, (piece, _) in enumerate(scores)}
    result = [
        (-score, numbers[piece[:cut]], numbers[piece[cut:]], piece, cut)
        for piece, score in scores
        for cut in range(1, len(piece))
        if piece[:cut] in numbers and piece[cut:] in numbers
    ]
    return [(piece[:cut], piece[cut:]) for *_, piece, cut in sorted(result)]


def _normalizer(spec: Any) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if spec.add_dummy_prefix and not spec.remove_extra_whitespaces:
        # Also before a text of which the map below leaves nothing.
        steps.append(normalizers.Prepend(" "))
    if spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        # Of white space SentencePiece takes away blanks alone (U+0020), `Strip` would take all.
        steps.append(normalizers.Replace(tokenizers.Regex(r"\A +"), ""))
        steps.append(normalizers.Replace(tokenizers.Regex(" {2,}"), " "))
        if spec.add_dummy_prefix:
            steps.append(normalizers.Prepend(" "))
    steps.append(normalizers.Replace(" ", BLANK))
    if spec.remove_extra_whitespaces:
        # At the end it no longer knows which of them were blanks.
        steps.append(normalizers.Replace(tokenizers.Regex(BLANK + r"+\z"), ""))
    return normalizers.Sequence(steps)
