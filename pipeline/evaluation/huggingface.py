"""A model directory of Hugging Face's transformers: weights, tokenizer, length (extra `[hf]`).

Nothing but files of this machine is read, and no code of theirs is run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from safetensors import SafetensorError

from pike_mixing.errors import InputError
from pipeline.evaluation import readings

DTYPES = ("float32", "bfloat16", "float16")


class DirectoryTokenizer:
    """The directory's own tokenizer."""

    def __init__(self, folder: Path) -> None:
        """Loads it.

        Raises:
            InputError: there is none, it needs code of its own, or it has no token that begins
                or ends a document.
        """
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise InputError(
                f"{folder} has no tokenizer that can be read: {readings.first_line(error)}"
            ) from error
        starts = (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id)
        start = next((token for token in starts if token is not None), None)
        if start is None:
            raise InputError(
                f"{folder}: its tokenizer has neither a token that begins nor one that ends a "
                "document, so that nothing predicts a first token: add one to its settings"
            )
        self.eos: int = start

    def encode(self, texts: Sequence[str]) -> list[npt.NDArray[np.int32]]:
        """Ids of each text, int32, without special tokens."""
        if not texts:
            return []
        found = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [np.asarray(tokens, np.int32) for tokens in found["input_ids"]]


class Directory:
    """A model of a directory with its tokenizer."""

    def __init__(self, folder: Path, *, dtype: str, length: int | None) -> None:
        """Loads both.

        Args:
            folder: On this machine, with weights as safetensors; code in it is never run.
            dtype: Of the weights: one of DTYPES.
            length: Tokens that the model reads at once; None: as its configuration says.

        Raises:
            InputError: the folder is not there or has no such weights, weights are missing, the
                model needs code of its own, or nothing says how many tokens it reads.
        """
        if dtype not in DTYPES:
            raise InputError(f"dtype {dtype!r} is unknown: choose one of {', '.join(DTYPES)}")
        self.folder = folder
        self.model = _loaded(folder, getattr(torch, dtype))
        self.pieces = DirectoryTokenizer(folder)
        self.length = length or _length(folder, self.model.config)

    @property
    def files(self) -> list[Path]:
        """What was read: weights, configuration and tokenizer."""
        endings = {".safetensors", ".json", ".model", ".txt"}
        return sorted(path for path in self.folder.iterdir() if path.suffix in endings)

    def facts(self) -> dict[str, Any]:
        """What a manifest says of the model."""
        return {
            "model": self.folder.name,
            "architecture": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "length": self.length,
            "document_start": self.pieces.eos,
            "transformers": transformers.__version__,
        }


def _loaded(folder: Path, dtype: torch.dtype) -> Any:
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder} is no model directory: it has no config.json. Models are read from this "
            "machine alone; fetch one with `hf download NAME --local-dir FOLDER`"
        )
    if not any(folder.glob("*.safetensors")):
        raise InputError(
            f"{folder} has no weights as safetensors; other formats can run code when they are "
            "opened, so convert them first"
        )
    try:
        model, told = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=dtype,
            output_loading_info=True,
        )
    except (OSError, ValueError, ImportError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder} cannot be loaded: {readings.first_line(error)}") from error
    missing = sorted(map(str, [*told["missing_keys"], *told["mismatched_keys"]]))
    if missing:
        raise InputError(
            f"{folder} lacks {len(missing)} weights of {type(model).__name__}, {missing[0]} is the "
            "first: it is damaged, or no causal language model"
        )
    return model.eval()


def _length(folder: Path, config: Any) -> int:
    found = getattr(config.get_text_config(), "max_position_embeddings", None)
    if not found:
        raise InputError(
            f"{folder}/config.json does not say how many tokens the model reads at once "
            "(max_position_embeddings): give --length"
        )
    return int(found)
