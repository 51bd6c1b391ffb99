"""The user's own files: text, JSON lines (plain or compressed) and Parquet."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pike_mixing.errors import InputError
from pike_mixing.limits import Limits, PositiveInt
from pipeline.data import cutting, formats
from pipeline.data.documents import CUT, Document
from pipeline.runtime import atomic_files, file_patterns

Cut = Annotated[
    str,
    Limits(
        pattern="file|paragraphs|lines|[1-9][0-9]* characters",
        means="file, paragraphs, lines or, for example, 2000 characters",
    ),
]


@dataclass(frozen=True)
class Local:
    """Documents in files: a text file or a part of it, a line of JSON, or a Parquet record."""

    files: formats.Patterns
    """Patterns of paths, relative to the working directory (`**` crosses folders); the files are
    read in the order of their names. Formats: .parquet, .txt, .jsonl and .json with a
    JSON object on each line, these three also as .gz and .zst."""
    documents: Cut = "file"
    """What a document of a text file is: "file", "paragraphs" (set off by blank lines), "lines",
    or "2000 characters" (any number), behind the last blank or line break among so many. Line ends
    and blank lines between documents are left out; other formats have documents of their own."""
    field: str = "text"
    """Name of the JSON field or Parquet column that holds the text."""
    licence: str = "unknown"
    """Licence of the documents, for the record."""
    invalid_utf8: formats.Utf8Policy = "error"
    """What to do with a text that is not valid UTF-8 (a lone surrogate in JSON counts as that):
    stop, put U+FFFD in place of what is invalid, or leave the document out and count it."""
    bytes: PositiveInt | None = None
    """Stop at the document that reaches so many UTF-8 bytes; absent: read all."""

    def problems(self) -> list[str]:
        """Pieces that are too long."""
        return [f"documents: {problem}" for problem in cutting.problems(self.documents)]

    @property
    def entropy_nats_per_character(self) -> None:
        """Unknown."""

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """All documents in the order of the files' names.

        Raises:
            InputError: a file that cannot be read as what its suffix says; its name and, where
                there is one, the line are in the message. Files that `documents` cannot cut, or
                must. A file that was written to meanwhile.
        """
        listed = self.paths()
        self._refuse_uncut(listed)
        for path, name in listed:
            before = _state(path)
            if not before[0]:
                raise InputError(f"{path} is empty: remove it or leave it out of `files`")
            yield from formats.documents(self._reading(path, name, skipped))
            if _state(path) != before:
                raise InputError(f"{path} was changed while it was read: start again")

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """The revision, which is the identity of all files, and the files."""
        listed = [
            {"file": name, "bytes": _state(path)[0], "sha256": atomic_files.sha256(path)}
            for path, name in self.paths()
        ]
        return {"revision": f"sha256 {atomic_files.digest(listed)}", "source_files": listed}

    def paths(self) -> list[tuple[Path, str]]:
        """Each file with its name relative to the innermost folder that holds them all.

        Raises:
            InputError: a pattern without a file, or a file of an unknown format.
        """
        found: set[str] = set()
        for pattern in self.files:
            here = file_patterns.files(pattern)
            if not here:
                hint = f": name its files: {pattern}/**" if Path(pattern).is_dir() else ""
                raise InputError(f"files: no file matches {pattern!r} from {Path.cwd()}{hint}")
            found.update(here)
        unknown = [name for name in sorted(found) if formats.suffix(name) not in formats.FORMATS]
        if unknown:
            known = ", ".join(formats.FORMATS)
            first = ", ".join(unknown[:3]) + (", ..." if len(unknown) > 3 else "")
            raise InputError(f"files: {first}: formats are told by suffix: {known}")
        common = os.path.commonpath([Path(name).absolute().parent for name in found])
        return [
            (Path(name), Path(os.path.relpath(name, common)).as_posix()) for name in sorted(found)
        ]

    def _refuse_uncut(self, listed: list[tuple[Path, str]]) -> None:
        """Stops at files that `documents` does not fit."""
        other = [path for path, name in listed if formats.suffix(name) not in formats.TEXT]
        if other and self.documents != "file":
            raise InputError(
                f"documents: {self.documents!r} is for text files, but {other[0]} has documents of "
                "its own: leave `documents` out, or name only text files in `files`"
            )
        (path, _), *further = listed
        if not (further or other) and self.documents == "file" and _state(path)[0]:
            raise InputError(
                f"{path} is the only file, and a text file is one document, of which a corpus "
                f"needs some to train on and some for validation: {CUT}, or name more files"
            )

    def _reading(self, path: Path, name: str, skipped: Counter[str]) -> formats.Reading:
        return formats.Reading(
            name=name,
            place=str(path),
            remedy="fetch or make it anew",
            field=self.field,
            invalid_utf8=self.invalid_utf8,
            path=path,
            skipped=skipped,
            shorter=self._shorter(name),
            cut=self.documents,
        )

    def _shorter(self, name: str) -> str:
        """What to do with a document of a file that is too long."""
        if formats.suffix(name) not in formats.TEXT:
            return "cut it into several"
        return CUT if self.documents == "file" else "write `documents: 2000 characters`"


def _state(path: Path) -> tuple[int, int]:
    """Size and time of a file's content.

    Raises:
        InputError: the file is gone, or may not be looked at.
    """
    try:
        facts = path.stat()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}: fetch or make it anew") from error
    return facts.st_size, facts.st_mtime_ns
