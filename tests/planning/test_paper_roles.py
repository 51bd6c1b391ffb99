"""The paper's names, and which of ours play them."""

import math

import pytest

from pike_mixing import ADO
from pike_mixing.errors import InputError
from pipeline.planning import paper_roles, planner
from pipeline.runtime.code_fingerprint import PACKAGE

PAPER = PACKAGE.parent / "workflow" / "configs" / "paper.yaml"

SMALL = {
    "sources": {"easy": {}, "code": {}},
    "models": {"nano": {}},
    "methods": {"mix": {}, "pike": {}, "odd": {}},
    "scenarios": {"symbols": {}, "glam": {}},
    "evaluation": {"standard": {"tasks": [{"tasks": ["piqa"]}]}},
}


def test_every_name_of_the_published_numbers_is_known_and_has_a_place_of_its_own():
    numbers = paper_roles.read_paper_table("numbers")
    # Table 8 is over all multilingual runs, and `average` is no task.
    others = {"model": set(), "method": set(), "scenario": {"mc4"}, "task": {"", "average"}}
    for kind, names in paper_roles.paper_names_by_kind().items():
        assert {row[kind] for row in numbers} - set(names) == others[kind]
    places = [(row["kind"], row["position"]) for row in paper_roles.read_paper_table("names")]
    assert len(set(places)) == len(places)


def test_a_name_of_the_paper_plays_itself_and_others_what_the_section_says():
    two = ["pike-estimates=1", "pike-zeta1=0.1-zeta2=0.01"]
    section = {"scenarios": {"symbols": "mc4-en"}, "tasks": {"easy": "en"}}
    section["methods"] = {"pike": two, "odd": "mix"}
    assert paper_roles.paper_roles_of({**SMALL, "paper": section}) == [
        ("scenario", "symbols", "mc4-en"),
        ("scenario", "glam", "glam"),
        # Neither pike nor mix plays itself.
        ("method", "pike", two[0]),
        ("method", "pike", two[1]),
        ("method", "odd", "mix"),
        ("task", "easy", "en"),
        ("task", "piqa", "piqa"),
    ]


@pytest.mark.parametrize(
    ("section", "value", "expected"),
    [
        ("scenarios", {"symbls": "mc4-en"}, "paper.scenarios: 'symbls' is unknown"),
        ("scenarios", {"symbols": "mc4-xx"}, "paper.scenarios.symbols: 'mc4-xx' is unknown"),
        ("methods", {"mixx": "mix"}, "paper.methods: 'mixx' is unknown: did you mean 'mix'?"),
        ("tasks", {"continuation-esy": "piqa"}, "'continuation-esy' is unknown"),
    ],
)
def test_names_that_nothing_bears_are_refused(config, section, value, expected):
    values = config()
    values["paper"] = {section: value}
    with pytest.raises(InputError) as caught:
        planner.plan(values, "config.yaml")
    assert expected in str(caught.value)


def test_two_names_cannot_be_cast_for_one_part():
    cast = {"methods": {"odd": "mix", "pike": ["mix", "pike"]}}
    (found,) = paper_roles.duplicate_role_problems({**SMALL, "paper": cast})
    assert found.startswith("paper: 2 names play the method 'mix'")


def test_a_headline_in_which_no_task_is_asked_is_refused():
    config = planner.read_expanded_config(PAPER)
    for evaluation in config["evaluation"].values():
        for entry in evaluation["tasks"]:
            entry["formulations"] = ["cf", "mcf"]
    with pytest.raises(InputError, match=r"paper.headline: .* 'hyb': name one of cf, mcf"):
        planner.plan(config, "paper.yaml")


def test_no_loss_that_the_paper_prints_is_below_the_bound_on_ados_laws():
    bound = math.exp(planner.read_expanded_config(PAPER)["methods"]["ado"]["min_log_irreducible"])
    printed = [r for r in paper_roles.read_paper_table("numbers") if r["metric"] == "perplexity"]
    losses = [math.log(float(row["value"])) for row in printed if row["method"] == "ado"]
    # Hindi's 4.23 alone with English, on the large model.
    assert bound < min(losses) == pytest.approx(1.4422, abs=1e-4)
    assert min(losses) < math.exp(ADO.min_log_irreducible)
