"""Whether files on disk are still those that their manifest lists."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from pike_mixing.errors import InputError, refuse
from pipeline.runtime import atomic_files, environment, manifests

T = TypeVar("T", bound=str | None)
MEMORY = Path(".snakemake", "sha256.json")
"""Where digests are remembered, in the folder where the workflow is started."""
REMEMBERED = ".sha256.json"
"""What the name of a file ends with that remembers digests beside a folder."""
RECENT = 2 * 10**9
"""Nanoseconds; the coarsest times of files have two seconds."""


class ListedFile(NamedTuple):
    """A file as a manifest describes it."""

    path: Path
    bytes: int
    sha256: str
    remedy: str
    """What to do when it is another."""


def files_as_listed(
    folder: Path, manifest: Mapping[str, Any], remedy_if_damaged: str
) -> list[ListedFile]:
    """The files that a folder's manifest lists, and what to do when one is another."""
    return [
        ListedFile(folder / name, facts["bytes"], facts["sha256"], remedy_if_damaged)
        for name, facts in manifest["files"].items()
    ]


def size_problem(file: ListedFile) -> str | None:
    """What is wrong with a file's kind or size, or None."""
    if other := atomic_files.kind_of_existing_non_file(file.path):
        return f"{file.path} is {other}, and the manifest lists a file: {file.remedy}"
    try:
        result = file.path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return f"{file.path} is missing, though the manifest lists it: {file.remedy}"
    if result != file.bytes:
        return f"{file.path} has {result:,} bytes, the manifest says {file.bytes:,}: {file.remedy}"
    return None


def content_problem(
    file: ListedFile, sha256: Callable[[Path], str] = atomic_files.sha256
) -> str | None:
    """What is wrong with a file's size or content, as `sha256` gives it, or None."""
    result = size_problem(file)
    if result is None and sha256(file.path) != file.sha256:
        result = f"{file.path} was changed: its SHA-256 is not the manifest's: {file.remedy}"
    return result


def problem_of_each_file(
    check: Callable[[ListedFile], str | None],
    files: Iterable[ListedFile],
    workers: int | None = None,
) -> Iterator[tuple[ListedFile, str | None]]:
    """Each file with what `check` finds wrong with it, in their order.

    SHA-256 takes 2.5 CPU-seconds a gigabyte without the processor's help. Files are read and
    hashed side by side in `workers` threads (absent: as many as there are processors), which is as
    fast as in processes: both happen outside Python's lock, and the disk is the limit soon.
    """
    several = list(files)
    with ThreadPoolExecutor(max_workers=workers or environment.affinity_cpu_count()) as pool:
        yield from zip(several, pool.map(check, several), strict=True)


def refuse_damaged(
    files: Iterable[ListedFile], *, content: bool, cache_file: Path | None = None
) -> None:
    """Stops at files that are missing or are not what their manifest says.

    Their sizes are compared and, with `content`, their SHA-256, which is remembered in the JSON
    file `cache_file` (`DigestCache`) if it is given.
    """
    known = None if cache_file is None else DigestCache(cache_file)
    sha256 = atomic_files.sha256 if known is None else known.sha256
    check = functools.partial(content_problem, sha256=sha256) if content else size_problem
    wrong = [problem for _, problem in problem_of_each_file(check, files) if problem]
    if known is not None:
        known.save()
    refuse(wrong)


class DigestCache:
    """SHA-256 of files, each hashed once for as long as nobody writes to it.

    They are remembered by inode, size and times (`atomic_files.file_stamp`), so that large
    files stay fast to check. A file that was written to within `RECENT` is not remembered: it could
    be written to again within one tick of its times.
    """

    def __init__(self, path: Path) -> None:
        """Opens the JSON file of what was hashed; without it all is hashed again."""
        self._path, self._changed = path, False
        self._known: dict[str, Any] = {}
        with contextlib.suppress(InputError, OSError):
            self._known = atomic_files.read_json_mapping(path)

    def sha256(self, path: Path) -> str:
        return self.read_cached(path, atomic_files.sha256)

    def read_cached(self, path: Path, read: Callable[[Path], T], kind: str = "") -> T:
        """What `read` makes of a file, a text or None; other readers have another `kind`."""
        place, stamp = f"{path.absolute()}{kind}", list(atomic_files.file_stamp(path))
        known = self._known.get(place)
        if isinstance(known, list) and known[:-1] == stamp and isinstance(known[-1], str):
            return cast(T, known[-1])
        result = read(path)
        if time.time_ns() - max(stamp[2:]) > RECENT:
            self._known[place] = [*stamp, result]
            self._changed = True
        return result

    @functools.cache  # noqa: B019 - there are few of these in a process.
    def sha256_if_present(self, path: str) -> str | None:
        """Hex SHA-256 of a file, None where there is none; looked up once."""
        return self.sha256(Path(path)) if Path(path).is_file() else None

    @functools.cache  # noqa: B019 - there are few of these in a process.
    def digest_of_used_manifest_parts_or_none(self, path: str, reader: str) -> str | None:
        """Digest of what the stage `reader` uses of a manifest; looked up once.

        None where there is no file, or the stage reads it whole.
        """
        if not Path(path).is_file():
            return None
        digest = functools.partial(manifests.digest_of_used_manifest_parts_or_none, reader=reader)
        return self.read_cached(Path(path), digest, f" {reader}")

    def save(self) -> None:
        """Writes what was hashed; a disk that cannot be written costs time and no truth."""
        if self._changed and self._path.parent.is_dir():
            with contextlib.suppress(OSError):
                atomic_files.write_json(self._path, self._known)
            self._changed = False


class WatchedFiles:
    """Files that are read for hours, and what they were when that began."""

    def __init__(self, listed: Iterable[ListedFile]) -> None:
        self._stamps = {file: _stamp_if_present(file) for file in listed}

    def refuse_changed(self) -> None:
        """Hashes again what was written to or replaced; without that, a look at each inode."""
        for file, before in self._stamps.items():
            now = _stamp_if_present(file)
            if now != before and (result := content_problem(file)):
                raise InputError(f"{result} (it was changed while it was read)")
            self._stamps[file] = now


def _stamp_if_present(file: ListedFile) -> atomic_files.Stamp | None:
    return atomic_files.file_stamp(file.path) if file.path.exists() else None
