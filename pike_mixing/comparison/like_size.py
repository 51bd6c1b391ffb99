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
EVEN = 0.54
"""Spread of log length up to which documents count as of like size; for s + 2 standard errors."""
SKEW = 0.08
"""The most s exp(1.5 s^2) / sqrt(G) for documents of a larger spread."""


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
    2. G exp(-1.5 s^2) is `LEAST_DOCUMENTS` or more (unlike 1 / H it does not depend on whether the
       longest documents happen to be in the sample), and with S = s (1 + 2 / sqrt(2 (G - 1))), two
       standard errors more, S is at most `EVEN`, or S exp(1.5 S^2) at most `SKEW` sqrt(G): to this
       the skewness of the error is proportional where the difference follows log length. With s
       itself those samples would pass that by chance lack their longest documents.

    Else it is how far the documents reach of what is asked, in units of `LEAST_DOCUMENTS`: of 10,
    twice as many would do.

    False verdicts of 5 % tests, by simulation: docs/error-rates.md. A limit: a
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
    enough = documents * np.exp(-1.5 * spread**2)
    widest = spread * (1 + 2 / (2 * (documents - 1)) ** 0.5)
    if enough >= LEAST_DOCUMENTS - 1e-9 and widest > EVEN:
        skew = widest * np.exp(1.5 * widest**2)
        enough = LEAST_DOCUMENTS * documents * (SKEW / skew) ** 2
    return alike if enough >= LEAST_DOCUMENTS - 1e-9 else float(enough)
