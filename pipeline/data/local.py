"""The user's own files: text, JSON lines (plain or compressed) and Parquet."""

import glob
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.data import formats
from pipeline.data.documents import Document
from pipeline.errors import InputError


@dataclass(frozen=True)
class Local:
    """Documents in files: a document is a .txt file, a line of JSON, or a Parquet record."""

    files: tuple[str, ...]
    """Patterns of paths, relative to the working directory (`**` crosses folders); the files are
    read in the order of their names. Formats: .txt, .parquet, .jsonl and .json with a
    JSON object on each line, these two also as .gz and .zst."""
    field: str = "text"
    """Name of the JSON field or Parquet column that holds the text."""
    licence: str = "unknown"
    """Licence of the documents, for the record."""
    invalid_utf8: formats.Utf8Policy = "error"
    """What to do with a text that is not valid UTF-8 (a lone surrogate in JSON counts as that):
    stop, put U+FFFD in place of what is invalid, or leave the document out and count it."""
    bytes: int | None = None
    """Stop at the document that reaches so many UTF-8 bytes; absent: read all."""

    def problems(self) -> list[str]:
        """Settings that read nothing."""
        return [] if self.files else ["files: name at least one pattern"]

    @property
    def entropy_nats_per_character(self) -> None:
        """Unknown."""

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """All documents in the order of the files' names.

        Raises:
            InputError: a file that cannot be read as what its suffix says; its name and, where
                there is one, the line are in the message.
        """
        for path, name in self.paths():
            if not path.stat().st_size:
                raise InputError(f"{path} is empty: remove it or leave it out of `files`")
            yield from formats.documents(self._reading(path, name, skipped))

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """The revision, which is the identity of all files, and the files."""
        listed = [
            {"file": name, "bytes": path.stat().st_size, "sha256": files.sha256(path)}
            for path, name in self.paths()
        ]
        return {"revision": f"sha256 {files.digest(listed)}", "source_files": listed}

    def paths(self) -> list[tuple[Path, str]]:
        """Each file with its name relative to the innermost folder that holds them all.

        Raises:
            InputError: a pattern without a file, or a file of an unknown format.
        """
        found: set[str] = set()
        for pattern in self.files:
            # Path.glob refuses absolute patterns.
            matches = glob.glob(pattern, recursive=True)  # noqa: PTH207
            here = [match for match in matches if Path(match).is_file()]
            if not here:
                raise InputError(f"files: no file matches {pattern!r} from {Path.cwd()}")
            found.update(here)
        unknown = [name for name in sorted(found) if formats.suffix(name) not in formats.FORMATS]
        if unknown:
            known = ", ".join(formats.FORMATS)
            raise InputError(f"files: {', '.join(unknown)}: formats are told by suffix: {known}")
        common = os.path.commonpath([Path(name).absolute().parent for name in found])
        return [
            (Path(name), Path(os.path.relpath(name, common)).as_posix()) for name in sorted(found)
        ]

    def _reading(self, path: Path, name: str, skipped: Counter[str]) -> formats.Reading:
        return formats.Reading(
            name=name,
            place=str(path),
            remedy="fetch or make it anew",
            field=self.field,
            invalid_utf8=self.invalid_utf8,
            opened=lambda: path.open("rb"),
            skipped=skipped,
        )
