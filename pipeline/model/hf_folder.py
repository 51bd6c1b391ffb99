"""A checkpoint as files that transformers loads, and whether it computes the same from them.

The tokenizer becomes `tokenizer.json`. Both cut a text the same way but for three cases: where
several cuts have the same score up to rounding; where a text holds the name of a special piece,
such as `</s>`, which Hugging Face takes for the piece; and where a letter and its combining marks
have six bytes or more, which its map of characters reads one by one.
"""

import math
import random
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, decoders, models, normalizers

from pike_mixing.errors import InputError
from pipeline.data.tokenizer import Tokenizer
from pipeline.model import checkpoint, hf_config, transformer
from pipeline.model.transformer import Transformer
from pipeline.runtime import atomic_files

UNIGRAM, BPE, CHAR = 1, 2, 4
"""SentencePiece's numbers of its algorithms."""
CONTROL, USER_DEFINED = 3, 4
"""And of its kinds of pieces."""
BLANK = "\N{LOWER ONE EIGHTH BLOCK}"
"""What stands for a blank in a piece."""


def convert_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer of a SentencePiece model file."""
    # Classes that are made when the module is loaded: no type checker sees them.
    messages: Any = sentencepiece_model_pb2
    proto = messages.ModelProto.FromString(path.read_bytes())
    made = tokenizers.Tokenizer(_tokenizer_model(proto, path))
    made.normalizer = _normalizer_from_sentencepiece(proto.normalizer_spec)
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


def _tokenizer_model(proto: Any, path: Path) -> models.Model:
    spec = proto.trainer_spec
    scores = [(piece.piece, piece.score) for piece in proto.pieces]
    if spec.model_type in (UNIGRAM, CHAR):
        # Pieces of single characters leave Unigram no choice: that is SentencePiece's `char`.
        return models.Unigram(scores, spec.unk_id, spec.byte_fallback)
    if spec.model_type == BPE:
        return models.BPE(
            {piece: number for number, (piece, _) in enumerate(scores)},
            _bpe_merges(scores),
            unk_token=spec.unk_piece,
            fuse_unk=True,
            byte_fallback=spec.byte_fallback,
        )
    raise InputError(f"{path} cuts texts into words: only unigram, bpe and char can be exported")


def _bpe_merges(scores: list[tuple[str, float]]) -> list[tuple[str, str]]:
    """The pairs that make each piece, in the order in which SentencePiece would join them."""
    numbers = {piece: number for number, (piece, _) in enumerate(scores)}
    result = [
        (-score, numbers[piece[:cut]], numbers[piece[cut:]], piece, cut)
        for piece, score in scores
        for cut in range(1, len(piece))
        if piece[:cut] in numbers and piece[cut:] in numbers
    ]
    return [(piece[:cut], piece[cut:]) for *_, piece, cut in sorted(result)]


def _normalizer_from_sentencepiece(normalizer_spec: Any) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if normalizer_spec.add_dummy_prefix and not normalizer_spec.remove_extra_whitespaces:
        # Also before a text of which the map below leaves nothing.
        steps.append(normalizers.Prepend(" "))
    if normalizer_spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(normalizer_spec.precompiled_charsmap))
    if normalizer_spec.remove_extra_whitespaces:
        # Of white space SentencePiece takes away blanks alone (U+0020), `Strip` would take all.
        steps.append(normalizers.Replace(tokenizers.Regex(r"\A +"), ""))
        steps.append(normalizers.Replace(tokenizers.Regex(" {2,}"), " "))
        if normalizer_spec.add_dummy_prefix:
            steps.append(normalizers.Prepend(" "))
    steps.append(normalizers.Replace(" ", BLANK))
    if normalizer_spec.remove_extra_whitespaces:
        # At the end it no longer knows which of them were blanks.
        steps.append(normalizers.Replace(tokenizers.Regex(BLANK + r"+\z"), ""))
    return normalizers.Sequence(steps)


TEXTS, PIECES = 100, 60
"""Texts on which both tokenizers are compared, and pieces in each."""
WHITE_SPACE = [
    form.format(character)
    for character in map(chr, range(sys.maxunicode + 1))
    if character.isspace() or character in BLANK
    for form in ("{0}", "{0}a", "a{0}", "a{0}{0}b", " {0}a", "a{0} ", "{0} a", "a {0}")
]
"""Each white space where SentencePiece keeps it, joins it with another, or takes it away."""
TOLERANCE = 1e-4


def write_hf_folder_and_return_facts(
    folder: Path, checkpoint_folder: Path, tokenizer_file: Path, length: int
) -> dict[str, Any]:
    """Writes the files of a model of texts up to `length` tokens; returns what its card tells.

    What transformers computes from them is compared with what the checkpoint computes.
    """
    net, ours = checkpoint.load_model(checkpoint_folder), Tokenizer(tokenizer_file)
    _write_model(folder, net, ours, length)
    eos = _write_tokenizer_and_return_eos(folder, ours, length)
    return {
        "parameters": transformer.trainable_parameter_count(net),
        "vocabulary": net.vocabulary,
        "pieces": ours.vocabulary,
        "eos": eos,
        "tokenizer_sha256": ours.sha256,
        "transformers": transformers.__version__,
        "difference": _max_logit_difference_or_refuse(folder, net, length),
        "texts": _compare_tokenizers_and_count_texts(folder, ours),
        "sentencepiece": ours.tokenizer_json is None,
        "persimmon": not net.shape.architecture,
    }


def _write_model(folder: Path, model: Transformer, tokenizer: Tokenizer, length: int) -> None:
    pieces = {
        "eos_token_id": tokenizer.eos,
        "pad_token_id": tokenizer.padding,
        "bos_token_id": None,
    }
    if model.shape.architecture:
        own: Any = model.net
        own.save_pretrained(folder)
        described = atomic_files.read_json_mapping(folder / "config.json")
    else:
        described = hf_config.persimmon_config(model.shape, model.vocabulary, length)
        save_file(
            hf_config.persimmon_weights(model), folder / "model.safetensors", {"format": "pt"}
        )
    atomic_files.write_json(folder / "config.json", {**described, **pieces})
    atomic_files.write_json(folder / "generation_config.json", pieces)


def _write_tokenizer_and_return_eos(folder: Path, tokenizer: Tokenizer, length: int) -> str:
    """Writes the tokenizer; returns the piece that ends a document."""
    if tokenizer.tokenizer_json is not None:
        fast = tokenizers.Tokenizer.from_str(tokenizer.tokenizer_json)
        # Training had no piece around a text, and every text whole.
        fast.post_processor = None
        fast.no_truncation()
        fast.no_padding()
    else:
        shutil.copyfile(tokenizer.path, folder / "spiece.model")
        fast = convert_tokenizer(tokenizer.path)
    fast.save(str(folder / "tokenizer.json"))
    special = {
        "eos_token": tokenizer.eos,
        "unk_token": tokenizer.unknown,
        "pad_token": tokenizer.padding,
    }
    named = {key: str(fast.id_to_token(n)) for key, n in special.items() if n is not None}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **named, "model_max_length": length}
    config |= {"clean_up_tokenization_spaces": False}
    atomic_files.write_json(folder / "tokenizer_config.json", config)
    return named["eos_token"]


def _max_logit_difference_or_refuse(folder: Path, model: Transformer, length: int) -> float:
    """The greatest difference of logits, on random tokens."""
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32
    ).eval()
    generator = torch.Generator().manual_seed(0)
    tokens_BxL = torch.randint(model.vocabulary, (2, min(length, 128)), generator=generator)
    with torch.no_grad():
        expected_BxLxV = model(tokens_BxL)
        found_BxLxV = theirs(tokens_BxL).logits
    difference = float((found_BxLxV - expected_BxLxV).abs().max())
    if not difference <= TOLERANCE * max(1.0, float(expected_BxLxV.abs().max())):
        raise InputError(
            f"transformers {transformers.__version__} computes other logits from the exported "
            f"model, by {difference:.1e}: try another version of it"
        )
    return difference


def _compare_tokenizers_and_count_texts(folder: Path, tokenizer: Tokenizer) -> int:
    """Cuts texts of random pieces and of white space both ways; returns how many there were."""
    theirs = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    texts = [*_texts_of_random_pieces(tokenizer)]
    if tokenizer.tokenizer_json is None:
        texts += WHITE_SPACE
    result = theirs(texts)["input_ids"]
    both = zip(tokenizer.encode(texts), result, texts, strict=True)
    wrong = [
        text
        for expected, tokens, text in both
        if expected.tolist() != tokens
        and not _is_same_text_equally_scored(tokenizer, expected.tolist(), tokens)
    ]
    if wrong:
        raise InputError(
            f"tokenizers cuts {len(wrong)} of {len(texts)} texts otherwise than {tokenizer.path}, "
            f"such as {wrong[0][:80]!r}: this tokenizer cannot be exported"
        )
    return len(texts)


def _texts_of_random_pieces(tokenizer: Tokenizer) -> Iterator[str]:
    """Texts of pieces that neither have a meaning of their own nor go on with a letter before."""
    draw = random.Random(0)
    special = {tokenizer.eos, tokenizer.unknown, tokenizer.padding}
    pieces = [
        number
        for number in range(tokenizer.vocabulary)
        if number not in special and not _is_combining_character(tokenizer.decode([number])[:1])
    ]
    for _ in range(TEXTS):
        yield tokenizer.decode(draw.choices(pieces, k=PIECES))


def _is_combining_character(character: str) -> bool:
    """Whether a character is a combining mark, or a vowel or an end of a syllable of Hangul."""
    return unicodedata.category(character or " ")[0] == "M" or "\u1160" <= character <= "\u11ff"


def _is_same_text_equally_scored(
    tokenizer: Tokenizer, tokens: list[int], other_tokens: list[int]
) -> bool:
    """Whether both are cuts of one text whose scores differ by rounding alone."""
    if tokenizer.tokenizer_json is not None or tokenizer.decode(tokens) != tokenizer.decode(
        other_tokens
    ):
        return False
    score = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer.path)).get_score
    return math.isclose(
        math.fsum(map(score, tokens)), math.fsum(map(score, other_tokens)), rel_tol=1e-6
    )
