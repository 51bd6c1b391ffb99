"""Whether files on disk are still those that their manifest lists."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, cpus


class Sealed(NamedTuple):
    """A file as a manifest describes it."""

    path: Path
    bytes: int
    sha256: str
    remedy: str
    """What to do when it is another."""


def sealed(folder: Path, manifest: dict[str, Any], remedy: str) -> list[Sealed]:
    """The files that a folder's manifest lists."""
    return [
        Sealed(folder / name, facts["bytes"], facts["sha256"], remedy)
        for name, facts in manifest["files"].items()
    ]


def resized(file: Sealed) -> str | None:
    """What is wrong with a file's size, or None."""
    if not file.path.exists():
        return f"{file.path} is missing, though the manifest lists it: {file.remedy}"
    found = file.path.stat().st_size
    if found != file.bytes:
        return f"{file.path} has {found:,} bytes, the manifest says {file.bytes:,}: {file.remedy}"
    return None


def altered(file: Sealed) -> str | None:
    """What is wrong with a file's size or content, or None."""
    found = resized(file)
    if found is None and atomic_files.sha256(file.path) != file.sha256:
        found = f"{file.path} was changed: its SHA-256 is not the manifest's: {file.remedy}"
    return found


def problems(
    check: Callable[[Sealed], str | None], listed: Iterable[Sealed], workers: int | None = None
) -> Iterator[tuple[Sealed, str | None]]:
    """Each file with what is wrong with it, in their order.

    SHA-256 takes 2.5 CPU-seconds a gigabyte without the processor's help. Files are read and
    hashed side by side in threads, which is as fast as in processes: both happen outside Python's
    lock, and the disk is the limit soon.

    Args:
        check: `resized` or `altered`.
        listed: The files.
        workers: Files at once; absent: as many as there are processors.
    """
    several = list(listed)
    with ThreadPoolExecutor(max_workers=workers or cpus.available_cpus()) as pool:
        yield from zip(several, pool.map(check, several), strict=True)


class Watched:
    """Files that are read for hours, and what they were when that began."""

    def __init__(self, listed: Iterable[Sealed]) -> None:
        self._stamps = {file: _stamp(file) for file in listed}

    def refuse_changed(self) -> None:
        """Hashes again what was written to or replaced; without that, a look at each inode.

        Raises:
            InputError: a file is gone, or holds something else than its manifest says.
        """
        for file, before in self._stamps.items():
            now = _stamp(file)
            if now != before and (found := altered(file)):
                raise InputError(f"{found} (it was changed while it was read)")
            self._stamps[file] = now


def _stamp(file: Sealed) -> atomic_files.Stamp | None:
    return atomic_files.stamp(file.path) if file.path.exists() else None
