"""Which solved questions stand in front of a question: fixed for all items of a task.

For English tasks these are the first of OLMES's curated lists, found by id in the training split;
seven is the most that all four lists have. Translated HellaSwag has no training split: there they
are rows behind the asked ones, of other articles and videos, in the order of a hash. No random
generator takes part, so that no library's version can change them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from pike_mixing.errors import InputError
from pipeline.tasks.task import CURATED_SPLIT, Row, Task

SALT = "pike-demos-v1"
T = TypeVar("T")


def curated(task: Task, keyed: Iterable[tuple[str, T]]) -> list[T]:
    """What has the keys of the curated list, in its order; of several with one key the first.

    Raises:
        InputError: some are not there.
    """
    result: dict[str, T] = {}
    for key, value in keyed:
        result.setdefault(key, value)
    missing = [key for key in task.curated if key not in result]
    if missing:
        raise InputError(
            f"{task.name}: {len(missing)} of {len(task.curated)} demonstrations are not in the "
            f"{CURATED_SPLIT} split ({missing[0]!r} is the first): it is another version of the "
            "data set; fetch the pinned one"
        )
    return [result[key] for key in task.curated]


def hashed(task: Task, evaluated: Sequence[Row], behind: Sequence[Row], seed: int) -> list[Row]:
    """All rows that may be demonstrations, in the order of their hash.

    Args:
        task: Gives the language, which enters the hash.
        evaluated: Rows that are evaluated.
        behind: Rows that are not; those of an asked row's article or video are left out.
        seed: Another one gives another order.
    """
    taken = {row.cluster for row in evaluated}
    free = [row for row in behind if row.cluster not in taken]

    def place(row: Row) -> str:
        text = f"{SALT}|{task.language}|{seed}|{row.key}"
        return hashlib.sha256(text.encode()).hexdigest()

    return sorted(free, key=place)


def chosen(
    task: Task, evaluated: Sequence[Row], candidates: Sequence[Row], shots: int
) -> list[Row]:
    """The first `shots` of the candidates.

    Args:
        task: The task.
        evaluated: The asked rows.
        candidates: Rows that may be demonstrations, in their order.
        shots: How many are taken.

    Raises:
        InputError: there are too few, or an asked question is among them.
    """
    if shots > len(candidates):
        raise InputError(
            f"{task.name}: {shots} shots were asked for, but there are {len(candidates)} "
            "demonstrations: lower shots" + ("" if task.curated else ", or items")
        )
    taken = list(candidates[:shots])
    questions = {row.query for row in evaluated}
    for row in taken:
        if row.query in questions:
            raise InputError(
                f"{task.name}: the demonstration {row.key!r} is also an evaluated question: "
                "evaluate another split"
            )
    return taken
