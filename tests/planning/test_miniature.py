"""The default experiment: the paper's in miniature, whole and in parts."""

import pytest
from repository import ROOT

from pipeline.planning import planner


@pytest.fixture(scope="module")
def whole():
    return planner.read(ROOT / "config.yaml")


@pytest.fixture(scope="module")
def plan(whole):
    return planner.plan(whole, "config.yaml")


def test_it_has_every_table_and_figure_of_the_paper(plan):
    assert {f"table{n}" for n in range(1, 15)} <= set(plan.tables)
    assert {f"figure{n}" for n in range(1, 9)} <= set(plan.figures)


def test_it_has_every_method_of_the_paper(plan):
    methods = {values["method_name"] for values in plan.runs.values()}
    assert methods >= {
        "mix", "round-robin", "random", "famo", "ado", "glam", "doremi", "pike", "pike-glam-init",
        "balanced-pike-tau1", "balanced-pike-tau3", "balanced-pike-tau5", "pcgrad", "adatask",
    }  # fmt: skip


def test_tables_and_figures_that_need_the_same_runs_share_a_database(plan):
    assert plan.database("table", "table9") == plan.database("table", "table1")
    assert plan.database("figure", "figure8") == "results/databases/table-table1.duckdb"
    assert plan.database("table", "table2") != plan.database("table", "table1")
    needed = plan.selections["table-table1"]
    assert needed == plan.selected("table", "table1") == plan.selected("figure", "figure8")
