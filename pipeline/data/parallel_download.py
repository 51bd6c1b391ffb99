"""Sources of many files: several files at once, in the order of one after the other.

Each file's documents are written to a folder of its own, which appears whole, so that a download
that was stopped goes on with the first file that was not finished. A few files at once are fetched
by threads: the network is the limit, and decompression and Parquet work outside Python's lock.
"""

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.data import documents as store
from pipeline.runtime import atomic_files
from pipeline.runtime.progress import Progress

FACTS = "part.json"
_BYTES_BETWEEN = 2**20
"""UTF-8 bytes of text between two reports of progress."""


class Written(NamedTuple):
    """What was taken from the parts."""

    files: list[Path]
    parts: int
    """Parts that were begun."""
    skipped: Counter[str]
    """Documents left out, by reason, of all parts that were begun."""


class _StoppedError(Exception):
    """Another thread has failed, or there is enough."""


def write(
    parts: Sequence[store.SourceFile],
    folder: Path,
    limit: int | None,
    workers: int,
    progress: Progress,
) -> Written:
    """Writes the documents of the parts up to the one that reaches `limit` UTF-8 bytes.

    What is written is a function of the parts and the limit alone; how many are read at once is
    not. Parts that lie finished in `folder` are not read again.

    Args:
        parts: In their order.
        folder: Gets `documents-00000.parquet`, ...
        limit: Bytes of text; None: all.
        workers: Parts read at once.
        progress: Told the megabytes of text.

    Raises:
        InputError: of the first part in their order that fails.
    """
    work = _Work(folder / atomic_files.WORK, limit, progress)
    taken: list[Path] = []
    total, begun, skipped = 0, 0, Counter[str]()
    with contextlib.closing(work.in_order(parts, workers)) as finished:
        for place, facts in finished:
            begun += 1
            skipped.update(facts["skipped"])
            if limit is not None and total + facts["bytes"] > limit:
                place = _shortened(place, limit - total)
            taken += sorted(place.glob("documents-*.parquet"))
            total += facts["bytes"]
            if limit is not None and total >= limit:
                break
    return Written(_moved(taken, folder), begun, skipped)


class _Work:
    """Parts in the making."""

    def __init__(self, folder: Path, limit: int | None, progress: Progress) -> None:
        self._folder, self._limit, self._progress = folder, limit, progress
        self._stop, self._lock = threading.Event(), threading.Lock()

    def in_order(
        self, parts: Sequence[store.SourceFile], workers: int
    ) -> Generator[tuple[Path, dict[str, Any]], None, None]:
        """Finished parts, in order; closing the iterator stops those that are being read."""
        waiting: deque[Future[tuple[Path, dict[str, Any]]]] = deque()
        next_part, stored = 0, 0
        with ThreadPoolExecutor(max_workers=workers) as pool:
            try:
                while waiting or next_part < len(parts):
                    # Text is seldom smaller than it is stored: later files are hardly needed.
                    enough = self._limit is not None and stored >= self._limit and waiting
                    if next_part < len(parts) and len(waiting) < workers and not enough:
                        part = parts[next_part]
                        waiting.append(pool.submit(self._made, next_part, part))
                        next_part, stored = next_part + 1, stored + part.stored_bytes
                    else:
                        yield waiting.popleft().result()
            finally:
                self._stop.set()
                for future in waiting:
                    future.cancel()

    def _made(self, number: int, part: store.SourceFile) -> tuple[Path, dict[str, Any]]:
        place = self._folder / f"part-{number:06d}"
        facts_file = place / FACTS
        if facts_file.is_file():
            facts: dict[str, Any] = atomic_files.read_json(facts_file)
            if facts["name"] == part.name:
                self._report(facts["bytes"])
                return place, facts
        skipped = Counter[str]()
        with atomic_files.atomic_write(place) as partial:
            partial.mkdir()
            found = store.limited(part.read(skipped), self._limit)
            totals = store.write(self._watched(found), partial)
            facts = {"name": part.name, "bytes": totals.bytes, "skipped": dict(skipped)}
            atomic_files.write_json(partial / FACTS, facts)
        return place, facts

    def _watched(self, documents: Iterator[store.Document]) -> Iterator[store.Document]:
        size = 0
        for document in documents:
            if self._stop.is_set():
                raise _StoppedError
            size += len(document.text.encode())
            if size >= _BYTES_BETWEEN:
                self._report(size)
                size = 0
            yield document
        self._report(size)

    def _report(self, size: int) -> None:
        with self._lock:
            self._progress.add(size / 1e6)


def _shortened(place: Path, limit: int) -> Path:
    """The folder of a part's documents up to the one that reaches `limit` bytes."""
    short = place.with_name(f"{place.name}-short")
    with atomic_files.atomic_write(short) as partial:
        partial.mkdir()
        listed = sorted(place.glob("documents-*.parquet"))
        store.write(store.limited(store.of_files(listed), limit), partial)
    return short


def _moved(taken: Sequence[Path], folder: Path) -> list[Path]:
    """Renames files into one series. They are linked first: a kill in between loses nothing."""
    named = [folder / f"documents-{number:05d}.parquet" for number in range(len(taken))]
    for old in folder.glob("documents-*.parquet"):
        old.unlink()
    for source, place in zip(taken, named, strict=True):
        place.hardlink_to(source)
    return named
