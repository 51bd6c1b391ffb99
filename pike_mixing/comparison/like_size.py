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
EVEN = 0.5
"""Spread of log length at which any relation to the difference is borne."""
SKEW = 0.08
"""The most s exp(1.5 s^2) / sqrt(G) at which any relation is borne."""
SLOPE = 0.3
"""Standard deviations by which the difference may change with one of log length elsewhere."""
STEEP = 3.0
"""Standard errors by which it may change with length beyond that."""


def effective_documents(share_G: Floats, apart_G: Floats) -> float:
    """How many documents of one size tell as much; below `LEAST_DOCUMENTS` no verdict is given.

    A mean over tokens is a ratio of sums, in which long documents count most. Where documents are
    very unequal and the difference depends on their length, it hangs on the few longest ones: its
    error is skewed, and a sample without them shows neither. Then intervals miss the truth more
    often than they say.

    With H the sum of squared shares and s the standard deviation of log length, the number is 1 / H
    if 1 / H is `LEAST_DOCUMENTS` or more, and one of these holds:

    1. Documents are cut at a length, as those of corpora often are: the longest one lies so few
       standard deviations above the mean log length as in one of a thousand samples of lognormal
       lengths (`CUT`).
    2. G exp(-1.5 s^2) is `LEAST_DOCUMENTS` or more (unlike 1 / H it does not depend on whether the
       longest documents happen to be in the sample), and s is at most `EVEN`, or s exp(1.5 s^2) at
       most `SKEW` sqrt(G): to this the skewness of the error is proportional where the difference
       follows log length closely.
    3. G exp(-1.5 s^2) is enough, and the difference hardly follows length: its slope in log length,
       of which the part proportional to length is taken out, is at most `SLOPE`, and its slope in
       length beyond that at most `STEEP` standard errors. Without that part the slope is
       independent of the mean's own error. The plain correlation would give verdicts to those
       samples in which both happen to be small.

    Else it is how far the documents reach of what is asked, in units of `LEAST_DOCUMENTS`: of 10,
    twice as many would do.

    False verdicts of 5 % tests, by simulation (docs/error-rates.md; lognormal lengths with s 0.4,
    0.8, 1, 1.5; 20 to 1000 documents; correlations 0, 0.4, 0.7, 0.9): without this rule up to two
    thirds of the verdicts, with it 4.9 % of all, and in no cell that gives a verdict to one sample
    of ten more than 5 % beyond the error of the draws. It has two limits. Near its bounds (s 0.6,
    100 documents, correlation 0.7) a quarter of the few verdicts is false. A difference
    proportional to length itself, not to its logarithm, is noticed from some 300 documents on.

    Args:
        share_G: The documents' shares of all tokens or items; positive.
        apart_G: Each document's own difference, per token or item, up to a constant.
    """
    documents, alike = len(share_G), 1 / float((share_G**2).sum())
    if alike < LEAST_DOCUMENTS - 1e-9:
        return alike
    log_G = np.log(share_G) - np.log(share_G).mean()
    spread = float((log_G**2).sum() / (documents - 1)) ** 0.5
    if log_G.max() <= spread * statistics.NormalDist().inv_cdf(CUT ** (1 / documents)):
        return alike
    result = documents * np.exp(-1.5 * spread**2)
    if result < LEAST_DOCUMENTS - 1e-9:
        return float(result)
    skew = spread * np.exp(1.5 * spread**2)
    if spread <= EVEN or skew <= SKEW * documents**0.5:
        return alike
    if follows_length(share_G, log_G, apart_G - apart_G.mean()):
        return float(LEAST_DOCUMENTS * documents * (SKEW / skew) ** 2)
    return alike


def follows_length(share_G: Floats, log_G: Floats, apart_G: Floats) -> bool:
    """Whether a difference follows length more than `SLOPE` and `STEEP` allow.

    Least squares on 1, log length and length; log_G and apart_G have mean zero.
    """
    if not (share_G * apart_G).any():
        return False
    length_G = share_G - share_G.mean()
    log_log, log_length = log_G @ log_G, log_G @ length_G
    other_G = log_G - log_length / (length_G @ length_G) * length_G
    beyond_G = length_G - log_length / log_log * log_G
    # Of two lengths alone, either one tells all.
    if other_G @ other_G < 1e-9 * log_log:
        other_G = log_G
    slope = (other_G @ apart_G) / (other_G @ other_G) * (log_log / (apart_G @ apart_G)) ** 0.5
    if abs(slope) > SLOPE:
        return True
    rest_G = apart_G - (log_G @ apart_G) / log_log * log_G
    size = (beyond_G @ beyond_G) * (rest_G @ rest_G)
    steep = (beyond_G @ rest_G) ** 2 * len(share_G) > STEEP**2 * size
    return bool(size > 1e-18 * (length_G @ length_G) * (apart_G @ apart_G) and steep)
