"""Files that appear whole or not at all, and the manifests that say what made them."""

import contextlib
import fcntl
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
WORK = ".work"
"""Within a folder in the making: what only serves to go on."""


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


@contextlib.contextmanager
def resumable(
    path: Path,
    identity: Any,
    forget: tuple[type[BaseException], ...] = (),
    keep: tuple[type[BaseException], ...] = (),
) -> Iterator[Path]:
    """Like `appearing` for a folder whose making goes on where it was stopped.

    Yields a folder beside `path` that outlives a failure or a kill, for the next call with the same
    identity; with another one it begins empty. It may hold what is not to stay in `.work`. On
    success `.work` is deleted and the folder is synced and renamed into place.

    Args:
        path: The folder to be made.
        identity: JSON-able; all that the content is a function of.
        forget: Errors after which nothing is kept.
        keep: Kinds of them after which everything is.

    Raises:
        InputError: another process is making the same folder.
    """
    partial, key = path.with_name(f".{path.name}.part"), digest(identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.with_name(f".{path.name}.lock"), path):
        known = partial / WORK / "identity"
        if not known.is_file() or known.read_text(encoding="utf-8") != key:
            remove(partial)
            known.parent.mkdir(parents=True)
            known.write_text(key, encoding="utf-8")
        try:
            yield partial
        except forget as error:
            if not isinstance(error, keep):
                remove(partial)
            raise
        remove(partial / WORK)
        for file in [*sorted(partial.rglob("*")), partial]:
            sync(file)
        remove(path)
        partial.replace(path)
        sync(path.parent)


@contextlib.contextmanager
def _locked(lock: Path, made: Path) -> Iterator[None]:
    """Holds a lock file, which is gone afterwards; the system frees it when its holder dies."""
    while True:
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another process is making {made} (it holds {lock}): wait for it, or stop it"
                ) from None
            if not lock.exists() or lock.stat().st_ino != os.fstat(file.fileno()).st_ino:
                continue  # Its holder has just deleted it.
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


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
    known: Mapping[Path, str] | None = None,
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
        known: SHA-256 of those of `files` that were hashed before.
    """
    here, known = path.parent, known or {}
    manifest = {
        "stage": stage,
        "settings": settings,
        "inputs": {os.path.relpath(i, here): sha256(i) for i in inputs},
        "files": {
            os.path.relpath(f, here): {
                "bytes": f.stat().st_size,
                "sha256": known.get(f) or sha256(f),
            }
            for f in files
        },
        "code": {"fingerprint": fingerprints.of(*modules), "commit": fingerprints.commit()},
        **facts,
    }
    write_json(path, manifest)
