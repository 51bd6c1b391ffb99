"""R&B's balancing (Ge et al. 2025, arXiv 2505.00358): Algorithm 1 without its regrouping."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.apportion import apportion_over_steps
from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Method, Needs, Signals, State
from pike_mixing.numerics.simplex import softmax
from pike_mixing.rules.surgery import gramian_and_present_domains
from pike_mixing.setting_limits import PositiveFloat, PositiveInt, Proportions


@dataclasses.dataclass(frozen=True, kw_only=True)
class RAndB(Method):
    """w = softmax(strength G p / |G p|), G the Gramian of the domains' gradients in a round.

    p are the domains' weights in the loss that counts, so that (G p)_k = g_k . sum_j p_j g_j. The
    length of G p sets the unit: no scale of the gradients matters, and no odds exceed
    exp(2 strength). Each round forgets the one before.

    Our reading, not the paper's rule: Algorithm 1 adds up each domain's gradients over the round's
    steps and takes the products of the sums over |S_i| |S_j| rows, in the last layer alone, for
    which K gradients would have to be kept over a round and lie in checkpoints. Here products are
    taken at each step, of all layers, and averaged by the numbers of rows, |S_i| |S_j|; two domains
    that are never in a batch together count as orthogonal. On the diagonal the average holds a
    batch's noise, variance / rows, as it is, where the paper's falls with the steps of a round:
    small batches favour noisy domains.
    """

    about: ClassVar[str] = (
        "At the end of each round, more of the domains whose gradients in training agree with "
        "those of all domains together. Our reading: products of each step are averaged, where the "
        "paper multiplies sums over a round."
    )

    strength: PositiveFloat = 3.0
    """lambda: the paper's for its data of reasoning, the only value that it prints."""
    every: PositiveInt = 100
    """Steps of a round."""
    target: Proportions | None = None
    """Evaluation weights p by domain, divided by their sum; 1/K when absent."""

    def needs(self) -> Needs:
        """The Gramian, and how many rows it is of."""
        return Needs(gramian=True, losses=True)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Line 2: equal weights."""
        K = len(domains)
        return {
            "weights_K": by_domain.equal_weights(K),
            "target_K": by_domain.shares_in_order(self.target, domains, "target"),
            "products_KxK": np.zeros((K, K)),
            "pairs_KxK": np.zeros((K, K)),
        }

    def allocate(self, state: State, step: int, b: int) -> Ints:
        """Line 6: b w rows, rounded so that a small weight has its rows over the steps."""
        return apportion_over_steps(state["weights_K"], b, step)

    def observe(self, state: State, signals: Signals) -> State:
        """Lines 9-10: adds the batch's products; lines 13-14 at the end of a round.

        A domain without a gradient in the whole round keeps its weight; the others share the rest.
        """
        if signals.gram_KxK is None or signals.count_K is None:
            return state
        gram_PxP, present_P = gramian_and_present_domains(signals)
        pairs_PxP = np.outer(signals.count_K[present_P], signals.count_K[present_P])
        pairs_KxK, products_KxK = state["pairs_KxK"].copy(), state["products_KxK"].copy()
        both = np.ix_(present_P, present_P)
        pairs_KxK[both] += pairs_PxP
        products_KxK[both] += pairs_PxP * gram_PxP
        if (signals.step + 1) % self.every:
            return state | {"pairs_KxK": pairs_KxK, "products_KxK": products_KxK}
        gram_KxK = products_KxK / np.maximum(pairs_KxK, 1)
        known_K = pairs_KxK.diagonal() > 0
        weights_K = state["weights_K"].copy()
        if known_K.any():
            weights_K[known_K] = weights_K[known_K].sum() * alignment_weights(
                gram_KxK[known_K][:, known_K], state["target_K"][known_K], self.strength
            )
        empty = {name: np.zeros_like(state[name]) for name in ("pairs_KxK", "products_KxK")}
        return state | empty | {"weights_K": weights_K}


def alignment_weights(gram_KxK: Floats, loss_weight_K: Floats, sharpness: float) -> Floats:
    """Line 14: softmax(sharpness G p / |G p|), p the weights of losses; equal where G p is 0."""
    reach_K = gram_KxK @ loss_weight_K
    # Beyond a float64 no square must be.
    reach_K = reach_K / max(np.abs(reach_K).max(initial=0), np.finfo(np.float64).tiny)
    length = np.linalg.norm(reach_K)
    return (
        softmax(sharpness * reach_K / length)
        if length > 0
        else by_domain.equal_weights(len(reach_K))
    )
