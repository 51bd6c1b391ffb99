"""Methods over all scenarios, by numbers that a reader can check."""

import math

import played
import pytest
from played import insert

from pipeline.results import loss_tests
from pipeline.results.database_reader import query_rows
from pipeline.results.measured_results import MeasuredResults

T = {1: 12.706, 2: 4.303}
"""Quantiles of Student's t by degrees of freedom."""


@pytest.fixture
def judged(empty):
    """Scenarios s and u, each with two domains of twenty documents of a token."""
    empty.execute("update experiment set oracle = 'oracle'")
    played.scenarios_of_two(empty, "su", weighed="u")
    for place, method in enumerate(("mix", "oracle", "mine", "drawn-000")):
        insert(empty, "methods", method=method, position=place)
    return empty


def told(connection, sql):
    """The values of one row's cells by column."""
    return {cell["column_label"]: cell["value"] for cell in query_rows(connection, sql)}


def ran(connection, scenario, method, seed, a, b, seconds=1.0):
    """A run whose documents of the two domains lose `a` and `b` nats a token."""
    name = played.ran(connection, scenario, method, seed, a, b)
    insert(connection, "steps", run=name, step=0, seconds=seconds)
    for domain, nll in (("a", a), ("b", b)):
        played.documents(connection, name, domain, *[(nll, 1)] * 20)
    return name


@pytest.fixture
def filled(judged):
    for seed in range(3):
        for scenario in "su":
            ran(judged, scenario, "oracle", seed, 1.0, 1.0)
            ran(judged, scenario, "mix", seed, 1.2, 1.2)
        ran(judged, "s", "mine", seed, 1.1 + 0.1 * seed, 1.1)
        ran(judged, "u", "mine", seed, 1.0, 1.4, seconds=2.0)
    # These serve others: another seed, without the oracle.
    ran(judged, "s", "drawn-000", 100, 9.0, 9.0)
    ran(judged, "s", "mix", 100, 1.2, 1.2)
    loss_tests.fill_loss_tests(MeasuredResults(judged))
    return judged


def test_regret_is_the_mean_over_scenarios_of_the_weighted_loss_above_the_oracles(filled):
    rows = {(r["method"], r["against"]): r for r in query_rows(filled, "select * from leaderboard")}
    assert set(rows) == {("mix", "oracle"), ("mine", "oracle"), ("mine", "mix"), ("oracle", "mix")}
    found = rows["mine", "oracle"]
    # s: 0.1, 0.15 and 0.2 over the seeds; u: (0 + 3 * 0.4) / 4 = 0.3 in all.
    assert found["difference"] == pytest.approx(0.225)
    assert found["seed_sd"] == pytest.approx(0.025)
    half = T[2] * 0.025 / math.sqrt(3)
    assert found["high"] - found["difference"] == pytest.approx(half, rel=1e-3)
    assert (found["worst_scenario"], found["worst"]) == ("u", pytest.approx(0.3))
    assert (found["scenarios"], found["seeds"], found["collapses"]) == (2, 3, 0)
    assert rows["mix", "oracle"]["difference"] == pytest.approx(0.2)


def test_a_method_without_a_scenario_has_no_mean(filled):
    filled.execute("delete from documents where run like 'u/m/mine/%'; delete from loss_tests")
    loss_tests.fill_loss_tests(MeasuredResults(filled))
    assert query_rows(filled, "select * from leaderboard where method = 'mine'") == []


def test_the_table_ranks_by_regret_and_leaves_out_what_serves_others(filled):
    cells = query_rows(filled, "select * from table_leaderboard")
    ranked = [c["row_label"] for c in cells if c["column_label"] == "mean regret"]
    assert ranked == ["oracle", "mix", "mine"]
    kinds = {c["row_label"]: c["kind"] for c in cells}
    assert kinds == {"oracle": "reference", "mix": "method", "mine": "method"}
    verdicts = {c["row_label"]: c["text"] for c in cells if c["column_label"] == "verdict"}
    assert verdicts == {"oracle": "better", "mix": None, "mine": "no difference shown"}
    regrets = {
        (c["row_label"], c["column_label"]): c["value"]
        for c in cells
        if c["section"] == "regret by scenario / m"
    }
    assert regrets["mine", "u"] == pytest.approx(0.3)
    # By their seeds tables mark an interval of one.
    assert {c["pairs"] for c in cells if c["error"] is not None} == {3}


def test_the_table_says_over_how_many_scenarios_it_is(filled):
    def counts():
        cells = query_rows(filled, "select * from table_leaderboard")
        return {c["row_label"]: c["value"] for c in cells if c["column_label"] == "scenarios"}

    assert counts() == {"oracle": 2, "mix": 2, "mine": 2}
    for table in ("runs", "documents"):
        filled.execute(f"delete from {table} where run like 'u/m/oracle/%'")
    filled.execute("delete from loss_tests")
    loss_tests.fill_loss_tests(MeasuredResults(filled))
    assert counts() == {"oracle": 1, "mix": 1, "mine": 1}


def test_a_mixtures_cost_counts_the_runs_that_it_was_found_from(filled):
    filled.execute("update experiment set oracle = 'mine'")
    lineage = {
        "run/u/m/mine/seed0": ["mixture/x"],
        "mixture/x": ["evaluation/s/m/drawn-000/seed100", "run/s/m/drawn-000/seed100"],
        "evaluation/s/m/drawn-000/seed100": ["run/s/m/drawn-000/seed100"],
    }
    for artifact, inputs in lineage.items():
        insert(filled, "lineage", artifact=artifact, inputs=inputs)

    def cost():
        return query_rows(filled, "from steps_of_baseline where run = 'u/m/mine/seed0'")[0]

    found = cost()
    # Twice the baseline's time in its one step; the run it stands on costs one more.
    assert found["steps"] == pytest.approx(2)
    assert found["with_others"] == pytest.approx(3)
    # Also where no baseline was trained with its model.
    filled.execute("update runs set model = 'tiny' where run = 's/m/drawn-000/seed100'")
    assert cost() == found
    # Seconds of another kind of device say nothing of this one's.
    filled.execute("update runs set device = 'cuda: H200' where run = 's/m/drawn-000/seed100'")
    assert cost() == found | {"with_others": None}
    filled.execute("update runs set device = 'cuda: H200' where method = 'mine'")
    assert cost() == found | {"steps": None, "with_others": None}


def test_no_time_is_told_of_runs_on_several_kinds_of_device(filled):
    filled.execute("update runs set wall_seconds = 9, tokens_per_second = 99, resumes = 0")
    insert(filled, "timings", run="u/m/mine/seed0", phase="forward", seconds=1.0, share=0.5)
    board = (
        "from table_leaderboard where row_label = 'mine' "
        "and column_label in ('cost', 'with others')"
    )
    costs = "from table_costs where scenario = 'u' and row_label = 'mine'"
    slower = (
        "from table_methods where scenario = 'u' and column_label = 'step time' "
        "and row_label = 'mine'"
    )
    assert told(filled, board)["cost"] is not None
    # Two seconds a step beside one of the baseline.
    assert told(filled, slower) == {"step time": pytest.approx(100)}
    before = told(filled, costs)
    assert (before["forward"], before["seeds"]) == (50, 3)
    assert None not in before.values()
    filled.execute("update runs set device = 'cuda: H200' where run = 'u/m/mine/seed0'")
    assert told(filled, board) == {"cost": None, "with others": None}
    assert told(filled, costs) == {"wall time": None, "speed": None, "resumes": 0, "seeds": 3}
    filled.execute("update runs set device = 'cuda: H200' where method = 'mine'")
    assert told(filled, slower) == {}


def test_one_slow_step_of_one_seed_costs_nothing(filled):
    costs = "from steps_of_baseline where method = 'mine'"
    before = query_rows(filled, costs)
    filled.execute("update steps set seconds = 99 where run = 'u/m/mine/seed2'")
    assert query_rows(filled, costs) == before


def test_a_pause_of_the_machine_costs_no_more_than_fifty_steps(filled):
    name = ran(filled, "s", "lone", 0, 1.0, 1.0)
    for step, seconds in ((1, 1.0), (2, 1.0), (3, 1300.0)):
        insert(filled, "steps", run=name, step=step, seconds=seconds)
    (found,) = query_rows(filled, f"select steps from steps_of_baseline where run = '{name}'")
    assert found["steps"] == pytest.approx(1 + 1 + 1 + 50)


def test_a_search_that_the_database_lacks_is_not_told_to_be_free(filled):
    insert(filled, "lineage", artifact="run/u/m/mine/seed0", inputs=["mixture/x"])
    insert(filled, "lineage", artifact="mixture/x", inputs=["evaluation/s/m/gone/seed100"])
    sql = "select steps, with_others from steps_of_baseline where run = 'u/m/mine/seed0'"
    assert query_rows(filled, sql) == [{"steps": pytest.approx(2), "with_others": None}]


def climbed(connection, scenario, tokens, regrets):
    """The oracle and methods with these regrets on a rung of so many tokens."""
    for method, regret in {"oracle": 0.0, **regrets}.items():
        name = ran(connection, scenario, method, 0, 1 + regret, 1 + regret)
        connection.execute(f"update runs set tokens = {tokens} where run = '{name}'")


OVER_SCENARIOS = "select tau, units, low, high from rank_correlations where scenario is null"


@pytest.fixture
def ladder(judged):
    """Scenarios s and u with budgets of their own, s2 and u2."""
    config = '{"scenarios": {"s2": {"like": "s"}, "u2": {"like": "u"}}}'
    judged.execute("update experiment set config = ?", [config])
    return judged


def test_ranks_are_compared_by_scenario_and_a_budget_stands_under_its_scenarios_name(ladder):
    climbed(ladder, "s", 1000, {"mix": 0.1, "mine": 0.2, "drawn-000": 0.3})
    climbed(ladder, "s2", 2000, {"mix": 0.1, "mine": 0.3, "drawn-000": 0.2})
    climbed(ladder, "u", 1000, {"mix": 0.1, "mine": 0.1, "drawn-000": 0.3})
    climbed(ladder, "u2", 2000, {"mix": 0.1, "mine": 0.2, "drawn-000": 0.2})
    found = {r["scenario"]: r for r in query_rows(ladder, "select * from rank_correlations")}
    assert {r["label_a"] for r in found.values()} == {"m, 1k"}
    assert {r["label_b"] for r in found.values()} == {"m, 2k"}
    # s: two pairs alike, one turned round. u: one pair alike, two tied on one of the rungs.
    assert found["s"]["tau"] == pytest.approx(1 / 3)
    assert found["u"]["tau"] == pytest.approx(1 / 2)
    assert found["s"]["low"] is None
    mean = found[None]
    assert mean["tau"] == pytest.approx(5 / 12)
    assert mean["high"] - mean["tau"] == pytest.approx(T[1] * (1 / 6) / 2, rel=1e-3)
    cells = query_rows(ladder, "select * from table_ladder where section = 'mean regret'")
    assert {(c["row_label"], c["column_label"]): c["value"] for c in cells}["mine", "m, 2k"] == (
        pytest.approx(0.25)
    )


def test_scenarios_that_rank_alike_give_no_interval(ladder):
    for scenario, tokens in (("s", 1000), ("u", 1000), ("s2", 2000), ("u2", 2000)):
        climbed(ladder, scenario, tokens, {"mix": 0.1, "mine": 0.2, "drawn-000": 0.3})
    # Three methods in one order: by chance so in one of six scenarios.
    found = query_rows(ladder, OVER_SCENARIOS)
    assert found == [{"tau": 1, "units": 2, "low": None, "high": None}]


def test_a_scenario_that_repeats_anothers_runs_is_no_further_one(ladder):
    for scenario in "su":
        climbed(ladder, scenario, 1000, {"mix": 0.1, "mine": 0.2, "drawn-000": 0.3})
    climbed(ladder, "s2", 2000, {"mix": 0.1, "mine": 0.3, "drawn-000": 0.2})
    climbed(ladder, "u2", 2000, {"mix": 0.3, "mine": 0.2, "drawn-000": 0.1})
    (found,) = query_rows(ladder, OVER_SCENARIOS)
    # tau 1/3 and -1.
    assert (found["tau"], found["units"]) == (pytest.approx(-1 / 3), 2)
    # The same weights on the first rung: one unit, and no interval.
    ladder.execute("update runs set weights_sha256 = method where tokens = 1000")
    found = query_rows(ladder, OVER_SCENARIOS)
    assert found == [{"tau": pytest.approx(-1 / 3), "units": 1, "low": None, "high": None}]
