"""The stage: every check of the theory as records, which stand on no data.

example.parquet            Example 1 step by step: Figure 3
example_settings.parquet   adaptive against the best static mixture over many settings
descent.parquet            the loss after a step beside the bounds on it
iterations.parquet         steps until the gradients are small beside the bounds on them
manifest.json
"""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.runtime import atomic_files, made_from
from pipeline.theory import convergence, descent, example
from pipeline.theory.problem import Row

SEED = 0


@dataclasses.dataclass(frozen=True)
class TheorySizes:
    """How much is simulated."""

    paths: int = 4000
    """Paths of SGD behind a mean of Example 1 and of uniform mixing."""
    draws: int = 20_000
    """Batches behind the mean of one step."""
    seeds: int = 8
    """Paths of conceptual PiKE; each solves for its weights at every step."""


def write_theory_records(out: Path, sizes: TheorySizes = TheorySizes()) -> None:
    """Writes the folder `out` with all records, in some fifteen seconds; it appears whole."""
    snapshot = made_from.InputSnapshot("theory", [__name__])
    with atomic_files.atomic_write(out, "theory") as partial:
        partial.mkdir()
        for name, rows in theory_records(sizes).items():
            pq.write_table(
                pa.Table.from_pylist(rows), partial / f"{name}.parquet", compression="zstd"
            )
        snapshot.write_manifest(
            partial / atomic_files.MANIFEST,
            settings={"seed": SEED, **dataclasses.asdict(sizes)},
            files=sorted(partial.glob("*.parquet")),
            facts={},
        )


def theory_records(sizes: TheorySizes) -> dict[str, list[Row]]:
    """The rows of every record by its name."""

    def random_generator(index: int) -> np.random.Generator:
        return np.random.default_rng([SEED, index])

    return {
        "example": example.curve_rows(example.FIGURE, sizes.paths, random_generator(0)),
        "example_settings": example.comparison_rows(
            example.compared_settings(), sizes.paths, random_generator(1)
        ),
        "descent": descent.descent_rows(sizes.draws, random_generator(3)),
        "iterations": convergence.convergence_rows(sizes.seeds, sizes.paths, random_generator(5)),
    }
