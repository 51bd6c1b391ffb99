"""Outcomes of registered hypotheses, by numbers that a reader can check."""

import json
import math

import pytest
from played import insert, records

from pipeline.planning.registration import Registration
from pipeline.results import registered
from pipeline.runtime.validation import validate

RUNS = [{"scenarios": list("sut"), "methods": ["mix", "mine"], "seeds": [0, 1], "models": ["m"]}]


@pytest.fixture
def filled(empty):
    """Scenarios s and u without a target and t with one, each with two domains."""
    config = json.dumps({"runs": RUNS})
    insert(empty, "experiment", name="e", baseline="mix", config=config)
    for place, scenario in enumerate("sut"):
        insert(empty, "scenarios", scenario=scenario, position=place)
        for position, domain in enumerate("ab"):
            target = 3 if (scenario, domain) == ("t", "b") else 1
            insert(
                empty, "domains", scenario=scenario, domain=domain, position=position,
                target=target,
            )  # fmt: skip
    for seed in (0, 1, 100):
        for scenario in "sut":
            ran(empty, scenario, "mix", seed, 2.0, 2.0)
        # Over the seeds -0.1 and -0.3 in s, -0.4 in u; in t by 1 : 3.
        ran(empty, "s", "mine", seed, 1.8 - 0.4 * seed, 2.0)
        ran(empty, "u", "mine", seed, 1.6, 1.6)
        ran(empty, "t", "mine", seed, 2.0, 2.4)
    return empty


def ran(connection, scenario, method, seed, a, b):
    name = f"{scenario}/m/{method}/seed{seed}"
    insert(
        connection, "runs", run=name, scenario=scenario, model="m", method=method, seed=seed,
        steps=10, tokens=100, tokenizer="t",
    )  # fmt: skip
    for domain, nll in (("a", a), ("b", b)):
        insert(
            connection, "perplexities", run=name, step=10, domain=domain, nll=nll, stderr=0.1,
            perplexity=math.exp(nll), bits_per_byte=nll, tokens=20,
        )  # fmt: skip


def test_the_scenario_is_the_unit_and_a_target_makes_a_board(filled):
    rows = {(r["board"], r["method"]): r for r in records(filled, "select * from boards")}
    assert set(rows) == {(b, m) for b in ("target", "no target") for m in ("mix", "mine")}
    row = rows["no target", "mine"]
    # Seeds that only serve others are left out: -0.2 and -0.4, whose SD is 0.2 / sqrt(2).
    assert (row["scenarios"], row["seeds"], row["worst_scenario"]) == (2, 2, "s")
    assert row["difference"] == pytest.approx(-0.3)
    assert row["stderr"] == pytest.approx(0.1)
    assert row["half"] == pytest.approx(12.706 * 0.1)
    target = rows["target", "mine"]
    assert (target["difference"], target["half"]) == (pytest.approx(0.3), None)


def test_the_table_has_a_section_for_each_board(filled):
    cells = {
        (c["section"], c["row_label"], c["column_label"]): c
        for c in records(filled, "select * from table_board")
    }
    assert {(section, row) for section, row, _ in cells} == {
        ("no target / m", "mine"), ("target / m", "mine"),
    }  # fmt: skip
    gain = cells["no target / m", "mine", "against mix"]
    assert (gain["value"], gain["error"]) == (pytest.approx(-0.3), pytest.approx(1.2706))
    assert gain["significant"] is False
    assert cells["target / m", "mine", "on"]["text"] == "t"


def hypothesis(**changes):
    own = {"method": "mine", "against": "mix", "board": "no target", "direction": "lower"}
    return {**own, "expected": -0.1, **changes}


def concluded(hypotheses, differences):
    values = {
        "benchmark": "b",
        "status": "draft",
        "date": "2026-11-24",
        "size": "m",
        "seeds": [0],
        "model": {},
        "training": {},
        "evaluation_rows": 1,
        "rows": ["mix", "mine"],
        "scenarios": {"stream": "test", "seed": 0, "number": 3},
        "methods": {"mix": {"rule": "mix"}, "mine": {"rule": "mix"}},
        "hypotheses": hypotheses,
    }
    chosen = validate(Registration, values, "mine.yaml")
    keys = {"board": "no target", "method": "mine", "against": "mix"}
    return registered.outcomes(chosen, [keys | {"difference": d} for d in differences])


def test_an_outcome_by_hand():
    # Mean -0.3, SD 0.1, error 0.1 / sqrt(3): t = -5.196 with 2 degrees of freedom. Two-sided
    # p = 1 - t / sqrt(t^2 + 2) = 0.0351, half of the interval 4.303 * 0.0577 = 0.248.
    (row,) = concluded({"gain": hypothesis()}, [-0.2, -0.3, -0.4])
    assert row["outcome"] == pytest.approx(-0.3)
    assert row["half"] == pytest.approx(0.2484, abs=1e-4)
    assert row["p"] == pytest.approx(1 - math.sqrt(27 / 29), abs=1e-9)
    assert (row["p_holm"], row["verdict"]) == (row["p"], "as predicted")


@pytest.mark.parametrize(
    ("changes", "differences", "verdict"),
    [
        ({"direction": "higher"}, [-0.2, -0.3, -0.4], "the opposite"),
        ({"margin": -0.3}, [-0.2, -0.3, -0.4], "not shown"),
        # Never worse by more than 0.005.
        ({"margin": 0.005}, [0.001, 0.0, -0.001], "as predicted"),
        ({}, [-0.2, 0.3, -0.4], "not shown"),
        ({}, [-0.2], "too few scenarios"),
        ({}, [], "too few scenarios"),
    ],
)
def test_verdicts(changes, differences, verdict):
    (row,) = concluded({"one": hypothesis(**changes)}, differences)
    assert row["verdict"] == verdict


def test_hypotheses_are_corrected_together():
    both = {"gain": hypothesis(), "margin": hypothesis(margin=-0.05)}
    rows = concluded(both, [-0.2, -0.3, -0.4])
    assert [row["verdict"] for row in rows] == ["not shown", "not shown"]
    # 0.0351 and 0.0494, of two: both count as 0.0702.
    assert [row["p_holm"] for row in rows] == [pytest.approx(2 * rows[0]["p"])] * 2
