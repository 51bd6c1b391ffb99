"""Rows of a run as they come, for those who watch it.

    live/since-step{n}.jsonl    one JSON object a line: the table's name and the row's columns

Each file holds the rows since `parts/step{n}` and goes when the next part is there. Rows are
written between steps, once a second at most, so that a run which is killed has lost the step that
it was in, the one before and those of a second before at most.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pipeline.runtime import atomic_files

Value = int | float | str | None

SECONDS = 1.0
"""Between two writes."""


def places(folder: Path) -> dict[int, Path]:
    """A run's files of live rows, by the step of the part before."""
    result = (folder / "live").glob("since-step*.jsonl")
    numbers = {path.stem.removeprefix("since-step"): path for path in result}
    return {int(n): numbers[n] for n in sorted(filter(str.isdecimal, numbers), key=int)}


class Stream:
    """Writes them."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._now = folder, now
        self._lines: list[str] = []
        self._path: Path | None = None
        self._written = now()

    def add(self, table: str, row: Mapping[str, Value]) -> None:
        self._lines.append(json.dumps({"table": table, **row}))

    def after_step(self) -> None:
        """Writes what waits, where the last write is a second ago."""
        if self._now() - self._written >= SECONDS:
            self._write()

    def begin(self, step: int) -> None:
        """Writes what waits; later rows are those since the part of this step."""
        self._write()
        self._path = self._folder / "live" / f"since-step{step}.jsonl"

    def drop_before(self, step: int) -> None:
        """Deletes rows that the part of this step holds."""
        for number, path in places(self._folder).items():
            if number < step:
                atomic_files.remove(path)

    def clear(self) -> None:
        self._lines.clear()
        atomic_files.remove(self._folder / "live")

    def _write(self) -> None:
        self._written = self._now()
        if self._path is None or not self._lines:
            return
        self._path.parent.mkdir(exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in self._lines))
        self._lines.clear()
