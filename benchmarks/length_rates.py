"""How often verdicts are wrong where nothing differs in all, but by the documents' length.

    python -m benchmarks.length_rates [--draws 200]

Documents have lognormal lengths, with which their difference correlates; over the tokens of all
such text its mean is zero. The mean over the tokens of a sample is judged as that of runs: verdicts
are given where `like_size.effective_documents` finds enough of them. Beside these it is counted how
many would be given and wrong if the shares of tokens alone decided.

Record: benchmarks/results/length_rates.json, from which docs/error-rates.md is written.

Shapes: S seeds, G documents of a domain, K domains.
"""

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from benchmarks import measure
from pike_mixing.comparison import mean_difference
from pike_mixing.comparison.mean_difference import Part
from pipeline.runtime import code_fingerprint


@dataclass(frozen=True)
class Lengths:
    """Documents of lognormal length, whose difference follows their length."""

    correlation: float
    """Of a document's difference with its log length."""
    spread: float
    """Standard deviation of log length."""
    documents: int
    domains: int

    def parts(self, random: np.random.Generator, seeds: int) -> list[Part]:
        """The parts of a mean over domains, in which documents count most.

        The mean over the tokens of all such text is zero: there log length lies `spread` of its
        standard deviations above its mean over documents.
        """
        log_KxG = random.standard_normal((self.domains, self.documents))
        other_KxG = (1 - self.correlation**2) ** 0.5 * random.standard_normal(log_KxG.shape)
        of_document_KxG = self.correlation * (log_KxG - self.spread) + other_KxG
        of_seed_Sx1 = 0.1 * self.documents**-0.5 * random.standard_normal((seeds, 1))
        result = []
        for k, apart_G in enumerate(of_document_KxG):
            apart_SxG = apart_G + of_seed_Sx1
            apart_SxG = apart_SxG + 0.1 * random.standard_normal(apart_SxG.shape)
            length_G, names = np.exp(self.spread * log_KxG[k]), np.arange(self.documents)
            names = names + k * self.documents
            result.append(mean_difference.part(apart_SxG * length_G, length_G, names))
        return result


LENGTHS = [
    Lengths(*place)
    for place in itertools.product(
        (0, 0.4, 0.7, 0.9), (0.4, 0.8, 1.0, 1.5), (20, 30, 50, 100, 300, 1000), (1, 3)
    )
]
SEEDS = (1, 3, 5)
"""One seed: there verdicts are about its models alone."""


def judge(lengths: Lengths, random: np.random.Generator, seeds: int, draws: int) -> dict[str, int]:
    """How many verdicts are given and wrong, and how many would be by the shares alone."""
    counts = dict.fromkeys(("draws", "given", "wrong", "all_given", "all_wrong"), 0)
    for _ in range(draws):
        parts = lengths.parts(random, seeds)
        found = mean_difference.estimate(parts)
        half = mean_difference.half_width(found)
        assert half is not None
        wrong = abs(found.difference) > half
        by_shares = min(1 / float((one.share_G**2).sum()) for one in parts)
        told = found.effective >= mean_difference.LEAST_DOCUMENTS
        all_told = by_shares >= mean_difference.LEAST_DOCUMENTS
        for name, more in (
            ("draws", True),
            ("given", told),
            ("wrong", told and wrong),
            ("all_given", all_told),
            ("all_wrong", all_told and wrong),
        ):
            counts[name] += bool(more)
    return counts


def main() -> None:
    """Draws, judges and records."""
    chosen = measure.arguments(__doc__, "length_rates", draws=200)
    cells = []
    for (n, lengths), seeds in itertools.product(enumerate(LENGTHS), SEEDS):
        counts = judge(lengths, np.random.default_rng([n, seeds]), seeds, chosen.draws)
        cells.append(dataclasses.asdict(lengths) | {"seeds": seeds} | counts)
    measure.record(chosen, {"commit": code_fingerprint.commit(), "cells": cells})


if __name__ == "__main__":
    main()
