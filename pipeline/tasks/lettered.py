"""Rows whose choices carry labels of their own: ARC and CommonsenseQA."""

from collections.abc import Mapping

from pike_mixing.errors import InputError
from pipeline.tasks.fields import Fields
from pipeline.tasks.task import Record, Row


def row(record: Record, place: str, cluster: str = "id") -> Row:
    """A question of ARC or CommonsenseQA, its right option found through the record's own labels.

    ARC labels options A to E in some questions and 1 to 5 in others: a key is no index.

    Args:
        record: A row of the data set.
        place: Split and number of the row, for messages.
        cluster: The field that names the row's cluster.

    Raises:
        InputError: a wrong schema, a hidden key or one that is none of the labels.
    """
    fields = Fields(record, place)
    choices = fields.value("choices")
    if not isinstance(choices, Mapping):
        raise InputError(f"{place}: 'choices' is {choices!r:.80}, not labels and texts")
    listed = Fields(choices, place)
    texts = listed.texts("text")
    labels = listed.texts("label")
    if len(labels) != len(texts) or len(set(labels)) != len(labels):
        raise InputError(f"{place}: labels {', '.join(labels)} do not name {len(texts)} options")
    key = fields.maybe_text("answerKey")
    if not key:
        raise InputError(f"{place}: 'answerKey' is hidden: this split has no labels, take another")
    if key not in labels:
        raise InputError(f"{place}: answer {key!r} is none of the labels {', '.join(labels)}")
    name = fields.text("id")
    return Row(
        id=name,
        key=name,
        query=fields.text("question"),
        options=texts,
        gold=labels.index(key),
        cluster=fields.text(cluster),
    )
