"""What rules that combine the domains' gradients by their inner products have in common."""

import abc
import dataclasses

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Needs, Signals, State
from pike_mixing.rules.gramian import of_present
from pike_mixing.rules.mix import Mix


@dataclasses.dataclass(frozen=True)
class Surgeon(Mix):
    """Mix, whose update sum_k c_k g_k has coefficients that are a function of the Gramian.

    Shapes: K domains, P of them with a gradient.
    """

    def needs(self) -> Needs:
        """The Gramian of every batch."""
        return Needs(gramian=True)

    def combine(self, state: State, signals: Signals) -> Floats:
        """Coefficients c_K of `solve`; 0 for a domain without a gradient.

        Raises:
            InputError: the Gramian holds numbers that are not finite, or `solve` raises it.
        """
        gram_PxP, present_P = of_present(signals)
        coefficient_K = np.zeros(len(state["weights_K"]))
        if len(present_P):
            coefficient_K[present_P] = self.solve(gram_PxP, present_P, state, signals)
        return coefficient_K

    @abc.abstractmethod
    def solve(self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals) -> Floats:
        """Coefficients c_P of the domains with a gradient, whose indices are present_P.

        Raises:
            InputError: there is no solution.
        """
