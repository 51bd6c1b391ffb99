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


def effective_documents(share_G: Floats) -> float:
    """How many documents of one size tell as much; below `LEAST_DOCUMENTS` no verdict is given.

    A mean over tokens is a ratio of sums, in which long documents count most. Where documents are
    very unequal and the difference depends on their length, it hangs on the few longest ones: its
    error is skewed, and a sample without them shows neither. Then intervals miss the truth more
    often than they say. Whether a difference depends on length, a sample of few documents cannot
    tell; so the lengths alone decide.

    With H the sum of squared shares and s the standard deviation of log length, the number is 1 / H
    if 1 / H is `LEAST_DOCUMENTS` or more, and one of these holds:

    1. Documents are cut at a length, as those of corpora often are: the longest one lies so few
       standard deviations above the mean log length as in one of a thousand samples of lognormal
       lengths (`CUT`).
    2. S exp(1.5 S^2) is at most `SKEW` sqrt(G): to this the skewness of the error is proportional
       where the difference follows log length. S is the spread of log length below the median,
       sqrt(mean (median - log)^2), or `WIDER` s if that is more: the short documents do not tell
       whether the longest ones, which are most of the error, are by chance in the sample. With s
       alone those samples would pass that lack them.

    Else it is how far the documents reach of what is asked, in units of `LEAST_DOCUMENTS`: of 10,
    twice as many would do.

    False verdicts of 5 % tests, by simulation: docs/error-rates.md. Two limits: near the bound few
    samples of fewer than a hundred documents pass, and of these more lack the longest; and a
    difference proportional to length itself, not to its logarithm, is more skewed.

    Args:
        share_G: The documents' shares of all tokens or items; positive.
    """
    documents, alike = len(share_G), 1 / float((share_G**2).sum())
    if alike < LEAST_DOCUMENTS - 1e-9:
        return alike
    log_G = np.log(share_G) - np.log(share_G).mean()
    spread = float((log_G**2).sum() / (documents - 1)) ** 0.5
    if log_G.max() <= spread * statistics.NormalDist().inv_cdf(CUT ** (1 / documents)):
        return alike
    below_G = np.median(log_G) - log_G
    low = float((below_G[below_G >= 0] ** 2).mean()) ** 0.5
    spread = max(low, WIDER * spread)
    asked = (spread * np.exp(1.5 * spread**2) / SKEW) ** 2
    return alike if documents >= asked else float(LEAST_DOCUMENTS * documents / asked)
