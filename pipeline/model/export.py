"""`pike export`: a checkpoint as a model directory that transformers loads."""

from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.model import hf_card
from pipeline.runtime import atomic_files, manifests, ownership


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
    pieces = _tokenizer(run, manifest)
    # Takes seconds and needs an extra: what is asked is checked first.
    from pipeline.model import hf_folder

    with errors.explain_disk_errors(out), atomic_files.atomic_write(out) as partial:
        partial.mkdir()
        saved = run / "checkpoints" / f"step{step}"
        facts = hf_folder.write(partial, saved, pieces, work.training.length)
        card = hf_card.text(run, step, {"name": out.name, **facts})
        (partial / "README.md").write_text(card, encoding="utf-8")
    return (
        f"{out}: {facts['parameters']:,} parameters after {step:,} steps, checked by "
        f"transformers {facts['transformers']} (logits within {facts['difference']:.1e})"
    )


def _tokenizer(run: Path, manifest: dict[str, Any]) -> Path:
    """The model file that the run's corpora were packed with."""
    corpus = hf_card.corpus_manifests(run, manifest)[0]
    packed = manifests.read(corpus, "pack")
    result = [corpus.parent / name for name in packed["inputs"] if name.endswith(".model")]
    wanted = packed["tokenizer"]["sha256"]
    for path in result:
        if path.is_file() and atomic_files.sha256(path) == wanted:
            return path
    raise InputError(
        f"the tokenizer of {corpus.parent} is not at {', '.join(map(str, result))} any more: put "
        f"the file of SHA-256 {wanted} there"
    )
