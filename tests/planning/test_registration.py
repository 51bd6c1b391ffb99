"""A registration becomes a configuration that runs as it is."""

import copy

import pytest
import yaml
from edits import GONE, set_at, way
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from repository import ROOT

from pike_mixing.errors import InputError
from pipeline.planning import planner, registration, shorthand
from pipeline.runtime.validate_settings import validate

REGISTRATION = yaml.safe_load("""
benchmark: board
status: draft
date: "2026-11-24"
scenarios: {stream: development, seed: 0, number: 4}
size: pico
model: {layers: 1, width: 32, heads: 2, head_width: 16}
training:
  {rows: 20, length: 64, steps: 200, warmup_steps: 20, checkpoint_every: 200, resume_every: 200,
   peak_learning_rate: 0.01, initial_learning_rate: 0.0, final_learning_rate: 0.0,
   statistics_microbatch: 2}
evaluation_rows: 64
seeds: [0, 1]
methods:
  mix: {rule: mix}
  pike: {rule: pike, zeta1: 0.1, zeta2: 0.01, every: 20, rows: 16}
  pike-tuned: {rule: pike, zeta1: 0.1, zeta2: 0.01, every: 20, grid: zetas}
rows: [mix, pike, pike-tuned]
grids:
  zetas: {of: pike, values: {zeta1: [0.1, 0.4]}, seeds: [100]}
mix_for:
  mix-time: {of: pike, by: time}
  mix-search: {of: pike-tuned, by: rows, search: true}
hypotheses:
  gain: {method: pike, against: mix, board: no target, direction: lower, expected: -0.01}
""")
REGISTRATION["scenarios"]["texts"] = {
    f"c{n}": {"kind": "python", "topic": "code", "bytes": 10**n} for n in range(6)
}
HALF = {"layers": 1, "width": 16, "heads": 1, "head_width": 16}


def made(**changes):
    return validate(registration.Registration, {**REGISTRATION, **changes}, "mine.yaml")


def planned(**changes):
    """The configuration of a registration, and its plan."""
    config = registration.workflow_configuration(made(**changes))
    return config, planner.plan(shorthand.expand_shorthand(config), "mine.yaml")


SHIPPED = sorted((ROOT / "workflow" / "registered").glob("*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_what_is_shipped_is_sound_and_judges_on_test_scenarios(path, tmp_path):
    chosen = registration.read_registration(path)
    assert chosen.benchmark == path.stem
    assert chosen.status == "draft" or chosen.scenarios.stream == "test"
    registration.write_configuration_and_summarise(path, tmp_path / "made.yaml")


@effort(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["development", "test"]))
def test_every_configuration_is_sound_and_plans_what_is_registered(seed, stream):
    scenarios = {**REGISTRATION["scenarios"], "seed": seed, "stream": stream}
    _, plan = planned(scenarios=scenarios)
    # 2 scenarios without a target and 2 with one: 5 rows and 6, on 2 seeds; 2 runs of each grid.
    assert len(plan.requested) == 2 * 2 * (5 + 6)
    assert len(plan.runs) == len(plan.requested) + 4 * 2
    for name in ("mix-time", "pike", "fixed-at-target"):
        boards = {run.split("/")[0][-1] for run in plan.requested if f"/{name}/" in run}
        assert boards == set("13" if name == "fixed-at-target" else "0123")


def test_mix_for_the_same_cost_has_as_many_steps_as_the_other_method_costs():
    config = registration.workflow_configuration(made())
    for scenario in config["scenarios"].values():
        # 16 rows of each domain every 20 steps, beside 20 rows a step.
        measured = max(16 * len(scenario["domains"]), 20) / 20
        steps = {
            name: config["training"][scenario["methods"][name]["training"]]["steps"]
            for name in ("mix-time", "mix-search")
        }
        assert steps["mix-time"] == pytest.approx(200 + 200 * measured / 20, abs=1)
        # Its own run, of at least 8 rows a domain, and two of the grid, of 16.
        own = max(8 * len(scenario["domains"]), 20) / 20
        assert steps["mix-search"] == pytest.approx(600 + 10 * (own + 2 * measured), abs=1)


def test_the_configuration_says_what_is_expected():
    config = registration.workflow_configuration(made(level=0.01))
    (expected,) = config["predictions"]["hypotheses"].values()
    assert expected == {**REGISTRATION["hypotheses"]["gain"], "margin": 0.0}
    assert config["predictions"]["level"] == 0.01
    expected["against"] = "mixx"
    with pytest.raises(InputError, match=r"predictions\.hypotheses\.gain\.against: 'mixx'.*mix"):
        planner.plan(shorthand.expand_shorthand(config), "mine.yaml")


def test_a_search_by_smaller_models_in_shorter_runs_of_fewer_rows_costs_its_share():
    short = REGISTRATION["training"] | {"steps": 20, "warmup_steps": 2, "rows": 10}
    config, plan = planned(
        models={"half": HALF},
        recipes={"short": short},
        methods={"mix": {"rule": "mix"}, "found": {"rule": "fixed", "mixture": "best"}},
        rows=["mix", "found"],
        swarms={"drawn": {"runs": 6, "seed": 100, "model": "half", "training": "short"}},
        mixtures={"best": {"finder": "best", "swarm": "drawn"}},
        grids={},
        mix_for={"mix-search": {"of": "found", "by": "rows", "search": True}},
        hypotheses={},
    )
    served = [run for run in plan.runs.values() if run["method_name"].startswith("drawn")]
    assert len(served) == 4 * 6
    assert {(run["model_name"], run["training"]["steps"]) for run in served} == {("half", 20)}
    asking = plan.runs["d0-00/pico/mix/seed0"]
    assert (asking["model_name"], asking["training"]["steps"]) == ("pico", 200)
    # With C characters, 64 tokens: 6 (3,072 + 16 C) + 12 * 64 * 16 FLOPs against twice or more; and
    # half of the rows.
    step = [registration.flops_of_mix_step(run, plan.tokenizers) for run in (served[0], asking)]
    assert 0.25 < 2 * step[0] / step[1] < 0.5
    recipe = config["scenarios"]["d0-00"]["methods"]["mix-search"]["training"]
    steps = 200 + 6 * 20 * step[0] / step[1]
    assert config["training"][recipe]["steps"] == pytest.approx(steps, abs=1)


def test_several_numbers_of_steps_are_boards_of_their_own():
    config, plan = planned(steps=[100, 400], hypotheses={})
    assert len(plan.requested) == 2 * (2 * 2 * (5 + 6))
    assert {run.split("/")[0][5:] + "/" + run.split("/")[1] for run in plan.requested} == {
        "-100/pico-100",
        "-400/pico-400",
    }
    for steps in (100, 400):
        recipe = plan.runs[f"d0-00-{steps}/pico-{steps}/mix/seed0"]["training"]
        # A tenth of the steps is warm-up, as in the recipe.
        assert [recipe[name] for name in ("steps", "warmup_steps")] == [steps, steps // 10]
    # Both have the same grammar, and text for their own number of steps.
    short, long = (config["sources"][f"d0-00-{steps}-00"] for steps in (100, 400))
    assert short["seed"] == long["seed"]
    assert short["documents"] * short["length"] < long["documents"] * long["length"]


def test_a_file_that_is_not_of_this_command_is_not_replaced(tmp_path):
    given = tmp_path / "mine.yaml"
    text = yaml.safe_dump(REGISTRATION)
    given.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.yaml was not made by `pike scenarios`"):
        registration.write_configuration_and_summarise(given, given)
    assert given.read_text(encoding="utf-8") == text


def test_the_same_registration_gives_the_same_bytes(tmp_path):
    given, one, two = (tmp_path / f"{name}.yaml" for name in ("mine", "one", "two"))
    given.write_text(yaml.safe_dump(REGISTRATION), encoding="utf-8")
    assert "d0-03" in registration.write_configuration_and_summarise(given, one)
    registration.write_configuration_and_summarise(given, two)
    assert one.read_bytes() == two.read_bytes()
    assert planner.read_expanded_config(one)["results"] == "results/registered/board"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("rows.0", "mixx", "mine.yaml.rows[0]: 'mixx' is unknown: did you mean 'mix'?"),
        ("hypotheses.gain.method", "pik", "hypotheses.gain.method: 'pik' is unknown"),
        ("hypotheses.gain.method", "fixed-at-target", "is on the board `target` alone"),
        ("benchmark", "nano", "whose results would lie in the same folder: choose another name"),
        ("hypotheses.gain.board", "all", "board"),
        ("scenarios.texts", {"code": {"kind": "python", "topic": "code"}}, "texts: give 6 or none"),
        ("status", "registered", "commit: name the commit at which the rules are frozen"),
        ("mix_for.mix-time.of", "pyke", "mix_for.mix-time.of: 'pyke' is unknown"),
        ("rows", ["mix"], "mix_for.mix-time.of: pike is not in rows"),
        ("training.steps", GONE, "mine.yaml.training: steps is missing: "),
        ("recipes", {"short": {"rows": 0}}, "mine.yaml.recipes.short.rows: must be at least 1"),
        ("scenarios.texts.c0", {}, "mine.yaml.scenarios.texts.c0: kind is missing: one of "),
        (
            "mix_for.pike",
            {"of": "pike", "by": "time"},
            "methods.pike: the configuration that is made",
        ),
        ("methods.fixed-at-target", {"rule": "mix"}, "methods.fixed-at-target: the conf"),
        ("methods.pike.zeta1", -1, "zeta1"),
        ("steps", [100, 400], "mine.yaml.hypotheses: are over scenarios of one size"),
        ("models", {"pico": {}}, "mine.yaml.models.pico: the configuration"),
        (
            "recipes",
            {"steps-200": REGISTRATION["training"]},
            "mine.yaml.recipes.steps-200: the configuration",
        ),
    ],
)
def test_a_wrong_registration_is_refused(tmp_path, place, value, message):
    values = copy.deepcopy(REGISTRATION)
    set_at(values, way(place), value)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        registration.write_configuration_and_summarise(path, tmp_path / "out.yaml")
    assert message in str(caught.value)
    assert not (tmp_path / "out.yaml").exists()


RUN = {
    "rule": "scale-free-pike",
    "method": {"rows": 16, "every": 10},
    "domains": list("abcde"),
    "training": {"rows": 20, "steps": 200},
}


def test_costs_here_and_at_the_papers_size():
    # 80 rows every 10 steps beside 20: 0.4. Every 6,000 of 120,000 steps beside 256: none of a
    # domain is measured on less than its share of a batch.
    assert registration.rows_per_batch_row(RUN) == pytest.approx(1.4)
    assert registration.passes_relative_to_mix(RUN) == pytest.approx(1.4)
    paper = registration.run_rescaled_to_paper_training(RUN)
    assert paper["method"] == {"rows": 16, "every": 6000}
    assert registration.passes_relative_to_mix(paper) == pytest.approx(1 + 1 / 6000)
    # Losses of 16 rows: rows are read, and passed forward alone.
    skill = {**RUN, "rule": "skill-it", "method": {"rows": 16, "every": 10, "eta": 0.2}}
    assert registration.rows_per_batch_row(skill) == pytest.approx(1.4)
    assert registration.passes_relative_to_mix(skill) == pytest.approx(1 + 0.4 / 3)
