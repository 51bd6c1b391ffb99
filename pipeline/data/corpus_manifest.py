"""What a corpus's manifest promises of its files, and whether it agrees with itself."""

from pathlib import Path
from typing import Any

import numpy as np

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, checksums, manifests

FORMAT = 2
SPLITS = ("train", "validation", "search")


def documents_file(split: str) -> str:
    """Name of the file that lists a split's documents."""
    return f"{split}-documents.npy"


def data_fingerprint(dtype: str, splits: dict[str, dict[str, Any]]) -> str:
    """Identity of a corpus's tokens: SHA-256 over the dtype and every split's shard hashes."""
    hashes = {n: [shard["sha256"] for shard in splits[n]["shards"]] for n in sorted(splits)}
    return atomic_files.digest({"dtype": dtype, "shards": hashes})


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a corpus.

    Raises:
        InputError: there is none, or it is of something else.
    """
    path = folder / atomic_files.MANIFEST
    if not path.exists():
        raise InputError(
            f"{folder} holds no finished corpus (no {atomic_files.MANIFEST}): pack it first"
        )
    manifest = manifests.read(path, "pack", "pack it anew")
    if manifest["format"] != FORMAT:
        raise InputError(f"{path} is not a corpus of format {FORMAT}: pack it anew")
    return manifest


def sealed_split(folder: Path, split: str, manifest: dict[str, Any]) -> list[checksums.Sealed]:
    """A split's shards and the list of its documents.

    Args:
        folder: The corpus.
        split: One of `SPLITS`.
        manifest: The corpus's.
    """
    remedy, documents = "pack it anew", documents_file(split)
    size = np.dtype(manifest["dtype"]).itemsize
    sealed = [
        checksums.Sealed(folder / s["file"], s["tokens"] * size, s["sha256"], remedy)
        for s in manifest["splits"][split]["shards"]
    ]
    facts = manifest["files"].get(documents)
    if facts is None:
        raise InputError(f"{folder / atomic_files.MANIFEST} does not list {documents}: {remedy}")
    return [*sealed, checksums.Sealed(folder / documents, facts["bytes"], facts["sha256"], remedy)]


def refuse_contradiction(folder: Path, split: str, manifest: dict[str, Any]) -> None:
    """Stops at a manifest whose shards do not give its sums or its fingerprint.

    Args:
        folder: The corpus, for messages.
        split: The split whose sum is compared.
        manifest: The corpus's.

    Raises:
        InputError: which of them, and what to do.
    """
    splits, path = manifest["splits"], folder / atomic_files.MANIFEST
    tokens, summed = splits[split]["tokens"], sum(s["tokens"] for s in splits[split]["shards"])
    if tokens != summed:
        raise InputError(
            f"{path} says {tokens:,} {split} tokens, but its shards have {summed:,}: pack it anew"
        )
    if manifest["fingerprint"] != data_fingerprint(manifest["dtype"], splits):
        raise InputError(f"{path} has a fingerprint that is not that of its shards: pack it anew")


def refuse_other_tokenizer(folder: Path, manifest: dict[str, Any]) -> None:
    """Stops where the tokenizer that a corpus was packed with has been replaced since.

    A tokenizer that is not where it was is no mistake: corpora may be moved without it.

    Raises:
        InputError: another model lies in its place, or the manifest names two.
    """
    packed_with = manifest["tokenizer"]["sha256"]
    for name, recorded in manifest.get("inputs", {}).items():
        path = folder / name
        if path.suffix != ".model":
            continue
        result = atomic_files.sha256(path) if path.is_file() else recorded
        if {recorded, result} != {packed_with}:
            raise InputError(
                f"{folder} was packed with the tokenizer of SHA-256 {packed_with}, but {path} has "
                f"{result if result != packed_with else recorded}: pack it anew"
            )
