"""Prompts of the three formulations, as pure functions of a row (OLMES's texts).

cf     the text of a candidate is scored, and no candidate is shown
mcf    candidates are shown behind letters, and the letter is scored
hyb    candidates are shown behind letters, and the text is scored

Everything is cut at one space, and the space belongs to the candidate: no piece of a SentencePiece
model has a space inside.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.tasks.task import Row, Style

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


def prompt(row: Row, style: Style, formulation: Formulation) -> Prompt:
    """The question about a row.

    Args:
        row: The question.
        style: How the task writes its prompts.
        formulation: cf, mcf or hyb.
    """
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


def demonstration(row: Row, style: Style, formulation: Formulation) -> str:
    """A question with its right answer.

    Args:
        row: The question.
        style: How the task writes its prompts.
        formulation: cf, mcf or hyb.
    """
    question = prompt(row, style, formulation)
    return question.context + question.candidates[row.gold]


def joined(demonstrations: Sequence[str], context: str) -> str:
    """The whole text in front of a candidate."""
    return SEPARATOR.join([*demonstrations, context])
