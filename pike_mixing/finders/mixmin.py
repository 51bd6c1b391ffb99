"""MixMin (Thudi et al., ICML 2025, arXiv 2502.10510): the mixture whose mixed predictions are best.

One cheap proxy is trained on each domain alone. Were models as good as their data allow, a model of
the mixture w would predict sum_k w_k p_k, with p_k the prediction of domain k's proxy; so the
mixture for a target minimises, over examples e of the target,

    L(w) = - mean_e  log( sum_k w_k p_k(e) ) / length_e,

which is convex in w. No further proxy is trained.

It needs the log-probability that each proxy gives each example of the target. So it is a
function over arrays and no finder of `FINDERS`.

Shapes: E examples, K domains.
"""

from dataclasses import dataclass

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError

TOLERANCE = 1e-6
"""The result is at most this many nats above the minimum."""
STEPS = 100_000
"""Steps at most; each costs E x K operations."""


@dataclass(frozen=True)
class MixMinResult:
    """The mixture of lowest mixed loss."""

    weights_K: Floats
    """Not negative, summing to 1."""
    loss: float
    """L(w), nats per unit of length."""
    gap: float
    """L(w) is at most this much above the minimum."""


def find_weights(
    log_probability_ExK: Floats,
    length_E: Floats | None = None,
    *,
    tolerance: float = TOLERANCE,
    steps: int = STEPS,
) -> MixMinResult:
    """The mixture that minimises L(w), by w_k <- w_k S_k / sum_j w_j S_j from equal weights.

    S = - grad L; the denominator is mean_e 1 / length_e. This is the EM step for the shares of a
    mixture: it has no step length, and no step raises L. The authors' code takes 100 steps
    w_k <- w_k exp(S_k) / Z towards the same minimum. As L is convex and w . S is that denominator,
    L(w) is at most max_k S_k - w . S above the minimum.

    Args:
        log_probability_ExK: Log-probability, in nats, of each example of the target under the proxy
            of each domain; sequences have the sum over their tokens.
        length_E: What each example's log-probability is divided by, as its tokens or bytes; 1 when
            absent.
        tolerance: Nats above the minimum that are allowed.
        steps: Steps at most.

    Raises:
        InputError: numbers that are no log-probabilities, an example that no proxy can produce, or
            no mixture within `tolerance` after `steps`.
    """
    _refuse_bad_log_probabilities(log_probability_ExK)
    E = len(log_probability_ExK)
    length_E = np.ones(E) if length_E is None else np.asarray(length_E, dtype=np.float64)
    if length_E.shape != (E,) or not (np.isfinite(length_E) & (length_E > 0)).all():
        raise InputError(f"length_E: give one positive length for each of the {E} examples")
    highest_E = log_probability_ExK.max(axis=1)
    # An example's probabilities matter by their ratios.
    ratio_ExK = np.exp(log_probability_ExK - highest_E[:, None])
    share_E = 1 / length_E / E
    weights_K = np.full(ratio_ExK.shape[1], 1 / ratio_ExK.shape[1])
    gap = np.inf
    for _ in range(steps):
        mixed_E = ratio_ExK @ weights_K
        slope_K = (share_E / mixed_E) @ ratio_ExK
        gap = float(slope_K.max() - share_E.sum())
        if gap <= tolerance:
            return MixMinResult(
                weights_K, float(-share_E @ (np.log(mixed_E) + highest_E)), max(gap, 0.0)
            )
        weights_K = weights_K * slope_K / share_E.sum()
    raise InputError(
        f"the mixture is up to {gap:.2g} nats above the minimum after {steps} steps: raise steps, "
        f"or tolerance above {tolerance:g}"
    )


def mixture_losses(log_probability_ExK: Floats, weights_SxK: Floats) -> Floats:
    """Mean loss of the mixed predictions of each of S mixtures, nats: L(w) with lengths of 1.

    Per domain of validation text, with its tokens as examples, these are the losses of MDE (the
    mixture of data experts, Belenki et al., ACL 2025, arXiv 2502.15950): features beside the
    mixtures themselves for a regression on the losses of proxies of mixtures.

    Raises:
        InputError: numbers that are no log-probabilities, or an example that no proxy can produce.
    """
    _refuse_bad_log_probabilities(log_probability_ExK)
    highest_E = log_probability_ExK.max(axis=1)
    ratio_ExK = np.exp(log_probability_ExK - highest_E[:, None])
    # A mixture without the only proxies that can produce an example has an infinite loss.
    with np.errstate(divide="ignore"):
        return -(np.log(weights_SxK @ ratio_ExK.T) + highest_E).mean(axis=1)


def _refuse_bad_log_probabilities(log_probability_ExK: Floats) -> None:
    shaped = log_probability_ExK.ndim == 2 and log_probability_ExK.size
    if not shaped or not (log_probability_ExK < np.inf).all():
        raise InputError(
            "log_probability_ExK: give a finite number, or -inf, for each example (row) and domain "
            "(column)"
        )
    impossible_E = np.isneginf(log_probability_ExK).all(axis=1)
    if impossible_E.any():
        raise InputError(
            f"log_probability_ExK: no proxy gives example {int(impossible_E.argmax())} any "
            "probability: leave it out"
        )
