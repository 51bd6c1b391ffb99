"""`pike export`: a checkpoint as a model directory that transformers loads."""

import random
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.data.tokenizer import Tokenizer
from pipeline.model import checkpoint, hf_card, hf_config, transformer
from pipeline.model.transformer import Transformer
from pipeline.runtime import atomic_files, manifests, ownership

TEXTS, PIECES = 100, 60
"""Texts on which both tokenizers are compared, and pieces in each."""
TOLERANCE = 1e-4


def export(run: Path, *, out: Path, step: int | None = None) -> str:
    """Writes the model directory of a finished run's checkpoint, and loads it as others will.

    Args:
        run: The run's folder.
        out: The directory to make; it appears whole or not at all.
        step: Updates of the checkpoint; the last one when absent.

    Returns:
        What was made, in a line.

    Raises:
        InputError: the run is not finished or has no such checkpoint, `out` is somebody else's, the
            tokenizer is not where it was, transformers has no such architecture, or what it loads
            computes something else.
    """
    manifest, work = manifests.of_run(run)
    step = manifest["steps"] if step is None else step
    if step not in manifest["checkpoints"]:
        kept = ", ".join(map(str, manifest["checkpoints"]))
        raise InputError(f"{run} keeps no checkpoint of step {step}: --step takes one of {kept}")
    ownership.refuse(out, "export", [run])
    import transformers  # An extra: what is asked is checked first.

    net = checkpoint.load_model(run / "checkpoints" / f"step{step}")
    length = work.training.length
    ours = Tokenizer(_tokenizer(run, manifest))
    with errors.explain_disk_errors(out), atomic_files.atomic_write(out) as partial:
        partial.mkdir()
        _write_model(partial, net, ours, length)
        eos = _write_tokenizer(partial, ours, length)
        facts = {
            "name": out.name,
            "vocabulary": net.vocabulary,
            "pieces": ours.vocabulary,
            "eos": eos,
            "tokenizer_sha256": ours.sha256,
            "transformers": transformers.__version__,
            "difference": _compared_logits(partial, net, length),
            "texts": _compared_tokens(partial, ours),
        }
        (partial / "README.md").write_text(hf_card.text(run, step, facts), encoding="utf-8")
    return (
        f"{out}: {transformer.parameter_count(net):,} parameters after {step:,} steps, checked by "
        f"transformers {transformers.__version__} (logits within {facts['difference']:.1e})"
    )


def _tokenizer(run: Path, manifest: dict[str, Any]) -> Path:
    """The model file that the run's corpora were packed with."""
    corpus = hf_card.corpus_manifests(run, manifest)[0]
    packed = manifests.read(corpus, "pack")
    found = [corpus.parent / name for name in packed["inputs"] if name.endswith(".model")]
    wanted = packed["tokenizer"]["sha256"]
    for path in found:
        if path.is_file() and atomic_files.sha256(path) == wanted:
            return path
    raise InputError(
        f"the tokenizer of {corpus.parent} is not at {', '.join(map(str, found))} any more: put "
        f"the file of SHA-256 {wanted} there"
    )


def _write_model(folder: Path, net: Transformer, ours: Tokenizer, length: int) -> None:
    pieces = {"eos_token_id": ours.eos, "pad_token_id": ours.padding, "bos_token_id": None}
    described = hf_config.config(net.shape, net.vocabulary, length)
    atomic_files.write_json(folder / "config.json", {**described, **pieces})
    atomic_files.write_json(folder / "generation_config.json", pieces)
    save_file(hf_config.weights(net), folder / "model.safetensors", {"format": "pt"})


def _write_tokenizer(folder: Path, ours: Tokenizer, length: int) -> str:
    """Writes both forms of the tokenizer; returns the piece that ends a document."""
    from pipeline.model import hf_tokenizer

    shutil.copyfile(ours.path, folder / "spiece.model")
    fast = hf_tokenizer.converted(ours.path)
    fast.save(str(folder / "tokenizer.json"))
    special = {"eos_token": ours.eos, "unk_token": ours.unknown, "pad_token": ours.padding}
    named = {key: str(fast.id_to_token(n)) for key, n in special.items() if n is not None}
    atomic_files.write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **named,
            "model_max_length": length,
            "clean_up_tokenization_spaces": False,
        },
    )
    return named["eos_token"]


def _compared_logits(folder: Path, net: Transformer, length: int) -> float:
    """The greatest difference of logits, on random tokens."""
    import transformers

    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32
    ).eval()
    generator = torch.Generator().manual_seed(0)
    tokens_BxL = torch.randint(net.vocabulary, (2, min(length, 128)), generator=generator)
    with torch.no_grad():
        expected_BxLxV = net(tokens_BxL)
        found_BxLxV = theirs(tokens_BxL).logits
    difference = float((found_BxLxV - expected_BxLxV).abs().max())
    if not difference <= TOLERANCE * max(1.0, float(expected_BxLxV.abs().max())):
        raise InputError(
            f"transformers {transformers.__version__} computes other logits from the exported "
            f"model, by {difference:.1e}: try another version of it"
        )
    return difference


def _compared_tokens(folder: Path, ours: Tokenizer) -> int:
    """Cuts texts of random pieces both ways; returns how many there were."""
    import transformers

    theirs = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    draw = random.Random(0)
    special = {ours.eos, ours.unknown, ours.padding}
    pieces = [number for number in range(ours.vocabulary) if number not in special]
    texts = [ours.decode(draw.choices(pieces, k=PIECES)) for _ in range(TEXTS)]
    found = theirs(texts, add_special_tokens=False)["input_ids"]
    both = zip(ours.encode(texts), found, texts, strict=True)
    wrong = [text for expected, tokens, text in both if expected.tolist() != tokens]
    # Cuts of the same score are rare, but a text of random pieces may hold one.
    if len(wrong) > TEXTS // 20:
        raise InputError(
            f"tokenizers cuts {len(wrong)} of {TEXTS} texts otherwise than {ours.path}, such as "
            f"{wrong[0][:80]!r}: this SentencePiece model cannot be exported"
        )
    return TEXTS - len(wrong)
