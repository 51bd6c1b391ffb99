"""Files that appear whole or not at all, and the manifests that say what made them."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline import fingerprints
from pipeline.errors import InputError

MANIFEST = "manifest.json"


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write to; on success it is synced and renamed into place.

    On any exception the partial file or folder is removed and `path` is as it was before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    remove(partial)
    try:
        yield partial
        for file in [*sorted(partial.rglob("*")), partial]:
            sync(file)
        if partial.is_dir():
            remove(path)
        partial.replace(path)
        sync(path.parent)
    except BaseException:
        remove(partial)
        raise


def sync(path: Path) -> None:
    """Flushes a file or a folder's entries to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Deletes a file or a whole folder; a missing one is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def steps(folder: Path) -> dict[int, Path]:
    """The entries `step{n}` of a folder by their number of updates n, in its order."""
    numbers = {path.name.removeprefix("step"): path for path in folder.glob("step*")}
    return {int(n): numbers[n] for n in sorted(filter(str.isdecimal, numbers), key=int)}


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no blanks. NaN and infinities are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """Hex SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Writes indented JSON; the file appears whole or not at all."""
    with appearing(path) as partial:
        partial.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Reads JSON.

    Raises:
        InputError: the file is missing or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: make it first, or check the path") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not valid JSON ({error}): delete it and make it anew"
        ) from None


def write_manifest(
    path: Path,
    *,
    stage: str,
    settings: Mapping[str, Any],
    inputs: Sequence[Path],
    files: Sequence[Path],
    modules: Sequence[str],
    facts: Mapping[str, Any],
) -> None:
    """Writes the record of one stage's work; it is written last and marks the work as complete.

    Args:
        path: The manifest's place.
        stage: Name of the command that did the work.
        settings: The explicit settings that it was given.
        inputs: Manifests (or files) that it read, recorded with their SHA-256.
        files: Files that it wrote, recorded with size and SHA-256. Like `inputs` they are
            recorded relative to the manifest's folder, so that a results folder can be moved.
        modules: First-party modules whose code, with all that they import, did the work.
        facts: What is particular to the stage: counts, revisions, versions.
    """
    here = path.parent
    manifest = {
        "stage": stage,
        "settings": settings,
        "inputs": {os.path.relpath(i, here): sha256(i) for i in inputs},
        "files": {
            os.path.relpath(f, here): {"bytes": f.stat().st_size, "sha256": sha256(f)}
            for f in files
        },
        "code": {"fingerprint": fingerprints.of(*modules), "commit": fingerprints.commit()},
        **facts,
    }
    write_json(path, manifest)
