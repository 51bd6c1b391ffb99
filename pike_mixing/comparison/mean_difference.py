"""A mean difference between two methods, its error over seeds and documents, interval and p-value.

Shapes: S seeds, G documents of one part, K parts (domains or tasks), N documents of all parts, J of
all one by one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Floats
from pike_mixing.comparison.distributions import two_sided_critical_t
from pike_mixing.comparison.document_sizes import LEAST_DOCUMENTS as LEAST_DOCUMENTS
from pike_mixing.comparison.document_sizes import skew_limited_effective_documents, variance_factor

LEVEL = 0.05
LENGTH_TOLERANCE = 0.1
"""Lengths that vary by less of their mean count as one: no interval is wider for them."""
LEAST_SEEDS = 3
"""Seeds below which no verdict rests on a comparison: two say too little about their spread
(docs/error-rates.md)."""


@dataclass(frozen=True)
class DocumentDifferences:
    """Two methods on one text or task, document by document."""

    by_seed_S: Floats
    """The difference of each seed."""
    error_SxG: Floats
    """What each document adds to its error; no number where there is one document alone."""
    share_G: Floats
    """The documents' shares of its tokens or items."""
    document_G: npt.NDArray[Any]
    """Their names: a text in several parts is one document."""

    def of_seeds(self, rows: Sequence[int]) -> "DocumentDifferences":
        """Over some of its seeds."""
        return replace(self, by_seed_S=self.by_seed_S[rows], error_SxG=self.error_SxG[rows])


def differences_of_sums(
    sum_SxG: npt.ArrayLike, count_G: npt.ArrayLike, unique_document_G: npt.ArrayLike
) -> DocumentDifferences:
    """The differences of two methods whose means over a text or task are sum / count.

    Given are the sums of the differences in each document, by seed, and its tokens or items.
    """
    total_SxG, size_G = np.asarray(sum_SxG, np.float64), np.asarray(count_G, np.float64)
    by_seed_S = total_SxG.sum(axis=1) / size_G.sum()
    return differences_of_residuals(
        by_seed_S, total_SxG - by_seed_S[:, None] * size_G, size_G, unique_document_G
    )


def differences_of_residuals(
    by_seed_S: Floats, residual_SxG: Floats, count_G: npt.ArrayLike, document_G: npt.ArrayLike
) -> DocumentDifferences:
    """A part of any number whose residuals by document are known to first order.

    With h_g = n_g / sum n and H = sum h^2 the squares of r_g / sum n / sqrt(1 - 2 h_g + H) sum to
    the variance without bias where a document's own difference does not depend on its length (CR2
    of Bell and McCaffrey 2002). Documents of one length: r_g / sum n * sqrt(G / (G - 1)).

    Args:
        by_seed_S: The difference of each seed.
        residual_SxG: By how much each document's sum is more than its size tells.
        count_G: Tokens or items of each document, n_g.
        document_G: The documents' names, each once.
    """
    size_G = np.asarray(count_G, np.float64)
    share_G = size_G / size_G.sum()
    leverage_G = 1 - 2 * share_G + (share_G**2).sum()
    alone = len(size_G) == 1
    scale_G = np.full(1, np.nan) if alone else 1 / np.sqrt(leverage_G) / size_G.sum()
    return DocumentDifferences(by_seed_S, residual_SxG * scale_G, share_G, np.asarray(document_G))


@dataclass(frozen=True)
class Estimate:
    """A mean difference between two methods and the two parts of its error."""

    difference: float
    """Mean over seeds."""
    of_seeds: float | None
    """Standard error from the spread of the seeds' differences; None for one seed."""
    of_items: float | None
    """Standard error from the choice of documents; None for one document."""
    seeds: int
    degrees: float
    """Of freedom, of the error over documents."""
    effective: float = math.inf
    """How many documents of one size tell as much (`skew_limited_effective_documents`): of the part
    that has fewest, or all together."""
    factor: float = 1.0
    """By which the variance over documents is larger for their lengths (`variance_factor`)."""
    lower: int = 0
    """Seeds whose difference is below zero."""
    welch: float | None = None
    """Degrees of freedom of the error over seeds, where they are not seeds - 1."""
    unseen: float = 0.0
    """By how much one document of a kind that none was of would move it (`group_difference`)."""

    @property
    def stderr(self) -> float | None:
        """Both parts together."""
        return None if self.of_items is None else math.hypot(self.of_seeds or 0, self.of_items)

    @property
    def seed_sd(self) -> float | None:
        """Standard deviation of the seeds' differences."""
        return None if self.of_seeds is None else self.of_seeds * math.sqrt(self.seeds)

    @property
    def seed_degrees(self) -> float:
        """Of freedom, of the error over seeds."""
        return self.seeds - 1 if self.welch is None else self.welch

    @property
    def has_enough_for_verdict(self) -> bool:
        """Whether a verdict may rest on it: over seeds and documents enough."""
        return self.seeds >= LEAST_SEEDS and self.effective >= LEAST_DOCUMENTS


def estimate(
    parts: Sequence[DocumentDifferences], weights: Sequence[float] | None = None
) -> Estimate:
    """The mean difference over seeds, documents and parts, with its error.

    Seeds are paired, and all read the same documents. A difference is made of what its seed, its
    document and both together add. With S seeds, u_sg what document g adds in seed s (the sum over
    the parts that hold it), M = sum_g (mean_s u_sg)^2 and Q = mean_s sum_g u_sg^2,

        of_seeds^2 = SD(D_s)^2 / S,    of_items^2 = (S M - Q) / (S - 1), at least 0,

    the seeds with what is random in both, and the documents net of it: their sum is the variance
    without bias (Cameron, Gelbach and Miller 2011). One seed: of_items^2 = M. Where documents are
    unequal, of_items^2 is larger by `variance_factor`: of M follows length what the regression of
    each part's errors on those of a difference linear in length explains.

    Without weights all parts count alike in the mean; of a part without weight nothing counts.
    """
    weight_K = np.ones(len(parts)) if weights is None else np.array(weights, np.float64)
    parts = [one for one, weight in zip(parts, weight_K, strict=True) if weight]
    weight_K = weight_K[weight_K != 0] / weight_K.sum()
    by_seed_S = weight_K @ [p.by_seed_S for p in parts]
    seeds = len(by_seed_S)
    names_N, place_J = np.unique(np.concatenate([p.document_G for p in parts]), return_inverse=True)
    places = np.split(place_J, np.cumsum([len(p.document_G) for p in parts])[:-1])
    error_SxN = np.zeros((seeds, len(names_N)))
    share_N, follows_N = np.zeros(len(names_N)), np.zeros(len(names_N))
    for one, weight, place_G in zip(parts, weight_K, places, strict=True):
        error_SxN[:, place_G] += weight * one.error_SxG
        share_N[place_G] += weight * one.share_G
        follows_N[place_G] += weight * _errors_explained_by_length(one)
    whole = shared = float((error_SxN.mean(axis=0) ** 2).sum())
    if seeds > 1:
        shared = (seeds * shared - float((error_SxN**2).sum()) / seeds) / (seeds - 1)
    # Twenty alike are twenty, not a rounding less.
    effective = round(_effective_documents_of_mean(parts, share_N), 9)
    follows = float((follows_N**2).sum()) / whole if whole > 0 else 0.0
    factor = variance_factor(effective, follows)
    return Estimate(
        difference=float(by_seed_S.mean()),
        of_seeds=_standard_error(by_seed_S.var(ddof=1) / seeds) if seeds > 1 else None,
        of_items=None if math.isnan(shared) else _standard_error(shared * factor),
        seeds=seeds,
        degrees=_degrees_of_freedom(parts, weight_K, share_N),
        effective=effective,
        factor=factor,
        lower=int((by_seed_S < 0).sum()),
    )


def _effective_documents_of_mean(
    parts: Sequence[DocumentDifferences], joint_share_N: Floats
) -> float:
    """`skew_limited_effective_documents` of the part that has fewest.

    Where each has enough by its shares alone, those of all together if these are more: the error of
    a mean over parts is less skewed than that of one.
    """
    shares = [one.share_G[one.share_G > 0] for one in parts]
    result = min(map(skew_limited_effective_documents, shares))
    if len(parts) > 1 and all((share_G**2).sum() * LEAST_DOCUMENTS <= 1 for share_G in shares):
        result = max(result, skew_limited_effective_documents(joint_share_N[joint_share_N > 0]))
    return result


def _errors_explained_by_length(differences: DocumentDifferences) -> Floats:
    """What each document adds to the error by its length, as of a difference linear in length."""
    error_G, share_G = differences.error_SxG.mean(axis=0), differences.share_G
    squares = float((share_G**2).sum())
    if len(share_G) * squares < 1 + LENGTH_TOLERANCE**2:
        return np.zeros(len(share_G))
    length_G = share_G * (share_G - squares) / np.sqrt(1 - 2 * share_G + squares)
    return length_G * float(error_G @ length_G) / float(length_G @ length_G)


def _standard_error(variance: float) -> float:
    """A standard error; what is rounding of a constant difference is none."""
    return math.sqrt(variance) if variance > 1e-24 else 0.0


def _degrees_of_freedom(
    parts: Sequence[DocumentDifferences], weight_K: Floats, share_N: Floats
) -> float:
    """Satterthwaite's degrees of freedom over the parts, fewer where they share documents.

    Parts in which the same text stands add up, so that it counts once: the degrees fall by the
    ratio of (sum h^2)^2 / sum h^4 of their joint shares to that of the shares one by one.
    """
    own_K = np.array([_degrees_of_one_part(p.share_G) for p in parts])
    pairs = zip(weight_K, parts, strict=True)
    variance_K = np.array([w**2 * (p.error_SxG.mean(axis=0) ** 2).sum() for w, p in pairs])
    alone_J = np.concatenate([w * p.share_G for w, p in zip(weight_K, parts, strict=True)])
    joint = _effective_number_of_squared_shares(share_N)
    distinct = joint / _effective_number_of_squared_shares(alone_J)
    whole = float(variance_K.sum())
    known = math.isfinite(whole) and whole > 0
    degrees = whole**2 / float((variance_K**2 / own_K).sum()) if known else own_K.sum()
    return max(1.0, min(1.0, distinct) * float(degrees))


def _effective_number_of_squared_shares(share_N: Floats) -> float:
    return float((share_N**2).sum() ** 2 / (share_N**4).sum())


def _degrees_of_one_part(share_G: Floats) -> float:
    """Satterthwaite's degrees of freedom of one part's error; G documents of one size: G - 1.

    With g = h^2 / (1 - 2 h + H): H^2 / sum_de g_d g_e C_de^2, C_de = (d = e) - h_d - h_e + H.
    """
    if len(share_G) == 1:
        return 1.0
    h, H = share_G, float((share_G**2).sum())
    g = h**2 / (1 - 2 * h + H)
    whole, first, second = g.sum(), (g * h).sum(), (g * h**2).sum()
    apart = H**2 * whole**2 + 2 * whole * second - 4 * H * whole * first + 2 * first**2
    own = (h**4).sum() - ((g * (H - 2 * h)) ** 2).sum()
    return max(1.0, float(H**2 / (apart + own)))


def interval_ends(estimate: Estimate) -> tuple[float | None, float | None]:
    """The 95% interval's ends; none where the error is not known."""
    half = half_width(estimate)
    if half is None:
        return None, None
    return estimate.difference - half, estimate.difference + half


def half_width(estimate: Estimate, error_level: float = LEVEL) -> float | None:
    """Half of the interval that holds the true difference with probability 1 - error_level.

    Each part has its own quantile, Student's t with S - 1 degrees for the seeds and with those of
    the documents (Banerjee 1960, Sankhya 22, 357):

        half^2 = (t(S - 1) * of_seeds)^2 + (t(degrees) * of_items)^2

    It errs in at most `error_level`, whatever that and the variances are: P(Z^2 <= y) is concave in
    y, and y linear in the shares of both variances, so that the interval holds the truth at least
    as often as where one of them is all. Narrower ones err more often (docs/error-rates.md).

    Where many documents tell no difference at all, ln(error_level) `unseen` is a third part: none
    of n items differs, then the interval is +-3 / n, by the rule of three.
    """
    if estimate.of_items is None:
        return None
    items = two_sided_critical_t(error_level, estimate.degrees) * estimate.of_items
    if estimate.unseen:
        items = math.hypot(items, math.log(error_level) * estimate.unseen)
    if not estimate.of_seeds:
        return items
    seeds = two_sided_critical_t(error_level, estimate.seed_degrees) * estimate.of_seeds
    return math.hypot(seeds, items)


def width_ratio_to_interval_without_unseen(estimate: Estimate) -> float:
    """How many times as wide the interval is as one without `unseen`; 1 where there is none."""
    without = half_width(replace(estimate, unseen=0.0))
    if not estimate.unseen or without is None:
        return 1.0
    return (half_width(estimate) or 0.0) / without if without else math.inf
