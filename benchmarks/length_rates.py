"""How often verdicts are wrong where nothing differs in all, but by the documents' length.

    python -m benchmarks.length_rates [--draws 200]

Documents have lognormal lengths, some of them cut, with which their difference correlates: with
log length or with length itself. Over the tokens of all such text its mean is zero. The mean over
the tokens of a sample is judged as that of runs: verdicts are given where
`skew_limited_effective_documents` finds enough of them. Beside these it is counted how many would
be wrong if no interval were wider for lengths, and how many would be given and wrong if the shares
of tokens alone decided, too.

Record: benchmarks/results/length_rates.json, from which docs/error-rates.md is written.

Shapes: S seeds, G documents of a domain, K domains.
"""

import dataclasses
import functools
import itertools
from dataclasses import dataclass

import numpy as np

from benchmarks import measure
from pike_mixing.arrays import Floats
from pike_mixing.comparison import mean_difference
from pike_mixing.comparison.mean_difference import DocumentDifferences
from pipeline.runtime import code_fingerprint

Z_N = np.linspace(-9, 9, 20_001)
"""Places at which means over the normal distribution are taken."""
P_N = np.exp(-(Z_N**2) / 2) / np.exp(-(Z_N**2) / 2).sum()


@dataclass(frozen=True)
class Lengths:
    """Documents of lognormal length, whose difference follows their length."""

    spread: float
    """Standard deviation of log length."""
    cut: bool
    """Whether longer ones are cut one standard deviation above the median."""
    follows: str = ""
    """What the difference follows: "log length" or "length"; "" for nothing."""

    def length(self, z: Floats) -> Floats:
        """Lengths at places of the normal distribution."""
        return np.exp(self.spread * (np.minimum(z, 1) if self.cut else z))

    def followed(self, z: Floats) -> Floats:
        """What the difference follows, with variance 1 over documents and mean 0 over tokens."""
        mean, sd = self._moments
        return (self._value(z) - mean) / sd

    @functools.cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean over tokens and standard deviation over documents of what is followed."""
        of_N, length_N = self._value(Z_N), self.length(Z_N)
        variance = float(P_N @ of_N**2 - (P_N @ of_N) ** 2)
        return float((P_N * length_N) @ of_N / (P_N @ length_N)), variance**0.5

    def _value(self, z: Floats) -> Floats:
        return self.length(z) if self.follows == "length" else np.log(self.length(z))


@dataclass(frozen=True)
class Cell:
    """What is drawn."""

    lengths: Lengths
    correlation: float
    """Of a document's difference with what it follows."""
    documents: int
    domains: int

    def parts(self, random: np.random.Generator, seeds: int) -> list[DocumentDifferences]:
        """The parts of a mean over domains, in which documents count most."""
        z_KxG = random.standard_normal((self.domains, self.documents))
        other_KxG = (1 - self.correlation**2) ** 0.5 * random.standard_normal(z_KxG.shape)
        of_document_KxG = self.correlation * self.lengths.followed(z_KxG) + other_KxG
        of_seed_Sx1 = 0.1 * self.documents**-0.5 * random.standard_normal((seeds, 1))
        result = []
        for k, apart_G in enumerate(of_document_KxG):
            apart_SxG = apart_G + of_seed_Sx1
            apart_SxG = apart_SxG + 0.1 * random.standard_normal(apart_SxG.shape)
            length_G, names = self.lengths.length(z_KxG[k]), np.arange(self.documents)
            names = names + k * self.documents
            result.append(
                mean_difference.differences_of_sums(apart_SxG * length_G, length_G, names)
            )
        return result


CELLS = [
    Cell(Lengths(spread, cut, follows), correlation, documents, domains)
    for (spread, cut), (follows, correlation), documents, domains in itertools.product(
        [(0.4, False), (0.5, False), (0.6, False), (0.8, False), (1.0, True), (1.5, True)],
        [("", 0), *itertools.product(("log length", "length"), (0.4, 0.7, 0.9))],
        (20, 30, 50, 100, 300, 1000),
        (1, 3),
    )
]
SEEDS = (1, 3, 5)
"""One seed: there verdicts are about its models alone."""


def judge(cell: Cell, random: np.random.Generator, seeds: int, draws: int) -> dict[str, float]:
    """How many verdicts are given and wrong, and would be by plain intervals; sums of widths.

    `plain_wrong` is of those given; `all_given` by the shares alone, `all_wrong` of these, plain.
    """
    names = ("draws", "given", "wrong", "plain_wrong", "all_given", "all_wrong")
    counts, width = dict.fromkeys(names, 0), 0.0
    for _ in range(draws):
        parts = cell.parts(random, seeds)
        found = mean_difference.estimate(parts)
        assert found.of_items is not None
        plain = dataclasses.replace(found, of_items=found.of_items / found.factor**0.5)
        half, plain_half = map(mean_difference.half_width, (found, plain))
        assert half is not None
        assert plain_half is not None
        wrong, plain_wrong = (abs(found.difference) > one for one in (half, plain_half))
        by_shares = min(1 / float((one.share_G**2).sum()) for one in parts)
        told = found.effective >= mean_difference.LEAST_DOCUMENTS
        all_told = by_shares >= mean_difference.LEAST_DOCUMENTS
        for name, more in (
            ("draws", True),
            ("given", told),
            ("wrong", told and wrong),
            ("plain_wrong", told and plain_wrong),
            ("all_given", all_told),
            ("all_wrong", all_told and plain_wrong),
        ):
            counts[name] += more
        width += half / plain_half if told else 0.0
    return {**counts, "width": width}


def main() -> None:
    """Draws, judges and records."""
    chosen = measure.arguments(__doc__, "length_rates", draws=200)
    cells = []
    for (n, cell), seeds in itertools.product(enumerate(CELLS), SEEDS):
        counts = judge(cell, np.random.default_rng([n, seeds]), seeds, chosen.draws)
        about = dataclasses.asdict(cell)
        cells.append({**about.pop("lengths"), **about, "seeds": seeds, **counts})
    measure.record(chosen, {"commit": code_fingerprint.current_commit(), "cells": cells})


if __name__ == "__main__":
    main()
