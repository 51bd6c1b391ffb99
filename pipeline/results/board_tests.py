"""The table boards: methods over the scenarios of a board, each against another method.

The scenario is the unit of replication. With d_s the mean over seeds of a method's target loss
minus another's in scenario s, S scenarios, mean d and standard deviation sd,

    t = (d - null difference) / (sd / sqrt(S)),   S - 1 degrees of freedom, two-sided,

so it tells what other scenarios of the same kind would give.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import duckdb

from pike_mixing.comparison.distributions import two_sided_critical_t, two_sided_t_p
from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pike_mixing.comparison.p_values import holm_adjusted
from pipeline.planning.configuration import Hypothesis
from pipeline.results.database_reader import Row, query_rows
from pipeline.results.record_loader import insert_rows

FAMILY = ("board", "model", "against")
"""Columns of whose methods one correction is made."""


class MeanOverScenarios(NamedTuple):
    scenarios: int
    difference: float | None
    """None of no scenario."""
    stderr: float | None = None
    """None of one scenario, as half and p."""
    half: float | None = None
    """Half of the 95% interval."""
    p: float | None = None
    """None, too, of scenarios that are all alike: nothing tells how others differ."""


def mean_over_scenarios(
    difference_S: Sequence[float], null_difference: float = 0.0
) -> MeanOverScenarios:
    """The mean of one difference of each scenario, and a p-value of its being the null one."""
    count = len(difference_S)
    if not count:
        return MeanOverScenarios(0, None)
    mean = math.fsum(difference_S) / count
    if count == 1:
        return MeanOverScenarios(1, mean)
    squares = math.fsum((one - mean) ** 2 for one in difference_S)
    stderr = math.sqrt(squares / (count - 1) / count)
    apart = mean - null_difference
    p = two_sided_t_p(apart / stderr, count - 1) if stderr else None
    return MeanOverScenarios(count, mean, stderr, two_sided_critical_t(0.05, count - 1) * stderr, p)


def fill_boards(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills the table; it is no view, since SQL knows no tails of Student's t.

    The methods of one board and model against one other method are a family of Holm's procedure.
    """
    ordered = "from scenario_differences order by board, model, against, method, scenario"
    for family, of_family in itertools.groupby(
        query_rows(connection, ordered), itemgetter(*FAMILY)
    ):
        board, model, against = family
        by_method = [[*rows] for _, rows in itertools.groupby(of_family, itemgetter("method"))]
        means = [mean_over_scenarios([row["difference"] for row in rows]) for rows in by_method]
        corrected = holm_adjusted([mean.p for mean in means])
        boards = []
        for rows, mean, p_holm in zip(by_method, means, corrected, strict=True):
            worst = max(rows, key=itemgetter("difference"))
            least = min(row["seeds"] for row in rows)
            ends = p_holm, least, worst["difference"], worst["scenario"]
            boards.append([board, model, rows[0]["method"], against, *mean, *ends])
        insert_rows(connection, "boards", boards)


def judge_hypotheses(
    hypotheses: Mapping[str, Hypothesis], level: float, differences: Sequence[Row]
) -> list[Row]:
    """Each hypothesis with its outcome in `scenario_differences`, at one level of all together."""
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
    for row, p_holm in zip(result, holm_adjusted([row["p"] for row in result]), strict=True):
        row |= {"p_holm": p_holm, "verdict": _hypothesis_verdict(row, p_holm, level)}
    return result


def _hypothesis_verdict(row: Row, p_holm: float | None, level: float) -> str:
    # The scenario is the unit: as many as of seeds elsewhere, and as in table_board.
    if row["scenarios"] < LEAST_SEEDS:
        return "too few scenarios"
    if p_holm is None:
        return "alike in all scenarios"
    if p_holm >= level:
        return "not shown"
    lower = row["outcome"] < row["margin"]
    return "as predicted" if lower == (row["direction"] == "lower") else "the opposite"
