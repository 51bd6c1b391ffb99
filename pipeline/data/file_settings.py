"""Settings of the sources that read files: the user's own, and those of a dataset on the Hub.

The readers need large libraries, a plan that checks the settings has none: hence two modules.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pike_mixing.setting_limits import Limits, PositiveInt
from pipeline.data import document_cutting
from pipeline.runtime.validate_settings import OrOne
from pipeline.settings import Commit, HubId

Utf8Policy = Literal["error", "replace", "drop"]
Patterns = Annotated[tuple[Annotated[str, Limits(filled=True)], ...], Limits(filled=True), OrOne]
"""Paths or patterns of files; one may stand alone."""


Cut = Annotated[
    str,
    Limits(
        pattern="file|paragraphs|lines|[1-9][0-9]* characters",
        means="file, paragraphs, lines or, for example, 2000 characters",
        judge=document_cutting.cut_size_problem,
    ),
]


@dataclass(frozen=True)
class LocalSettings:
    """Documents in files: a text file or a part of it, a line of JSON, a record of a table."""

    files: Patterns
    """Patterns of paths, relative to the working directory (`**` crosses folders); the files are
    read in the order of their names. Formats: .parquet, .arrow, .txt, .jsonl and .json with a
    JSON object on each line, these last three also as .gz and .zst."""
    exclude: Patterns | None = None
    """Patterns of files that are not read, though `files` or `validation_files` match them."""
    documents: Cut = "file"
    """What a document is: "file" (a text file, or a record of another format), "paragraphs" of it
    (set off by blank lines), "lines", or "2000 characters" (any number), cut behind the last blank
    or line break among so many. Line ends and blank lines between documents are left out."""
    field: str = "text"
    """Name of the JSON field or the column that holds the text; `content.text` is the `text` within
    each `content`."""
    licence: str = "unknown"
    """Licence of the documents, for the record."""
    invalid_utf8: Utf8Policy = "error"
    """What to do with a text that is not valid UTF-8 (a lone surrogate in JSON counts as that):
    stop, put U+FFFD in place of what is invalid, or leave the document out and count it."""
    bytes: PositiveInt | None = None
    """Stop at the document that reaches so many UTF-8 bytes of text; absent: read all. If there are
    several files, the beginning of each is taken: the same percentage of every file's size."""
    validation_files: Patterns | None = None
    """Patterns of files that are the validation text, read whole; those that `files` matches too
    are not trained on. Absent: packing keeps its `validation_share` of the documents."""
    kind: Literal["local"] = "local"

    def validation_source(self) -> Self | None:
        """The source of the validation text, where it is named."""
        if not self.validation_files:
            return None
        # Without files of its own, but not without a split.
        return dataclasses.replace(
            self, files=self.validation_files, validation_files=(), bytes=None
        )


@dataclass(frozen=True)
class HuggingFaceSettings:
    """The first documents of a dataset's files, in the order of the files and their lines."""

    dataset: HubId
    """Id on the Hub, such as "allenai/c4"."""
    revision: Commit
    """Commit of the dataset, 40 hex digits: a branch can change under the experiment."""
    field: str
    """Column that holds the text."""
    bytes: PositiveInt
    """Stop at the document that reaches so many UTF-8 bytes."""
    licence: str
    """Licence of the dataset, for the record."""
    split: str = "train"
    """Split of the configuration; files that are named by `data_files` have none."""
    config: str | None = None
    """Configuration, where the dataset has several: "realnewslike"."""
    data_files: Patterns | None = None
    """Patterns of files to read instead of a configuration's, read pattern by pattern, by name.
    `multilingual/c4-hi*` also matches `c4-hi-Latn`: write `multilingual/c4-hi.*`."""
    invalid_utf8: Utf8Policy = "error"
    """What to do with a text that is not valid UTF-8: as of the kind local."""
    validation_data_files: Patterns | None = None
    """Patterns of files that are the validation text, beside `data_files`. Where neither these nor
    `validation_split` are given, packing keeps its `validation_share` of the documents."""
    validation_split: str | None = None
    """Split of the configuration that is the validation text."""
    validation_bytes: PositiveInt | None = None
    """The same limit for the validation text; absent: `bytes`."""
    kind: Literal["huggingface"] = "huggingface"

    def problems(self) -> list[str]:
        """Files that are named in two ways, or of validation in another way than the others."""
        problems = []
        if self.data_files and self.config:
            problems.append("data_files: stand instead of config; leave one of them out")
        if self.validation_data_files and not self.data_files:
            problems.append(
                "validation_data_files: stand beside data_files; write validation_split"
            )
        if self.validation_split and self.data_files:
            problems.append("validation_split: data_files have none; write validation_data_files")
        if self.validation_split == self.split:
            problems.append(f"validation_split: {self.split!r} is trained on: name another split")
        if self.validation_bytes and not (self.validation_data_files or self.validation_split):
            problems.append("validation_bytes: name validation_data_files or validation_split")
        return problems

    def validation_source(self) -> Self | None:
        """The source of the validation text, where it is named."""
        if not (self.validation_data_files or self.validation_split):
            return None
        return dataclasses.replace(
            self,
            data_files=self.validation_data_files,
            split=self.validation_split or self.split,
            bytes=self.validation_bytes or self.bytes,
            validation_data_files=None,
            validation_split=None,
            validation_bytes=None,
        )
