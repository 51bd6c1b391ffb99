"""What the recorded results say of the bars that the project sets itself.

One function for each benchmark turns its record into rows of docs/performance.md. A bar is a
bound; a row without one is shown for comparison. What misses its bar says why.
"""

from collections.abc import Callable

from benchmarks.bar import Bar, Record
from benchmarks.bars_of_data import of_memory, of_packing, of_reading
from benchmarks.bars_of_training import (
    of_firing,
    of_gpu,
    of_interruption,
    of_loss,
    of_mixing,
    of_training,
)


def of_planning(record: Record) -> list[Bar]:
    """A dry run."""
    seconds = record["median_seconds_per_thousand_jobs"]
    return [
        Bar(
            f"seconds to plan a thousand of {record['jobs']:,} jobs",
            seconds["ours"],
            "{:.2f} s",
            peer="an almost empty workflow",
            theirs=seconds["almost empty"],
        )
    ]


_SCORED = {
    "HellaSwag 0-shot": 2.0,
    "HellaSwag 7-shot": 8.0,
    "PIQA 7-shot": 8.0,
    "ARC-Easy 7-shot": 20.0,
    "CommonsenseQA 7-shot": 20.0,
}
"""Least ratios to the peer's time."""


def of_scoring(record: Record) -> list[Bar]:
    """Multiple-choice questions beside the harness's own back end, with the same weights."""
    rows = []
    for size, tasks in record["tasks"].items():
        for name, found in tasks.items():
            rows.append(
                Bar(
                    f"times as fast as the peer, {name}, {size}",
                    found["clock"]["times_as_fast"],
                    "{:.1f} x",
                    least=_SCORED.get(name),
                    peer="lm-evaluation-harness's Hugging Face back end, "
                    + ("the same picks" if found["same_picks"] else "OTHER PICKS")
                    + f", within {found['largest_difference_nats']:.0e} nats",
                )
            )
    return rows


BENCHMARKS: dict[str, tuple[str, str, Callable[[Record], list[Bar]]]] = {
    "training": ("Training steps", "python -m benchmarks.training", of_training),
    "firing": ("Gradient statistics", "python -m benchmarks.firing", of_firing),
    "mixing": ("Mixing rules", "python -m benchmarks.mixing", of_mixing),
    "loss": ("The loss over a large vocabulary", "python -m benchmarks.loss", of_loss),
    "interruption": ("Interruptions", "python -m benchmarks.interruption", of_interruption),
    "scoring-harness": (
        "Multiple-choice questions",
        "python -m benchmarks.scoring --models small --peer harness",
        of_scoring,
    ),
    "packing": ("Packing", "python -m benchmarks.packing", of_packing),
    "reading": ("Reading", "python -m benchmarks.reading", of_reading),
    "memory": ("Memory", "python -m benchmarks.memory", of_memory),
    "planning": ("Planning", "python -m benchmarks.planning", of_planning),
    "gpu": ("A GPU", "python -m benchmarks.gpu", of_gpu),
}
"""By the name of the record: title, command, and what its rows are."""
UNMEASURED = {
    "gpu": "No GPU was at hand. That two runs with `deterministic: true` have the same bits on one "
    "has tests (`pytest -m device`), which were not run either",
}
"""Why a record is missing, whose bars are shown all the same."""
