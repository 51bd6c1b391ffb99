"""What rules that combine the domains' gradients by their inner products have in common.

A surgeon combines the gradients g_k into one, sum_k c_k g_k, with coefficients that are a function
of the Gramian G_jk = g_j . g_k alone, as it sees it: of the domains in the batch, with no negative
eigenvalue.

Shapes: K domains, P of them with a gradient.
"""

import abc
import dataclasses
from typing import Literal

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, Signals, State
from pike_mixing.rules.mix import Mix

Scale = Literal["mix", "reference"]
"""Factor of the update. mix: where all domains have the same gradient, the update is that gradient,
as in Mix, so that one learning rate, weight decay and clipping fit every method. reference: the
factor of the method's authors, for which the same gradients can give K times as much."""


@dataclasses.dataclass(frozen=True)
class Surgeon(Mix):
    """Mix, whose update sum_k c_k g_k has coefficients that are a function of the Gramian."""

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
        """Coefficients c_P of the domains with a gradient.

        Args:
            gram_PxP: Inner products of their gradients.
            present_P: Their indices among the K domains.
            state: The method's state before the step.
            signals: Those of the step.

        Raises:
            InputError: there is no solution.
        """


def of_present(signals: Signals) -> tuple[Floats, Ints]:
    """Gramian of the domains that have a gradient (P x P), and their indices.

    A domain has none when the batch has no rows of it (NaN) or when its gradient is zero: its
    squared length is below the smallest number that a float64 holds in full, 2.2e-308, which no
    gradient of float32 is. NaN of a domain with rows was refused before (`signal_checks`).

    Raises:
        InputError: an inner product of gradients is not a finite number, or more than twice the
            product of their lengths.
    """
    gram_KxK = signals.gram_KxK
    assert gram_KxK is not None, "a method that needs a Gramian was given none"
    # NaN >= 0 is False.
    present_P = np.flatnonzero(gram_KxK.diagonal() >= np.finfo(np.float64).tiny)
    gram_PxP = gram_KxK[present_P][:, present_P]
    norm_P = np.sqrt(gram_PxP.diagonal())
    lengths_PxP = np.outer(norm_P, norm_P)
    if not (np.isfinite(gram_PxP) & (np.abs(gram_PxP) / 2 <= lengths_PxP)).all():
        raise InputError(
            f"step {signals.step}: an inner product of the domains' gradients is not a finite "
            "number, or beyond the product of their lengths: lower training.peak_learning_rate or "
            "lengthen training.warmup_steps; the checkpoints before this step are sound"
        )
    return _semidefinite(gram_PxP, lengths_PxP), present_P


def not_converged(rule: str, step: int, why: str) -> InputError:
    """The error of a solver that found no coefficients. There are no others to fall back on.

    Args:
        rule: Name of the rule.
        step: 0-based step.
        why: What the solver says.
    """
    return InputError(
        f"step {step}: {rule} found no coefficients for the domains' gradients: {why}. Nearly "
        "opposite gradients do this, or a training that diverges: lower "
        "training.peak_learning_rate, give the batch more rows, or train with another rule; the "
        "checkpoints before this step are sound"
    )


def _semidefinite(gram_PxP: Floats, lengths_PxP: Floats) -> Floats:
    """The Gramian without negative eigenvalues, or itself when it has none.

    Products of float32 gradients are off by some 1e-7 |g_j| |g_k|. Where gradients nearly coincide
    the matrix of cosines has eigenvalues below that, which can come out negative.
    """
    if not len(gram_PxP):
        return gram_PxP
    eigenvalue_P, vector_PxP = np.linalg.eigh(gram_PxP / lengths_PxP)
    if eigenvalue_P[0] >= 0:
        return gram_PxP
    return (vector_PxP * eigenvalue_P.clip(min=0)) @ vector_PxP.T * lengths_PxP
