"""What a downstream task is made of, and its prompts as pure functions of a row (OLMES's texts).

cf     the text of a candidate is scored, and no candidate is shown
mcf    candidates are shown behind letters, and the letter is scored
hyb    candidates are shown behind letters, and the text is scored

Everything is cut at one space, and the space belongs to the candidate: no piece of a SentencePiece
model has a space inside.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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


def data_files(path_pattern: str, **sha256_by_split: str) -> dict[str, DataFile]:
    """The files of splits, of known SHA-256 by split; in their paths {} is the split."""
    return {
        split: DataFile(path_pattern.format(split), digest)
        for split, digest in sha256_by_split.items()
    }


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


Formulation = Literal["cf", "mcf", "hyb"]

SEPARATOR = "\n\n"
"""Between demonstrations, and between the last one and the question."""

ANSWER = "Answer:"


@dataclass(frozen=True)
class Prompt:
    """What is asked about one row, demonstrations left out."""

    context: str
    candidates: tuple[str, ...]
    """Scored texts in the order of the options, each with its leading space."""
    unconditional: str
    """What stands before a candidate that is scored without the question; may be empty."""


def make_prompt(row: Row, style: Style, formulation: Formulation) -> Prompt:
    """What is asked about a row, in the task's style."""
    lines = [style.label + row.query]
    letters = string.ascii_uppercase[: len(row.options)]
    assert len(letters) == len(row.options), "more options than letters"
    if formulation != "cf":
        lines += [style.instruction] if style.instruction else []
        # The space before the letter makes it the same piece here as behind "Answer:".
        lines += [f" {letter}. {text}" for letter, text in zip(letters, row.options, strict=True)]
    asks = style.answer or formulation != "cf"
    scored = tuple(letters) if formulation == "mcf" else row.options
    return Prompt(
        context="\n".join([*lines, ANSWER] if asks else lines),
        candidates=tuple(f" {text}" for text in scored),
        unconditional=ANSWER if asks else "",
    )


def make_demonstration(row: Row, style: Style, formulation: Formulation) -> str:
    """A question with its right answer."""
    question = make_prompt(row, style, formulation)
    return question.context + question.candidates[row.gold]


def join_prompt(demonstrations: Sequence[str], context: str) -> str:
    """The whole text in front of a candidate."""
    return SEPARATOR.join([*demonstrations, context])
