"""Whether documents are of like size enough for a mean difference over their tokens.

Shapes: G documents of one domain or task.
"""

import statistics

import numpy as np

from pike_mixing.arrays import Floats

LEAST_DOCUMENTS = 20
"""Effective documents below which no verdict rests on a domain or task."""
CUT = 0.001
"""Probability with which a lognormal sample's longest document is as short as that of a sample that
counts as cut at a length."""
SKEW = 0.08
"""The most that S exp(1.5 S^2) may be, in units of sqrt(G)."""
WIDER = 0.75
"""S is at least so many standard deviations of log length."""
MOST = 25.0
"""By so many times what follows length, the variance over documents grows at most."""


def skew_limited_effective_documents(share_G: Floats) -> float:
    """How many documents of one size tell as much; below `LEAST_DOCUMENTS` no verdict is given.

    A mean over tokens is a ratio of sums, in which long documents count most. Where documents are
    very unequal and the difference depends on their length, it hangs on the few longest ones: its
    error is skewed, and a sample without them shows neither. Then intervals miss the truth more
    often than they say. Whether a difference depends on length, a sample of few documents cannot
    tell; so the lengths alone decide.

    With H the sum of squared shares the number is 1 / H, but `LEAST_DOCUMENTS` G / asked if that is
    less: of 10, twice as many would do. It is 1 at least. Asked are so many documents that S
    exp(1.5 S^2) is `SKEW` sqrt(G): to this the skewness of the error is proportional where the
    difference follows log length. S is the spread of log length below the median, sqrt(mean (median
    - log)^2), or `WIDER` standard deviations of log length if that is more: the short documents do
    not tell whether the longest ones, which are most of the error, are by chance in the sample.
    With the standard deviation alone those samples would pass that lack them.

    It is 1 / H where that is less than `LEAST_DOCUMENTS`, and where documents are cut at a length,
    as those of corpora often are: the longest one lies so few standard deviations above the mean
    log length as in one of a thousand samples of lognormal lengths (`CUT`).

    Args:
        share_G: The documents' shares of all tokens or items; positive.
    """
    documents, alike = len(share_G), 1 / float((share_G**2).sum())
    if alike < LEAST_DOCUMENTS:
        return alike
    log_G = np.log(share_G) - np.log(share_G).mean()
    spread = float((log_G**2).sum() / (documents - 1)) ** 0.5
    if log_G.max() <= spread * statistics.NormalDist().inv_cdf(CUT ** (1 / documents)):
        return alike
    below_G = np.median(log_G) - log_G
    low = float((below_G[below_G >= 0] ** 2).mean()) ** 0.5
    spread = max(low, WIDER * spread)
    asked = float(spread * np.exp(1.5 * spread**2) / SKEW) ** 2
    return max(1.0, min(alike, LEAST_DOCUMENTS * documents / asked))


def variance_factor(effective_documents: float, share_by_length: float) -> float:
    """By how much the variance over documents is larger than a sample of them shows.

    Where few samples of unequal documents get a verdict, those do that lack the longest ones, and
    they show too little of what follows length. With E effective documents the factor is 1 +
    follows L / (E - L), L being `LEAST_DOCUMENTS`, and 1 + `MOST` follows at most. So it is 1 where
    documents are of one length, or nothing follows length, and large where verdicts begin. False
    verdicts with it and without, by simulation: docs/error-rates.md.

    Args:
        effective_documents: By `skew_limited_effective_documents`; of fewer than L, intervals are
            shown without a verdict.
        share_by_length: The share of the variance that follows length, by the sample.
    """
    beyond = max(effective_documents - LEAST_DOCUMENTS, LEAST_DOCUMENTS / MOST)
    return 1 + share_by_length * LEAST_DOCUMENTS / beyond
