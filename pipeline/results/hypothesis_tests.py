"""Predictions about methods on boards of drawn scenarios, beside what came of them.

Each is tested by its mean over scenarios (`board_tests`), with Holm's procedure over all hypotheses
of the file.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pike_mixing.comparison.sign_flip import holm
from pipeline.planning.predictions import Hypothesis
from pipeline.results.board_tests import mean_over_scenarios
from pipeline.results.selection import Row


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
    result = []
    for name, hypothesis in hypotheses.items():
        key = (hypothesis.board, hypothesis.method, hypothesis.against)
        mean = mean_over_scenarios(by_pair[key], hypothesis.margin)
        result.append(
            {"hypothesis": name, **vars(hypothesis), "scenarios": mean.scenarios}
            | {"outcome": mean.difference, "half": mean.half, "p": mean.p}
        )
    for row, p_holm in zip(result, holm([row["p"] for row in result]), strict=True):
        row |= {"p_holm": p_holm, "verdict": _verdict(row, p_holm, level)}
    return result


def _verdict(row: Row, p_holm: float | None, level: float) -> str:
    # The scenario is the unit: as many as of seeds elsewhere, and as in table_board.
    if row["scenarios"] < LEAST_SEEDS:
        return "too few scenarios"
    if p_holm is None:
        return "alike in all scenarios"
    if p_holm >= level:
        return "not shown"
    lower = row["outcome"] < row["margin"]
    return "as predicted" if lower == (row["direction"] == "lower") else "the opposite"
