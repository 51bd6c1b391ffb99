"""Folders of models of transformers, read without transformers: a plan must not wait for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, checksums, file_kinds

SIZES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "width": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
}
"""Names that libraries give to the sizes of a decoder, in their `config.json`."""
HEAD_WIDTH = 64
"""Of a model that says nothing of heads: a state-space model is priced as if it had some."""


def describe(place: str, where: str) -> dict[str, Any]:
    """The sizes of a model and the content of its `config.json`, as settings of a model.

    `place` is the file or its folder, and was named at `where`.

    Raises:
        InputError: there is no such file, or it names no sizes.
    """
    path = Path(place) / "config.json" if Path(place).is_dir() else Path(place)
    if not path.is_file():
        raise InputError(f"{where}: {path} does not exist: name a folder with a config.json")
    file_kinds.refuse_wrong_kind(path)
    values = atomic_files.read_mapping(path)
    result = {
        ours: next((values[name] for name in theirs if isinstance(values.get(name), int)), None)
        for ours, theirs in SIZES.items()
    }
    if (width := result["width"]) is not None:
        result["heads"] = result["heads"] or max(1, width // HEAD_WIDTH)
        head_width = values.get("head_dim") or width // result["heads"]
        # Sizes for the price alone: ours are even.
        result["head_width"] = max(2, head_width - head_width % 2)
    if missing := [name for name, value in result.items() if value is None]:
        raise InputError(f"{where}: {path} names no {', '.join(missing)}: give them beside it")
    return {**result, "architecture": values}


def untrainable(recipe: Mapping[str, Any], longest: int | None, *, compiles: bool) -> list[str]:
    """What only the pipeline's own decoder can do, of what a run of such a model asks for.

    Args:
        recipe: The training recipe.
        longest: Tokens that the model reads at most, where it says so.
        compiles: Whether its device compiles what it runs, as a TPU does.
    """
    names = ("compile", "activation_checkpointing")
    result = [f"training.{name}: leave it out" for name in names if recipe.get(name)]
    if compiles:
        result.append("device: train it on cpu or cuda")
    if longest is not None and recipe["length"] > longest:
        result.append(f"training.length: it reads {longest} tokens (max_position_embeddings)")
    return result


def weights_sha256(folder: Path) -> str:
    """Digest of a folder's weights, which are hashed once for as long as nobody writes to them.

    Raises:
        InputError: there are none in safetensors.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{folder} has no weights (*.safetensors): leave `continued` out")
    for path in files:
        file_kinds.refuse_wrong_kind(path)
    known = checksums.DigestCache(checksums.MEMORY)
    result = atomic_files.digest({path.name: known.sha256(path) for path in files})
    known.keep()
    return result
