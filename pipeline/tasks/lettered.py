"""Rows whose choices carry labels of their own: ARC and CommonsenseQA."""

from collections.abc import Mapping

from pike_mixing.errors import InputError
from pipeline.tasks import fields
from pipeline.tasks.task import Record, Row


def row(record: Record, place: str, cluster: str = "id") -> Row:
    """A question of ARC or CommonsenseQA; `cluster` is the field that names its cluster."""
    choices, gold = options(record, place)
    name = fields.text(record, "id", place)
    return Row(
        id=name,
        key=name,
        query=fields.text(record, "question", place),
        options=choices,
        gold=gold,
        cluster=fields.text(record, cluster, place),
    )


def options(record: Record, place: str) -> tuple[tuple[str, ...], int]:
    """The options, and the index of the right one found through the record's own labels.

    ARC labels options A to E in some questions and 1 to 5 in others, so that a key is not a
    position: "2" among labels 1, 2, 3, 4 is the second.

    Raises:
        InputError: a wrong schema, a hidden key or one that is none of the labels.
    """
    choices = fields.value(record, "choices", place)
    if not isinstance(choices, Mapping):
        raise InputError(f"{place}: 'choices' is {choices!r:.80}, not labels and texts")
    texts = fields.texts(choices, "text", place)
    labels = fields.texts(choices, "label", place)
    if len(labels) != len(texts) or len(set(labels)) != len(labels):
        raise InputError(f"{place}: labels {', '.join(labels)} do not name {len(texts)} options")
    key = fields.maybe_text(record, "answerKey", place)
    if not key:
        raise InputError(f"{place}: 'answerKey' is hidden: this split has no labels, take another")
    if key not in labels:
        raise InputError(f"{place}: answer {key!r} is none of the labels {', '.join(labels)}")
    return texts, labels.index(key)
