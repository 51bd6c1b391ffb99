"""PIQA (Bisk et al. 2019): which of two ways reaches a practical goal."""

import hashlib

from pipeline.tasks.fields import Fields
from pipeline.tasks.task import Record, Row, Style, Task, data_files


def row(record: Record, place: str) -> Row:
    """A goal with two ways; the data set has no ids, so a row is named by its place.

    One goal occurs in several rows with other ways: the goal is the cluster.
    """
    fields = Fields(record, place)
    goal = fields.text("goal")
    ways = tuple(fields.text(name) for name in ("sol1", "sol2"))
    return Row(
        id=place,
        key=goal,
        query=goal,
        options=ways,
        gold=fields.index("label", len(ways)),
        cluster=hashlib.sha256(goal.encode()).hexdigest()[:16],
    )


TASK = Task(
    name="piqa",
    # ybisk/piqa is a loading script, which `datasets` no longer runs.
    repository="baber/piqa",
    revision="142f6d7367fd9877f0fb3b5734ea6a545f54cdd1",
    files=data_files(
        "piqa_{}.parquet",
        validation="2b17ee1215b1ceb2ddabf4c90a05c5a8b833bef9d207960f57d111c43a2080f3",
        train="3114602b31fa724309a6c493cc86368c4eab7ab6e79e285056fd5ce3b60ddf02",
    ),
    licence="AFL-3.0 (its authors' repository; the data set's card on the Hub says unknown)",
    style=Style(label="Goal: ", answer=True),
    split="validation",
    row=row,
    curated=(
        "how do you stab something?",
        "how do you shake something?",
        "Clean tires",
        "how do you taste something?",
        "To create a makeshift ice pack,",
        "What should I use as a stain on a wooden bowl I've just made.",
        "How to boil eggs.",
    ),
)
