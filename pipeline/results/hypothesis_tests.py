"""Predictions about methods on boards of drawn scenarios, beside what came of them.

The scenario is the unit of replication. With d_s the mean over seeds of a method's target loss
minus another's in scenario s, S scenarios, mean d and standard deviation sd,

    t = (d - margin) / (sd / sqrt(S)),   S - 1 degrees of freedom, two-sided,

and Holm's procedure over all hypotheses of the file.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pipeline.planning.predictions import Hypothesis
from pipeline.results.selection import Row
from pipeline.statistics.distributions import t_quantile, t_tail
from pipeline.statistics.sign_flip import holm


def outcomes(
    hypotheses: Mapping[str, Hypothesis], level: float, differences: Sequence[Row]
) -> list[Row]:
    """Each hypothesis with its outcome.

    Args:
        hypotheses: By name.
        level: That of all together.
        differences: Rows of the view `scenario_differences`.
    """
    by_pair: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in differences:
        by_pair[row["board"], row["method"], row["against"]].append(row["difference"])
    result, p_H = [], []
    for name, hypothesis in hypotheses.items():
        key = (hypothesis.board, hypothesis.method, hypothesis.against)
        mean, stderr, count = _summed(by_pair[key])
        p = None
        if stderr is not None and mean is not None:
            apart = mean - hypothesis.margin
            p = t_tail(apart / stderr, count - 1) if stderr else float(not apart)
        p_H.append(p)
        half = None if stderr is None else t_quantile(0.05, count - 1) * stderr
        result.append(
            {"hypothesis": name, **vars(hypothesis), "scenarios": count}
            | {"outcome": mean, "half": half, "p": p}
        )
    for row, p_holm in zip(result, holm(p_H), strict=True):
        row |= {"p_holm": p_holm, "verdict": _verdict(row, p_holm, level)}
    return result


def _summed(values: Sequence[float]) -> tuple[float | None, float | None, int]:
    """Mean over scenarios, its standard error, and how many there are."""
    count = len(values)
    mean = math.fsum(values) / count if count else None
    if mean is None or count < 2:
        return mean, None, count
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (count - 1) / count), count


def _verdict(row: Row, p_holm: float | None, level: float) -> str:
    if p_holm is None:
        return "too few scenarios"
    if p_holm >= level:
        return "not shown"
    lower = row["outcome"] < row["margin"]
    return "as predicted" if lower == (row["direction"] == "lower") else "the opposite"
