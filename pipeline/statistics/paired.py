"""Two methods on the same items: how far apart they are, and whether chance does as much.

Shapes: S seeds, I items, G clusters (documents that items were cut from), M comparisons, B draws.
"""

import functools
import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pipeline.statistics.distributions import binomial_pmf, t_quantile, t_tail

Floats = npt.NDArray[np.float64]

DRAWS, CHUNK = 4000, 250
"""Bootstrap draws, and how many of them lie in memory at once."""
LEVEL = 0.05


def sign_flip(sum_G: npt.ArrayLike) -> float:
    """Exact two-sided p-value for differences that come in clusters: McNemar by document.

    Under the null hypothesis the two methods can be swapped within any document, all its items
    together: every sum d_g of differences has either sign with probability 1/2. p is the
    probability that |sum of +-d_g| is at least as large as the one found, by convolution, without
    drawing. Items that stand alone give McNemar's p-value.

    Two documents that are better by 2 and 1 items: the sums are +-3 and +-1, so p = 2/4.

    Args:
        sum_G: Difference of each cluster in points; fractions where candidates share a point.
    """
    fractions = [Fraction(float(d)).limit_denominator(1000) for d in np.asarray(sum_G).ravel()]
    scale = math.lcm(*(f.denominator for f in fractions))
    units = [int(f * scale) for f in fractions if f]
    weight_X = np.ones(1)
    for size, times in sorted(Counter(map(abs, units)).items()):
        one_X = np.zeros(2 * size * times + 1)
        one_X[:: 2 * size] = binomial_pmf(times)
        weight_X = np.convolve(weight_X, one_X)
    reach, result = len(weight_X) // 2, abs(sum(units))
    tails = weight_X[: reach - result + 1].sum() + weight_X[reach + result :].sum()
    return min(1.0, float(tails))


def holm(p_M: Sequence[float | None]) -> list[float | None]:
    """Holm's p-values: the chance of any false finding in the family stays below the level.

    The smallest of m p-values is multiplied by m, the next by m - 1, and so on; none may be
    smaller than one before it. 0.01, 0.04, 0.03, 0.005 become 0.03, 0.06, 0.06, 0.02. Missing
    p-values stay missing and do not count.
    """
    order = sorted((p, i) for i, p in enumerate(p_M) if p is not None)
    adjusted: list[float | None] = [None] * len(p_M)
    highest = 0.0
    for rank, (p, i) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        adjusted[i] = highest
    return adjusted


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

    @property
    def stderr(self) -> float | None:
        """Both parts together."""
        return None if self.of_items is None else math.hypot(self.of_seeds or 0, self.of_items)


def estimate(sum_SxG: npt.ArrayLike, count_G: npt.ArrayLike) -> Estimate:
    """The mean difference over seeds and items, with its error.

    Seeds are paired: seed s of one method against seed s of the other, D_s the difference of their
    accuracies. All seeds answer the same items. The estimate is the mean of D_s over seeds, and

        variance = SD(D_s)^2 / S + SE^2,

    SE being the error, clustered by document, of the items' differences averaged over seeds: with
    r_g = sum_g - D n_g,  SE^2 = G / (G - 1) * sum_g r_g^2 / (sum_g n_g)^2. What is random in both
    seed and item counts in both parts, so the variance errs upwards.

    Args:
        sum_SxG: Sum of the items' differences in each document, by seed.
        count_G: Items of each document.
    """
    difference_SxG, size_G = np.asarray(sum_SxG, np.float64), np.asarray(count_G, np.float64)
    seeds, clusters = difference_SxG.shape
    assert seeds
    assert clusters
    items = float(size_G.sum())
    # Sums without rounding: neither order nor sign of what is summed moves the last digit.
    by_seed_S = [math.fsum(row_G) / items for row_G in difference_SxG]
    mean = math.fsum(by_seed_S) / seeds
    residual_G = [math.fsum(row_S) / seeds for row_S in difference_SxG.T] - mean * size_G
    squares = math.fsum(residual_G**2)
    # Residuals of a constant difference are not zero but rounding.
    squares = 0.0 if squares < 1e-24 * items else squares
    error = math.sqrt(clusters / (clusters - 1) * squares) / items if clusters > 1 else None
    return Estimate(mean, _spread(by_seed_S), error, seeds, clusters - 1)


def _spread(by_seed_S: Sequence[float]) -> float | None:
    """The standard error of a mean over seeds; None for one seed."""
    seeds, mean = len(by_seed_S), math.fsum(by_seed_S) / len(by_seed_S)
    if seeds == 1:
        return None
    return math.sqrt(math.fsum((d - mean) ** 2 for d in by_seed_S) / (seeds - 1) / seeds)


def averaged(estimates: Sequence[Estimate], by_seed_TxS: npt.ArrayLike) -> Estimate:
    """The mean over tasks that share no item: errors over items add up as sqrt(sum SE^2) / T.

    Args:
        estimates: The tasks' estimates, over the same seeds.
        by_seed_TxS: Each task's differences by seed; their mean over tasks spreads over seeds.
    """
    tasks = len(estimates)
    mean_S = [math.fsum(row_T) / tasks for row_T in np.asarray(by_seed_TxS, np.float64).T]
    errors = [e.of_items for e in estimates if e.of_items is not None]
    known = len(errors) == tasks
    return Estimate(
        difference=math.fsum(mean_S) / len(mean_S),
        of_seeds=_spread(mean_S),
        of_items=math.hypot(*errors) / tasks if known else None,
        seeds=len(mean_S),
        degrees=sum(e.degrees for e in estimates),
    )


def half_width(estimate: Estimate, level: float = LEVEL) -> float | None:
    """Half of the interval that holds the true difference with probability 1 - level.

    Each part has its own quantile, Student's t with S - 1 degrees for the seeds and with G - 1 for
    the documents:  half^2 = (t(S - 1) * of_seeds)^2 + (t(G - 1) * of_items)^2, as in the view
    seed_differences. At two seeds t is 12.7: two numbers say little about their spread.
    """
    if estimate.of_items is None:
        return None
    items = t_quantile(level, estimate.degrees) * estimate.of_items
    if not estimate.of_seeds:
        return items
    return math.hypot(t_quantile(level, estimate.seeds - 1) * estimate.of_seeds, items)


def p_value(estimate: Estimate) -> float | None:
    """The level at which the interval of `half_width` touches zero."""
    size = abs(estimate.difference)
    if estimate.of_items is None:
        return None
    if size == 0:
        return 1.0
    if not estimate.of_seeds:
        return t_tail(size / estimate.of_items, estimate.degrees) if estimate.of_items else 0.0
    high = size / estimate.of_seeds
    if estimate.of_items == 0:
        return t_tail(high, estimate.seeds - 1)
    # Regula falsi (Illinois) for the seeds' quantile at which the half width is the difference.
    low, at_low, at_high = 0.0, -size, _excess(estimate, high)
    for _ in range(60):
        middle = high - at_high * (high - low) / (at_high - at_low)
        value = _excess(estimate, middle)
        if value > 0:
            high, at_high, at_low = middle, value, at_low / 2
        else:
            low, at_low, at_high = middle, value, at_high / 2
        if abs(value) < 1e-9 * size:
            break
    return t_tail(middle, estimate.seeds - 1)


def _excess(estimate: Estimate, t: float) -> float:
    """Half width less the difference, at the level of which t is the seeds' quantile."""
    assert estimate.of_seeds is not None
    assert estimate.of_items is not None
    level = max(t_tail(t, estimate.seeds - 1), 1e-300)
    items = t_quantile(level, estimate.degrees) * estimate.of_items
    return math.hypot(t * estimate.of_seeds, items) - abs(estimate.difference)


def tested(sum_SxG: npt.ArrayLike, count_G: npt.ArrayLike) -> float | None:
    """The p-value of a difference: exact for one seed, else over seeds and documents.

    One seed: `sign_flip` over documents, which says nothing about other seeds. Several: `p_value`
    of `estimate`; where nothing varies, it has no error to go by and documents are flipped too.
    """
    difference_SxG = np.asarray(sum_SxG, np.float64)
    result = estimate(difference_SxG, count_G)
    if result.seeds == 1 or result.stderr == 0:
        return sign_flip([math.fsum(row_S) / result.seeds for row_S in difference_SxG.T])
    return p_value(result)


def stream(*names: str) -> np.random.Generator:
    """Random numbers that depend on the names alone, not on what was drawn before."""
    key = hashlib.sha256("\0".join(names).encode()).digest()[:16]
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "big")))


@functools.lru_cache(maxsize=8)
def resampled(clusters: int, *names: str) -> npt.NDArray[np.uint8]:
    """How often each cluster is drawn, when as many are drawn as there are: B x G.

    The draws depend on the names and the number of clusters alone, so that all comparisons of a
    task share them; the last few are kept.
    """
    generator, drawn = stream("bootstrap", *names), []
    for _ in range(DRAWS // CHUNK):
        picked_BxG = generator.integers(0, clusters, (CHUNK, clusters))
        picked_BxG += np.arange(CHUNK)[:, None] * clusters
        counts = np.bincount(picked_BxG.ravel(), minlength=CHUNK * clusters)
        drawn.append(counts.reshape(CHUNK, clusters).clip(max=255).astype(np.uint8))
    return np.concatenate(drawn)


@functools.lru_cache(maxsize=8)
def seed_weights(seeds: int, *names: str) -> Floats:
    """What each seed counts in a drawn mean over seeds: B x S, rows sum to one.

    Seeds are few, and drawing them with replacement would leave too little spread. The weights are
    1 / S plus a vector of the multivariate t distribution among those that sum to zero, so that the
    drawn mean of any numbers x_s is

        mean(x) + SD(x) / sqrt(S) * T,   T of Student's t with S - 1 degrees,

    and its percentiles are the ends of Student's interval. One seed has the weight 1.

    Args:
        seeds: S.
        names: What the random numbers depend on.
    """
    if seeds == 1:
        return np.ones((DRAWS, 1))
    generator, degrees = stream("seeds", *names), seeds - 1
    normal_BxS = generator.standard_normal((DRAWS, seeds))
    normal_BxS -= normal_BxS.mean(axis=1, keepdims=True)
    scale_B = np.sqrt(generator.chisquare(degrees, DRAWS) / degrees)
    return 1 / seeds + normal_BxS / scale_B[:, None] / math.sqrt(degrees * seeds)


def bootstrap(sum_MxG: npt.ArrayLike, count_G: npt.ArrayLike, *names: str) -> Floats:
    """Mean differences on documents drawn with replacement: B x M, the same draws for all.

    Args:
        sum_MxG: Sum of the items' differences in each document, by comparison. The documents'
            order counts: sort them by name.
        count_G: Items of each document.
        names: What the random numbers depend on.
    """
    difference_MxG, size_G = np.asarray(sum_MxG, np.float64), np.asarray(count_G, np.float64)
    weight_BxG = resampled(len(size_G), *names)
    drawn = []
    for start in range(0, DRAWS, CHUNK):
        part_BxG = weight_BxG[start : start + CHUNK].astype(np.float64)
        drawn.append(part_BxG @ difference_MxG.T / (part_BxG @ size_G)[:, None])
    return np.concatenate(drawn)
