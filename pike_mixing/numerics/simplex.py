"""Weights of domains and points of a simplex: softmax, spread, seeded orders, the lowest point.

The lowest point of b . w + c |g_w| over weights w of gradients, g_w = sum_k w_k g_k, is found
exactly. MGDA's shortest vector (b = 0) and CAGrad's weights are such points. The problem is convex;
an active set of domains with positive weight is walked to the optimal one, and on each set the
solution is a formula.

Shapes: K domains, P of them, A of them in the active set.
"""

import dataclasses
import hashlib
import math

import numpy as np

from pike_mixing.arrays import Floats, Ints

RIDGE = 1e-10
"""Added to every cosine g_j . g_j / |g_j|^2 = 1. Of equally good weights, as those of identical
gradients, it chooses the most even ones, and it keeps |g_w| above 0."""
ENTER = 1e-12
"""A domain enters when it promises this part of its own b_k + c |g_k|: RIDGE must show."""
TOLERANCE = 1e-5
"""Optimal weights may leave any domain this part of its own b_k + c |g_k| below the optimum."""


@dataclasses.dataclass(frozen=True)
class LowestPoint:
    """The best point of the search."""

    weights_P: Floats
    """Non-negative, summing to 1."""
    length: float
    """|g_w|, the ridge included."""
    excess: float
    """How far the worst domain stays below the optimum, see `TOLERANCE`."""

    @property
    def is_optimal(self) -> bool:
        """Whether no weights are noticeably better."""
        return self.excess <= TOLERANCE


@np.errstate(divide="ignore", invalid="ignore")
def lowest_point(linear_P: Floats, c: float, gram_PxP: Floats) -> LowestPoint:
    """The weights that minimise b . w + c |g_w|, c > 0; no gradient may be zero."""
    P = len(linear_P)
    norm_P = np.sqrt(gram_PxP.diagonal())
    size_P = np.abs(linear_P) + c * norm_P
    cosine_PxP = gram_PxP / np.outer(norm_P, norm_P)
    cosine_PxP = cosine_PxP + RIDGE * np.eye(P)
    first = int((linear_P + c * norm_P).argmin())
    # s_k = w_k |g_k|, lengths of the gradients' parts, are of one size where norms are not.
    part_P = np.zeros(P)
    part_P[first] = norm_P[first]
    active, best = [first], LowestPoint(part_P / norm_P, float("nan"), np.inf)
    for _ in range(20 * (P + 1)):
        slope_A, b_A = 1 / norm_P[active], (linear_P / norm_P)[active]
        step_A, is_unbounded = _step_and_is_unbounded(
            part_P[active], slope_A, b_A / c, cosine_PxP[active][:, active]
        )
        limit_A = np.where(step_A < 0, -part_P[active] / step_A, np.inf)
        blocking = int(limit_A.argmin())
        if limit_A[blocking] <= (np.inf if is_unbounded else 1):
            part_P[active] += limit_A[blocking] * step_A
            part_P[active.pop(blocking)] = 0
            continue
        part_P[active] += step_A
        weights_P, dot_P = part_P / norm_P, cosine_PxP @ part_P
        length = float(np.sqrt(part_P @ dot_P))
        value_P = linear_P + c * norm_P * dot_P / length
        gain_P = (linear_P @ weights_P + c * length - value_P) / size_P
        if gain_P.max() < best.excess:
            best = LowestPoint(weights_P / weights_P.sum(), length, float(gain_P.max()))
        gain_P[active] = -np.inf
        entering = int(gain_P.argmax())
        if gain_P[entering] <= ENTER:
            break
        active.append(entering)
    return best


def _step_and_is_unbounded(
    part_A: Floats, slope_A: Floats, b_A: Floats, cosine_AxA: Floats
) -> tuple[Floats, bool]:
    """Step to the lowest point among all s with slope . s = 1, or the way down if there is none.

    Where the gradient of b . s + |s|_C - lambda slope . s vanishes, s is p + |s|_C q with
    p ~ C^-1 slope and q = -C^-1 b made to keep the constraint. p and q are C-orthogonal, hence
    |s|_C = |p|_C / sqrt(1 - |q|_C^2). With |q|_C >= 1 the function falls along q for ever.
    """
    toward_Ax2 = np.linalg.solve(cosine_AxA, np.stack([slope_A, -b_A], axis=1))
    p_A = toward_Ax2[:, 0] / (slope_A @ toward_Ax2[:, 0])
    q_A = toward_Ax2[:, 1] - (slope_A @ toward_Ax2[:, 1]) * p_A
    squared_q = float(q_A @ cosine_AxA @ q_A)
    if squared_q >= 1:
        return q_A, True
    length = float(np.sqrt(p_A @ cosine_AxA @ p_A / (1 - squared_q)))
    return p_A + length * q_A - part_A, False


@np.errstate(invalid="ignore")
def softmax(x_K: Floats) -> Floats:
    """exp(x_k) / sum_j exp(x_j)."""
    part_K = np.exp(x_K - x_K.max(initial=-np.inf))
    return part_K * (1 / part_K.sum()) if len(part_K) else part_K


def log_softmax(x_K: Floats) -> Floats:
    """The logarithm of the softmax: no weight underflows to 0."""
    below_K = x_K - x_K.max()
    return below_K - np.log(np.exp(below_K).sum())


def logsumexp(x_K: Floats) -> float:
    """Log sum_k exp(x_k); -infinity for no numbers and where all of them are -infinity."""
    highest = float(x_K.max(initial=-np.inf))
    return highest if np.isinf(highest) else float(np.log(np.exp(x_K - highest).sum()) + highest)


@np.errstate(divide="ignore", invalid="ignore")
def capped_weights(weights_SxK: Floats, cap_K: Floats) -> Floats:
    """Each mixture with no weight above its cap: w = min(cap, factor w), with one factor for all.

    Caps, infinite where there is none, sum to 1 at least.
    """
    weights_SxK, full_SxK = weights_SxK.copy(), np.zeros(weights_SxK.shape, dtype=bool)
    while (over_S := (weights_SxK > cap_K + 1e-12).any(axis=1)).any():
        weights_OxK = weights_SxK[over_S]
        full_OxK = full_SxK[over_S] | (weights_OxK > cap_K)
        full_SxK[over_S] = full_OxK
        left_O = 1 - np.where(full_OxK, cap_K, 0).sum(axis=1)
        rest_OxK = np.where(full_OxK, 0, weights_OxK)
        rest_O = rest_OxK.sum(axis=1)
        # Where the others have nothing, they share alike.
        rest_OxK = np.where(rest_O[:, None] > 0, rest_OxK, ~full_OxK)
        share_OxK = rest_OxK / rest_OxK.sum(axis=1, keepdims=True)
        weights_SxK[over_S] = np.where(full_OxK, cap_K, left_O[:, None] * share_OxK)
    return weights_SxK


def effective_domains(weights_K: Floats) -> float:
    """Effective number of domains exp(H(w)), between 1 and K; K for equal weights."""
    positive_K = weights_K[weights_K > 0]
    return math.exp(-(positive_K * np.log(positive_K)).sum())


def fill_gaps_by_last_or_mean(value_K: Floats, last_K: Floats) -> Floats:
    """Gaps filled by the domain's last known value, else by the mean of the domains that have one.

    All NaN when nothing is known of any domain.
    """
    value_K = np.where(np.isnan(value_K), last_K, value_K)
    known_K = ~np.isnan(value_K)
    return np.where(known_K, value_K, value_K[known_K].mean()) if known_K.any() else value_K


def keys_for_shuffling(domains: tuple[str, ...], seed: int) -> Ints:
    """One int64 for each domain that stands for its name and the seed in `shuffled_others`."""
    texts = [f"visits {seed} {domain}".encode() for domain in domains]
    digests = [hashlib.sha256(text).digest() for text in texts]
    return np.array([int.from_bytes(d[:7], "big") for d in digests], dtype=np.int64)


def shuffled_others(key_P: Ints, step: int) -> list[list[int]]:
    """For each of P domains the indices of the P - 1 others in the order of this step's visits."""
    key = key_P.tolist()
    domains = range(len(key))

    def draw_key(i: int, j: int) -> bytes:
        return hashlib.sha256(f"{key[i]} {key[j]} {step}".encode()).digest()

    return [sorted((j for j in domains if j != i), key=lambda j: draw_key(i, j)) for i in domains]
