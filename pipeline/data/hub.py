"""Datasets of the Hugging Face Hub, streamed in order from a pinned revision."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import datasets

# The transport's own error (httpx or requests, by version); a refused connection is not an OSError.
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined, unused-ignore]

from pipeline.data.documents import Document
from pipeline.errors import InputError


@dataclass(frozen=True)
class HuggingFace:
    """The first documents of a dataset's split, in the order of its files and their lines."""

    dataset: str
    """Id on the Hub, such as "allenai/c4"."""
    split: str
    """Split to read: "train"."""
    revision: str
    """Commit of the dataset, 40 hex digits: a branch can change under the experiment."""
    field: str
    """Column that holds the text."""
    bytes: int
    """Stop at the document that reaches so many UTF-8 bytes."""
    licence: str
    """Licence of the dataset, for the record."""
    config: str | None = None
    """Configuration, where the dataset has several: "en-multi"."""
    data_files: tuple[str, ...] | None = None
    """Patterns of the files to read instead of a configuration's. `c4-hi*` also matches
    `c4-hi-Latn`: write `c4-hi.*`."""

    def problems(self) -> list[str]:
        """Values that read nothing, or not the same thing twice."""
        found = []
        if not re.fullmatch("[0-9a-f]{40}", self.revision):
            found.append(
                f"revision: {self.revision!r} is not a commit of 40 hex digits; the dataset's page "
                "lists them under Files, History"
            )
        if self.bytes < 1:
            found.append("bytes: must be at least 1")
        return found

    @property
    def entropy_nats_per_character(self) -> None:
        """Unknown."""

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """Documents in stored order, never shuffled: a shuffled stream cannot be read twice alike.

        Raises:
            InputError: no connection, no such dataset, revision or split, or a wrong column.
        """
        number = 0
        try:
            for number, record in enumerate(self._stream(), start=1):
                yield from self._document(record, number, skipped)
        except (datasets.exceptions.DatasetsError, HTTPError, OSError, EOFError) as error:
            raise self._unreachable(error, number) from error

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """The revision, and with which version of `datasets` it was read."""
        return {"revision": self.revision, "datasets": datasets.__version__}

    def _stream(self) -> Iterable[dict[str, Any]]:
        try:
            stream: Iterable[dict[str, Any]] = datasets.load_dataset(
                self.dataset,
                self.config,
                split=self.split,
                revision=self.revision,
                data_files=list(self.data_files) if self.data_files else None,
                streaming=True,
            )
        except ValueError as error:
            # How `datasets` answers an unknown configuration or split; its message lists them.
            raise InputError(f"dataset {self.dataset!r} cannot be opened: {error}") from error
        return stream

    def _document(
        self, record: dict[str, Any], number: int, skipped: Counter[str]
    ) -> Iterator[Document]:
        place = f"{self.dataset} {self.split}:{number}"
        if self.field not in record:
            found = ", ".join(map(repr, record))
            raise InputError(f"{place}: no column {self.field!r}; columns: {found}")
        text, identity = record[self.field], record.get("id")
        if text is None:
            skipped["null"] += 1
        elif not isinstance(text, str):
            raise InputError(f"{place}: {self.field!r} is {text!r:.80}, not a text")
        elif not text.strip():
            skipped["blank"] += 1
        else:
            named = isinstance(identity, str | int)
            yield Document(str(identity) if named else f"{self.split}:{number}", text)

    def _unreachable(self, error: Exception, number: int) -> InputError:
        return InputError(
            f"dataset {self.dataset!r} at {self.revision} cannot be read "
            f"(record {number + 1:,}: {type(error).__name__}: {error}): check its name, revision "
            "and your connection (HF_HUB_OFFLINE must not be set: a stream needs the Hub; "
            "HF_ENDPOINT names a mirror, HF_TOKEN opens gated sets), then start again; a corpus "
            "that was packed needs no connection"
        )
