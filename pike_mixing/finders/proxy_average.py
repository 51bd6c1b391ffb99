"""The average weights of one proxy run: how DoReMi and DoGE hand on what they learned."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.errors import InputError
from pike_mixing.finders.interface import FinderResult, Reads, Swarm
from pike_mixing.numerics.simplex import effective_domains
from pike_mixing.settings import CheckedSettings

AVERAGE = "average_K"
"""Name of the average in the state of the mixing methods that keep one."""


@dataclasses.dataclass(frozen=True)
class Average(CheckedSettings):
    """DoReMi (arXiv 2305.10429, Algorithm 1, last line) and DoGE (arXiv 2310.15393)."""

    about: ClassVar[str] = "The weights of one proxy run, averaged over its steps."
    reads: ClassVar[Reads] = "state"
    packages: ClassVar[tuple[str, ...]] = ()

    def find(self, swarm: Swarm) -> FinderResult:
        """The state's `average_K`, divided by its sum.

        Raises:
            InputError: not exactly one run, or a run whose method keeps no average, or an average
                that is no mixture of these domains.
        """
        if len(swarm.runs) != 1:
            raise InputError(
                f"{len(swarm.runs)} proxy runs are given, the finder 'average' reads exactly one: "
                "name the one whose weights are wanted"
            )
        (run,) = swarm.runs
        average_K = (run.state or {}).get(AVERAGE)
        if average_K is None:
            raise InputError(
                f"proxy {run.name}: its method's state has no {AVERAGE}: only runs of methods that "
                "average their weights (doremi, doge) can be read by the finder 'average'"
            )
        average_K = np.asarray(average_K, dtype=np.float64)
        whole = average_K.shape == (len(swarm.domains),) and np.isfinite(average_K).all()
        if not whole or (average_K < 0).any() or not average_K.sum() > 0:
            raise InputError(
                f"proxy {run.name}: {AVERAGE} = {average_K.tolist()} is no mixture of "
                f"{len(swarm.domains)} domains: train the proxy again"
            )
        weights_K = average_K / average_K.sum()
        return FinderResult(
            weights_K, {"run": run.name, "effective_domains": effective_domains(weights_K)}
        )
