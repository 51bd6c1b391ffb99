"""DoGE's proxy (Fan et al. 2024, arXiv 2310.15393): domains that point where all point gain.

Its average weights are the mixture of the final run; `fixed` trains with them.
"""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Signals, State
from pike_mixing.numerics.simplex import softmax
from pike_mixing.rules.surgery import Surgeon, gramian_and_present_domains
from pike_mixing.setting_limits import PositiveFloat


@dataclasses.dataclass(frozen=True, kw_only=True)
class DoGE(Surgeon):
    """Mix, where gradients add up by weights that follow their alignment with all domains'.

    The target is the sum of the domains' gradients on the training batch (the paper's universal
    generalisation), so that everything is a function of the Gramian.
    """

    about: ClassVar[str] = (
        "Equal shares, but gradients are weighed by how well they agree with those of all "
        "domains. The average weights are the mixture for another run."
    )

    rate: PositiveFloat = 0.01
    """Step of the logarithm of the weights: the learning rate over mu, 5e-4 / 0.05 in the code.

    In the paper it follows the learning rate; here it stays the same."""
    cap: PositiveFloat = 5.0
    """Alignments are clipped to [0, cap]: conflict takes no weight but what the others gain."""
    clip_norm: PositiveFloat = 1.0
    """Each domain's gradient is clipped to this norm before all else."""
    self_term: bool = True
    """Whether a domain's own gradient is part of its target, as in the code, against its intent."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The proxy's weights 1/K; their average is over updates alone."""
        state = super().init(domains, seed)
        averaged = {n: state["weights_K"].copy() for n in ("proxy_K", "average_K")}
        return {**state, **averaged, "updates": np.array(0)}

    def coefficients(
        self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals
    ) -> Floats:
        """w_k after this batch's update, times the clipping of g_k."""
        proxy_P = self.observe(state, signals)["proxy_K"][present_P]
        return proxy_P / proxy_P.sum() * self.clip_factors(gram_PxP)

    def observe(self, state: State, signals: Signals) -> State:
        """Adds rate clip(g_k . sum_j g_j / mean |g|) to log w_k and normalises; then the average.

        A domain without a gradient keeps its weight.
        """
        if signals.gram_KxK is None:
            return state
        gram_PxP, present_P = gramian_and_present_domains(signals)
        if not len(present_P):
            return state
        scale_P = self.clip_factors(gram_PxP)
        gram_PxP = scale_P[:, None] * gram_PxP * scale_P
        norm_P, own_P = np.sqrt(gram_PxP.diagonal()), gram_PxP.diagonal()
        reach_P = gram_PxP.sum(axis=1) - (0 if self.self_term else own_P)
        score_P = (reach_P / norm_P.mean()).clip(0, self.cap)
        old_P = state["proxy_K"][present_P]
        new_P = old_P.sum() * softmax(np.log(old_P) + self.rate * score_P)
        proxy_K = state["proxy_K"].copy()
        proxy_K[present_P] = new_P
        updates = np.asarray(state["updates"] + 1)
        average_K = state["average_K"] + (proxy_K - state["average_K"]) / updates
        return state | {"proxy_K": proxy_K, "average_K": average_K, "updates": updates}

    def clip_factors(self, gram_PxP: Floats) -> Floats:
        """Factors that bring each gradient's norm down to `clip_norm`."""
        return (self.clip_norm / np.sqrt(gram_PxP.diagonal())).clip(max=1)
