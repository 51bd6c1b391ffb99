"""What each kind of source is: for readers, and for a plan, which waits for no library."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

CUT = "write `documents: paragraphs` (or lines, or 2000 characters) beside its `files`"
"""What to do where a text file of the user's own is one document and should be several."""
CUT_LONG = "cut long documents: write `documents: 2000 characters` beside its `files`"
"""What to do where some documents are much longer than others."""


class Document(NamedTuple):
    """One text; the id names its place in the source."""

    id: str
    text: str


class NamedFile(NamedTuple):
    """A file of the user's own; the name tells it from the others of its source."""

    path: Path
    name: str


class Source(Protocol):
    """Settings of a kind of source, which know how to read it."""

    @property
    def bytes(self) -> int | None:
        """Reading stops at the document that reaches so many UTF-8 bytes; None: at the end."""

    @property
    def licence(self) -> str:
        """Licence of the documents, for the record."""

    @property
    def entropy_nats_per_character(self) -> float | None:
        """Exact entropy rate where it is known: no model's loss can lie below it."""
        return None

    def read(
        self, skipped: Counter[str], downloaded_files: list[dict[str, Any]]
    ) -> Iterator[Document]:
        """All documents, always in the same order; counts those left out by reason.

        Adds to `downloaded_files` what the manifest says of each file that was downloaded.
        """

    def revision_facts(self, documents_sha256: str, /) -> dict[str, Any]:
        """What the manifest says of the source; `revision` at least."""

    def user_files(self) -> list[NamedFile]:
        """The user's own files that it reads."""
        return []

    def validation_source(self) -> "Source | None":
        """The source of its own validation documents; None where packing chooses some."""
        return None
