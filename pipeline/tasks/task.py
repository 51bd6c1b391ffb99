"""What a downstream task is made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
"""One row of a data set as it is stored there."""
CURATED_SPLIT = "train"
"""The split that holds the curated demonstrations."""


@dataclass(frozen=True)
class Row:
    """One question in the words of its task, whatever the formulation."""

    id: str
    """Unique among the rows of its split, and the same for every model."""
    key: str
    """What demonstrations are listed by or ordered by."""
    query: str
    """The question, goal or text to be continued, without a label in front."""
    options: tuple[str, ...]
    """Candidate answers in the data set's order, without surrounding blanks."""
    gold: int
    """Index of the right option."""
    cluster: str
    """Rows of one cluster (an article, a video, a goal) are no independent observations."""
    origin: str = ""
    """The part of the data set that it comes from, where there are several."""


@dataclass(frozen=True)
class Style:
    """How the prompts of a task are written around its rows (OLMES)."""

    label: str
    """What stands before the query: "Question: "."""
    answer: bool
    """Whether "Answer:" asks for a candidate that is not shown; otherwise it continues the query.
    """
    instruction: str = ""
    """Line between the query and shown options."""


@dataclass(frozen=True)
class DataFile:
    """One file of a data set's repository."""

    path: str
    sha256: str | None
    """Its SHA-256 at the pinned revision, where it is known."""


def data_files(path: str, **sha256: str) -> dict[str, DataFile]:
    """The files of splits, of known SHA-256 by split; in their paths {} is the split."""
    return {split: DataFile(path.format(split), digest) for split, digest in sha256.items()}


@dataclass(frozen=True)
class Task:
    """A multiple-choice task."""

    name: str
    repository: str
    """Id of its data set on the Hugging Face Hub."""
    revision: str
    """Commit of the repository, 40 hex digits."""
    files: Mapping[str, DataFile]
    """The file of each split."""
    licence: str
    style: Style
    split: str
    """The split whose rows are asked."""
    row: Callable[[Record, str], Row]
    """A record and its place ("validation:17") -> the row. Raises InputError naming the place."""
    items: int | None = None
    """So many rows are asked, the first of the split; None for all."""
    curated: tuple[str, ...] = ()
    """Keys of the demonstrations in their order; empty: they are rows of the split behind the asked
    ones, ordered by hash."""
    language: str = "en"
    further_splits: tuple[str, ...] = ()
    """Labelled splits that can be asked instead."""
    notice: str = ""
    """What a user must know before using the data set."""
