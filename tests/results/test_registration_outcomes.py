"""Outcomes of registered hypotheses, by numbers that a reader can check."""

import json
import math
import shutil
from pathlib import Path

import duckdb
import pytest
import repository
from played import fresh, insert, ran, scenarios_of_two

from pike_mixing.errors import InputError
from pipeline.planning import planner, registration, shorthand
from pipeline.planning.configuration import Hypothesis
from pipeline.results import board_tests, registration_outcomes
from pipeline.results.database_reader import query_rows
from pipeline.runtime import atomic_files, made_from

RUNS = [{"scenarios": list("sut"), "methods": ["mix", "mine"], "seeds": [0, 1], "models": ["m"]}]


@pytest.fixture
def filled(empty):
    """Scenarios s and u without a target and t with one, each with two domains."""
    empty.execute("update experiment set config = ?", [json.dumps({"runs": RUNS})])
    scenarios_of_two(empty, "sut", weighed="t")
    for seed in (0, 1, 100):
        for scenario in "sut":
            ran(empty, scenario, "mix", seed, 2.0, 2.0)
        # Over the seeds -0.1 and -0.3 in s, -0.4 in u; in t by 1 : 3.
        ran(empty, "s", "mine", seed, 1.8 - 0.4 * seed, 2.0)
        ran(empty, "u", "mine", seed, 1.6, 1.6)
        ran(empty, "t", "mine", seed, 2.0, 2.4)
    board_tests.fill_boards(empty)
    return empty


def test_the_scenario_is_the_unit_and_a_target_makes_a_board(filled):
    rows = {(r["board"], r["method"]): r for r in query_rows(filled, "select * from boards")}
    assert set(rows) == {(b, m) for b in ("target", "no target") for m in ("mix", "mine")}
    row = rows["no target", "mine"]
    # Seeds that only serve others are left out: -0.2 and -0.4, whose SD is 0.2 / sqrt(2).
    assert (row["scenarios"], row["seeds"], row["worst_scenario"]) == (2, 2, "s")
    assert row["difference"] == pytest.approx(-0.3)
    assert row["stderr"] == pytest.approx(0.1)
    assert row["half"] == pytest.approx(12.706 * 0.1, rel=1e-4)
    # t = -3 with one degree of freedom: p = 2 / pi * arctan(1 / 3). One method, one test.
    assert row["p_holm"] == row["p"] == pytest.approx(2 / math.pi * math.atan(1 / 3))
    target = rows["target", "mine"]
    assert (target["difference"], target["half"]) == (pytest.approx(0.3), None)


def test_the_table_has_a_section_for_each_board(filled):
    cells = {
        (c["section"], c["row_label"], c["column_label"]): c
        for c in query_rows(filled, "select * from table_board")
    }
    places = {(section, row) for section, row, _ in cells}
    assert places == {("no target / m", "mine"), ("target / m", "mine")}
    gain = cells["no target / m", "mine", "against mix"]
    assert (gain["value"], gain["error"]) == (pytest.approx(-0.3), pytest.approx(1.2706, rel=1e-4))
    assert gain["significant"] is False
    assert cells["target / m", "mine", "on"]["text"] == "t"


def test_the_methods_of_a_board_are_corrected_together(empty):
    runs = [{"methods": ["mix", "even", "near"], "seeds": [0]}]
    empty.execute("update experiment set config = ?", [json.dumps({"runs": runs})])
    scenarios_of_two(empty, "suv", weighed="t")
    for scenario, near in zip("suv", (-0.3, -0.4, -0.35), strict=True):
        for method, gain in (("mix", 0), ("even", near / 7 - 0.05), ("near", near)):
            ran(empty, scenario, method, 0, 2 + gain, 2 + gain)
    board_tests.fill_boards(empty)
    rows = {r["method"]: r for r in query_rows(empty, "from boards where against = 'mix'")}
    # Means -0.1 and -0.35, SD 0.05 / 7 and 0.05: t = -24.2 and -12.1, of two degrees.
    for name, t in (("even", 14 * math.sqrt(3)), ("near", 7 * math.sqrt(3))):
        assert rows[name]["p"] == pytest.approx(1 - t / math.sqrt(t**2 + 2))
    # 0.0017 of two, and 0.0067.
    assert rows["even"]["p_holm"] == pytest.approx(2 * rows["even"]["p"])
    assert rows["near"]["p_holm"] == pytest.approx(rows["near"]["p"])
    bold = "from table_board where column_position = 0 and significant"
    assert [row["row_label"] for row in query_rows(empty, bold)] == ["near", "even"]
    # Of a method that lacks a scenario nothing is marked.
    empty.execute("delete from perplexities where run = 'v/m/near/seed0'; delete from boards")
    board_tests.fill_boards(empty)
    marked = "select row_label, better from table_board where column_position = 0"
    assert query_rows(empty, marked) == [
        {"row_label": "near", "better": None},
        {"row_label": "even", "better": "lower"},
    ]


PAIR = {"board": "no target", "method": "odm", "against": "mix"}


def hypothesis(direction="lower", margin=0.0):
    return Hypothesis(**PAIR, direction=direction, expected=-0.1, margin=margin)


def concluded(hypotheses, differences):
    rows = [PAIR | {"difference": one} for one in differences]
    return board_tests.judge_hypotheses(hypotheses, 0.05, rows)


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
        # The same runs, or apart by the same in each scenario: of others nothing is known.
        ({"margin": 0.005}, [0.0] * 3, "alike in all scenarios"),
        ({}, [-0.5] * 3, "alike in all scenarios"),
        ({}, [-0.5, -0.501], "too few scenarios"),
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


FILE = """
benchmark: b
status: registered
date: "2026-11-24"
commit: "COMMIT"
scenarios: {stream: development, seed: 0, number: 4}
size: m
model: {layers: 1, width: 8, heads: 1, head_width: 8}
training:
  {rows: 20, length: 64, steps: 200, warmup_steps: 2, checkpoint_every: 200, resume_every: 200,
   peak_learning_rate: 0.01, initial_learning_rate: 0.0, final_learning_rate: 0.0}
evaluation_rows: 9
seeds: [0]
methods: {mix: {rule: mix}, odm: {rule: odm}}
rows: [mix, odm]
hypotheses: {gain: {method: odm, against: mix, board: target, direction: lower, expected: -0.1}}
"""


@pytest.fixture(scope="module")
def registered_once(tmp_path_factory):
    """A registration in a commit of a repository of its own, and a database of all its runs."""
    folder = tmp_path_factory.mktemp("registry")

    def git(*words):
        return repository.git(folder, *words).strip()

    git("init", "-q")
    (folder / "pike_mixing" / "rules").mkdir(parents=True)
    rule = folder / "pike_mixing" / "rules" / "odm.py"
    for name in ("frozen", "later"):
        rule.write_text(name)
        git("add", ".")
        git("commit", "-qm", name)
    file = folder / "b.yaml"
    file.write_text(FILE.replace("COMMIT", git("rev-parse", "HEAD~1")))
    git("add", ".")
    git("commit", "-qm", "registration")
    config = shorthand.expand_shorthand(
        registration.workflow_configuration(registration.read_registration(file))
    )
    plan = planner.plan(config, str(file))
    connection = fresh(path=folder / "b.duckdb")
    insert(connection, "experiment", name="b", baseline="mix", config=json.dumps(plan.config))
    for scenario, values in config["scenarios"].items():
        weights = values.get("target") or dict.fromkeys(values["domains"], 1)
        for domain, target in weights.items():
            insert(connection, "domains", scenario=scenario, domain=domain, target=target)
    for name, values in plan.runs.items():
        # Written by the first commit of all, before the registration.
        insert(
            connection, "runs", run=name, scenario=values["scenario"], model="m", seed=0, steps=9,
            method=values["method_name"], settings=json.dumps(values), tokens=9,
            code_commit=git("rev-parse", "HEAD~1"), device="cpu: x86_64, 1 thread",
        )  # fmt: skip
        insert(connection, "steps", run=name, step=0, seconds=2.0)
        insert(connection, "lineage", artifact=f"run/{name}", inputs=[])
        for domain in values["domains"]:
            insert(connection, "perplexities", run=name, step=9, domain=domain, nll=1.0)
    board_tests.fill_boards(connection)
    connection.close()
    return folder


@pytest.fixture
def registry(registered_once, tmp_path):
    """A copy of it: its git, the registration, and the database, open."""
    shutil.copytree(registered_once, tmp_path, dirs_exist_ok=True)
    with duckdb.connect(str(tmp_path / "b.duckdb")) as connection:
        yield (
            lambda *words: repository.git(tmp_path, *words).strip(),
            tmp_path / "b.yaml",
            connection,
        )


def deviations(file, connection):
    connection.close()
    facts = json.loads(
        registration_outcomes.compare_with_registration(file, file.with_suffix(".duckdb"), "json")
    )
    return facts["deviations"], facts


def test_runs_of_the_registrations_commit_do_not_deviate(registry):
    git, file, connection = registry
    connection.execute("update runs set code_commit = ?", [git("rev-parse", "HEAD")])
    file.write_text(file.read_text().replace(git("rev-parse", "HEAD~2"), git("rev-parse", "HEAD")))
    lines, facts = deviations(file, connection)
    # The frozen commit is another now, so the file is not what was committed.
    assert lines == [f"{file} differs from what was committed"]
    assert facts["hypotheses"][0]["verdict"] == "too few scenarios"
    # Both scenarios are alike: there is no p to correct.
    text = registration_outcomes.compare_with_registration(file, file.with_suffix(".duckdb"))
    assert "p by Holm over the 0 that have one, level 0.05" in text
    costs = [(row["board"], row["method"], row["rows"]) for row in facts["methods"]]
    of_target = [("target", "fixed-at-target", 1.0), ("target", "odm", 1.0)]
    assert sorted(costs) == [("no target", "odm", 1.0), *of_target]


def test_no_time_is_told_where_a_run_of_mix_had_another_kind_of_device(registry):
    _, file, connection = registry
    first = "select min(run) from runs where method = 'mix'"
    connection.execute(f"update runs set device = 'cuda: H200' where run = ({first})")
    _, facts = deviations(file, connection)
    told = {(row["board"], row["method"]): row["time here"] for row in facts["methods"]}
    assert told["no target", "odm"] is None
    # One step is recorded of 200.
    assert told["target", "odm"] == 1 / 200


def test_deviations_are_named(registry):
    git, file, connection = registry
    first = connection.execute("select min(run) from runs").fetchone()[0]
    connection.execute("update runs set run = 's/m/mix/seed7', seed = 7 where run = ?", [first])
    connection.execute(
        'update runs set settings = json_merge_patch(settings, \'{"training": {"steps": 300}}\') '
        "where method = 'odm'"
    )
    lines, _ = deviations(file, connection)
    earlier, frozen = git("rev-parse", "HEAD~1")[:12], git("rev-parse", "HEAD")[:12]
    odm = [f"d0-0{n}/m/odm/seed0: training" for n in (0, 2, 1)]
    assert lines == [
        f"missing runs: {first}",
        "runs that were not registered: s/m/mix/seed7",
        f"runs with other settings: {', '.join(odm)} and 1 more",
        f"code of {earlier} is not of after the registration ({frozen})",
        f"code of {earlier}: rules that changed: pike_mixing/rules/odm.py",
    ]


def test_scenarios_that_an_earlier_registration_reads_are_named(registry, tmp_path, monkeypatch):
    _, file, connection = registry
    text = file.read_text().replace("stream: development", "stream: test")
    file.write_text(text)
    monkeypatch.setattr(registration, "REGISTRATIONS", tmp_path / "registered")
    registration.REGISTRATIONS.mkdir()
    (date,) = (line for line in text.splitlines() if line.startswith("date: "))
    others = {
        "alike": text,
        "apart": text.replace("seed: 0", "seed: 1"),
        "later": text.replace(date, 'date: "2999-01-01"'),
    }
    for name, other in others.items():
        own = other.replace("benchmark: b", f"benchmark: {name}")
        (registration.REGISTRATIONS / f"{name}.yaml").write_text(own)
    lines, _ = deviations(file, connection)
    named = [line for line in lines if "its scenarios" in line]
    assert named == ["its scenarios are those of alike.yaml, whose results may have been read"]


def test_runs_that_code_of_today_would_make_otherwise_are_named_in_a_draft(
    registry, tmp_path, monkeypatch
):
    _, file, connection = registry
    first, second = connection.execute("select run from runs order by run limit 2").fetchall()
    monkeypatch.chdir(tmp_path)
    for (run,) in (first, second):
        place = Path("runs", run, "manifest.json")
        place.parent.mkdir(parents=True)
        # Of other code.
        made_from.InputSnapshot("pretrain", (__name__,)).write_manifest(
            place, settings={}, files=(), facts={}
        )
    file.write_text(file.read_text().replace("status: registered", "status: draft"))
    registration.write_configuration_and_summarise(file, tmp_path / "drawn.yaml")
    # Beside the database.
    stamp = {"started_with": ["drawn.yaml"], "options": {"results": "."}}
    atomic_files.write_json(tmp_path / "experiment.json", stamp)
    lines, _ = deviations(file, connection)
    assert f"runs older than today's code or settings: {first[0]}, {second[0]}" in lines


def test_before_its_runs_a_registration_says_how_they_are_made(registry):
    _, file, _ = registry
    with pytest.raises(InputError) as refused:
        registration_outcomes.compare_with_registration(file)
    drawn = f"results/{registration.read_registration(file).benchmark}.yaml"
    assert f"`pike scenarios {file} --out {drawn}`" in str(refused.value)
    assert f"--configfile {drawn}`" in str(refused.value)
