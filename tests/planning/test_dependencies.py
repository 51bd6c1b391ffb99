"""Which runs stand on which: references, swarms, mixtures."""

import copy

import pytest
from edits import set_at, way
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pipeline.planning import dependencies, outdated_work, planner
from pipeline.planning.plan import OF_ALL
from pipeline.results.sql_views import SQL
from pipeline.runtime import atomic_files

DOREMI = {
    "proxy": {"rule": "doremi", "reference": "mix"},
    "doremi": {"rule": "fixed", "mixture": "doremi"},
}


@pytest.fixture
def chained(config):
    """The default experiment with DoReMi's chain and a swarm, asking for their ends alone."""

    def made(*methods, **changes):
        values = config()
        values["scenarios"]["symbols"]["probe"] = "standard"
        del values["probe"]["standard"]["methods"], values["probe"]["standard"]["seeds"]
        values["methods"] |= copy.deepcopy(DOREMI) | {
            "found": {"rule": "fixed", "mixture": "found"}
        }
        values["swarms"] = {"small": {"runs": 3, "seed": 100}}
        values["mixtures"] = {
            "doremi": {"finder": "average", "methods": ["proxy"]},
            "found": {"finder": "best", "swarm": "small", "methods": ["mix"]},
        }
        entry = {"scenarios": ["symbols"], "models": ["nano"], "seeds": [5]}
        values["runs"] = [{**entry, "methods": list(methods)}]
        return values | {"tables": {"perplexity": {}}, "figures": {}} | changes

    return made


def named(method, seed=5):
    return f"symbols/nano/{method}/seed{seed}"


def test_results_that_are_moved_change_no_mixture(chained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before, moved = (
        planner.plan(chained("doremi") | {"results": folder}, "config.yaml")
        for folder in ("results", "moved")
    )
    assert moved.mixtures == before.mixtures
    name = named("doremi")
    written = moved.settings_by_path()[f"moved/settings/mixtures/{name}.json"]
    assert written["proxies"][named("proxy")]["folder"] == f"moved/runs/{named('proxy')}"
    # Where the runs lie is not recorded.
    for proxy in written["proxies"].values():
        del proxy["folder"]
    recorded = {"stage": "mixture", "settings": written, "weights_by_domain": {}, "files": {}}
    code = {"fingerprint": "0", "commit": None, "loaded": {}}
    recorded |= {"inputs": {}, "given": {}, "code": code, "versions": {}}
    atomic_files.write_json(tmp_path / before.manifest_path("mixture", name), recorded)
    told = {
        one.what.partition(".")[0]
        for one in outdated_work.PlanComparison(before).differences("mixture", name)
    }
    assert "code" in told
    assert "settings" not in told


GRID = {
    "low": {"rule": "pike", "zeta1": 0.1, "zeta2": 0.01},
    "high": {"rule": "pike", "zeta1": 0.5, "zeta2": 0.05},
    "tuned": {"rule": "balanced-pike", "tau": 1, "grid": "pairs"},
}


def gridded(chained):
    values = chained("tuned")
    values["methods"] |= copy.deepcopy(GRID)
    grid = {"methods": ["low", "high"], "settings": ["zeta1", "zeta2"]}
    values["grids"]["pairs"] = {**grid, "model": "pico", "seeds": [3]}
    return values


def test_a_grid_and_a_mixture_may_have_runs_of_several_seeds(chained):
    values = chained("found")
    values["mixtures"]["found"] = {"finder": "best", "methods": ["mix"], "seeds": [7, 8]}
    plan = planner.plan(values, "config.yaml")
    assert set(plan.mixtures[named("found", 7)]["proxies"]) == {named("mix", 7), named("mix", 8)}


def test_a_grid_chooses_among_its_own_runs_and_one_choice_serves_all_seeds(chained):
    values = gridded(chained)
    values["runs"][0]["seeds"] = [5, 6]
    plan = planner.plan(values, "config.yaml")
    of_grid = [f"symbols/pico/{method}/seed3" for method in ("low", "high")]
    assert list(plan.runs) == [named("tuned", 5), named("tuned", 6), *of_grid]
    choice = "symbols/pico/pairs/seed3"
    assert set(plan.found.values()) == set(plan.mixtures) == {choice}
    assert plan.mixtures[choice]["finder"] == "grid"
    proxies = plan.mixtures[choice]["proxies"]
    assert [proxies[run]["gives"] for run in of_grid] == [
        {"zeta1": 0.1, "zeta2": 0.01},
        {"zeta1": 0.5, "zeta2": 0.05},
    ]
    run = plan.runs[named("tuned")]
    assert run["method"]["tau"] == 1
    assert not {"zeta1", "zeta2"} & run["method"].keys()
    assert run["tuned"] == {"zeta1": [0.1, 0.5], "zeta2": [0.01, 0.05]}
    assert all(plan.evaluations[run]["checkpoints"] == "last" for run in of_grid)


TARGET = "scenarios.symbols.target"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("grids.pairs.methods", ["low", "mix"], "settings: methods.mix sets no 'zeta1': set it"),
        ("grids.pairs.methods", ["low", "hgih"], "methods: 'hgih' is unknown: did you mean 'high'"),
        ("grids.pairs.settings", ["zeta1"], "methods.tuned in scenario symbols: zeta2 is missing"),
        # Only seeds of the swarm.
        ("tables.perplexity.seeds", [100], "seeds: no run that is selected has 100"),
        ("methods.proxy.reference", "doremi", "in a circle: doremi <- proxy <- doremi"),
        ("methods.proxy.reference", "mixx", "reference: 'mixx' is unknown: did you mean 'mix'"),
        ("mixtures.found.swarm", "smal", "swarm: 'smal' is unknown: did you mean 'small'"),
        (
            TARGET,
            {"like-en": 1, "like-hi": 1},
            f"{TARGET}: domain 'like-de' has no weight: give it",
        ),
        (
            TARGET,
            {"like-en": 0, "like-hi": 0, "like-de": 0},
            f"{TARGET}: at least one must be positive",
        ),
    ],
)
def test_what_no_run_can_stand_on_is_refused(chained, place, value, message):
    values = gridded(chained)
    values["runs"][0]["methods"] = ["tuned", "doremi", "found"]
    set_at(values, way(place), value)
    with pytest.raises(InputError) as caught:
        planner.plan(values, "config.yaml")
    assert message in str(caught.value)


def test_a_swarm_has_its_own_seed_and_one_mixture_serves_all_seeds(chained):
    values = chained("found")
    values["runs"][0]["seeds"] = [5, 6]
    plan = planner.plan(values, "config.yaml")
    assert plan.found == {
        named("found", 5): named("found", 100),
        named("found", 6): named("found", 100),
    }
    proxies_of = [*(named(f"small-{i:03d}", 100) for i in range(3)), named("mix", 100)]
    assert set(plan.mixtures[named("found", 100)]["proxies"]) == set(proxies_of)
    assert set(plan.runs) == {named("found", 5), named("found", 6), *proxies_of}


def test_runs_that_only_serve_others_are_evaluated_once_and_never_probed(chained):
    values = chained("found", "doremi")
    values["evaluation"]["standard"]["curves"] = {"methods": ["doremi"]}
    plan = planner.plan(values, "config.yaml")
    assert set(plan.probes) == set(plan.requested) == {named("found"), named("doremi")}
    assert plan.evaluations[named("doremi")]["checkpoints"] == "all"
    member = plan.evaluations[named("small-001", 100)]
    assert (member["checkpoints"], member["choice"]) == ("last", None)
    assert named("proxy") in plan.evaluations
    assert named("mix") not in plan.evaluations


def test_a_table_that_names_the_method_of_a_helper_selects_its_runs(chained):
    values = chained("doremi", tables={"perplexity": {"methods": ["proxy"]}})
    plan = planner.plan(values, "config.yaml")
    assert plan.needed_runs_by_output["table", "perplexity"] == (named("proxy"),)


def test_a_table_that_counts_what_other_runs_cost_has_these_in_its_database():
    counting = {
        file.stem.removeprefix("table_")
        for file in SQL.glob("table_*.sql")
        if "steps_of_baseline" in file.read_text(encoding="utf-8")
    }
    # On boards of drawn scenarios a search was told to cost nothing.
    assert counting == set(OF_ALL) == {"board", "leaderboard"}


def test_the_first_mixture_of_a_swarm_is_uniform_and_the_others_are_drawn(chained):
    values = planner.plan(chained("found"), "config.yaml").runs
    first, second, third = (
        values[named(f"small-{i:03d}", 100)]["method"]["weights_by_domain"] for i in range(3)
    )
    assert set(first.values()) == {0.3333}
    assert first != second != third


@effort(max_examples=30, deadline=None)
@given(st.integers(0, 999), st.permutations(["en", "hi", "de", "fr"]), st.floats(0.5, 20))
def test_a_draw_is_a_mixture_that_the_order_of_domains_does_not_change(place, order, concentration):
    swarm = {"seed": 1, "runs": 1000, "concentration": concentration}
    weights = dependencies.draw_mixture(swarm, "small", place, order)
    assert list(weights) == order
    assert min(weights.values()) >= 0
    assert sum(weights.values()) == pytest.approx(1, abs=3e-4)
    assert weights == dependencies.draw_mixture(swarm, "small", place, sorted(order))


def test_a_swarm_may_have_a_smaller_model_and_a_shorter_recipe(chained):
    values = chained("found")
    values["models"]["pico"] = {"layers": 1, "width": 32, "heads": 1, "head_width": 32}
    values["training"]["short"] = {**values["training"]["symbols"], "steps": 90}
    values["swarms"]["small"] |= {"model": "pico", "training": "short"}
    # Mix, beside it, has the scenario's recipe.
    with pytest.raises(InputError, match=r"mixtures\.found: .* whose losses do not compare"):
        planner.plan(values, "config.yaml")
    del values["mixtures"]["found"]["methods"]
    plan = planner.plan(values, "config.yaml")
    member = plan.runs["symbols/pico/small-001/seed100"]
    assert member["model"]["layers"] == 1
    assert member["training"]["steps"] == 90
    assert plan.found == {named("found"): "symbols/pico/found/seed100"}
    assert plan.runs[named("found")]["training"]["steps"] == 150


def test_mde_wants_an_evaluation_that_keeps_the_losses_of_tokens(chained):
    values = chained("found")
    values["mixtures"]["found"]["finder"] = "mde"
    # An evaluation of another scenario is no help.
    values["evaluation"]["other"] = values["evaluation"]["standard"] | {"token_losses": True}
    with pytest.raises(
        InputError, match=r"mixtures.found: .* does not keep: set evaluation.standard.token_losses"
    ):
        planner.plan(values, "config.yaml")
    values["evaluation"]["standard"]["token_losses"] = True
    plan = planner.plan(values, "config.yaml")
    assert plan.mixtures[named("found", 100)]["finder"] == "mde"


def test_a_scenarios_target_reaches_finders_grids_and_rules_that_have_one(chained):
    values = gridded(chained)
    target = {"like-en": 0, "like-hi": 3, "like-de": 1}
    values["scenarios"]["symbols"]["target"] = target
    values["methods"]["towards"] = {"rule": "r-and-b"}
    values["runs"][0]["methods"] = ["tuned", "found", "doremi", "towards"]
    plan = planner.plan(values, "config.yaml")
    options = {name.split("/")[2]: m["options"] for name, m in plan.mixtures.items()}
    assert options == {"pairs": {"target": target}, "found": {"target": target}, "doremi": {}}
    assert plan.runs[named("towards")]["method"]["target"] == target
    assert "target" not in plan.runs[named("tuned")]["method"]
