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


def read_model_settings_from_config(path_text: str, setting: str) -> dict[str, Any]:
    """The sizes of a model and the content of its `config.json`, as settings of a model.

    `path_text` is the file or its folder, and was named at `setting`.
    """
    path = Path(path_text) / "config.json" if Path(path_text).is_dir() else Path(path_text)
    if not path.is_file():
        raise InputError(f"{setting}: {path} does not exist: name a folder with a config.json")
    file_kinds.refuse_content_unlike_suffix(path)
    values = atomic_files.read_json_mapping(path)
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
        raise InputError(f"{setting}: {path} names no {', '.join(missing)}: give them beside it")
    return {**result, "architecture": values}


def training_problems(
    recipe: Mapping[str, Any], most_tokens: int | None, *, is_xla_device: bool
) -> list[str]:
    """What only the pipeline's own decoder can do, of what a training recipe of such a model asks.

    `most_tokens` are those that the model reads at most, where it says so; `is_xla_device`: it
    is trained on a device that compiles what it runs, as a TPU does.
    """
    names = ("compile", "activation_checkpointing")
    result = [f"training.{name}: leave it out" for name in names if recipe.get(name)]
    if is_xla_device:
        result.append("device: train it on cpu or cuda")
    if most_tokens is not None and recipe["length"] > most_tokens:
        result.append(f"training.length: it reads {most_tokens} tokens (max_position_embeddings)")
    return result


def folder_weights_digest(folder: Path) -> str:
    """Digest of a folder's weights, which are hashed once for as long as nobody writes to them."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{folder} has no weights (*.safetensors): leave `continued` out")
    for path in files:
        file_kinds.refuse_content_unlike_suffix(path)
    known = checksums.DigestCache(checksums.MEMORY)
    result = atomic_files.json_digest({path.name: known.sha256(path) for path in files})
    known.save()
    return result
