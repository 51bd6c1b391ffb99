"""Tables and figures that a plan refuses because they would be empty after all training."""

import pytest

from pike_mixing.errors import InputError
from pipeline.planning import planner
from pipeline.planning.output_needs import NEEDS

ALL = [(section, name) for section, named in NEEDS.items() for name in named]


@pytest.fixture
def single(config):
    """A run of Mix in each scenario, of which nothing is asked; the table or figure of a name."""

    def make(section, name):
        values = config()
        values["runs"] = [
            {
                "scenarios": ["symbols", "symbols-two", "symbols-six", "stdlib"],
                "models": ["nano", "pico"],
                "methods": ["mix"],
                "seeds": [0],
            }
        ]
        for scenario in values["scenarios"].values():
            scenario |= {"evaluation": "losses"}
            scenario.pop("probe", None)
        values["tables"] = values["figures"] = {}
        return values | {section: {name: {}}}

    return make


def told(values):
    try:
        planner.plan(values, "mine.yaml")
    except InputError as error:
        return str(error).splitlines()
    return []


def methods(*names):
    return lambda values: values["runs"][0].update(methods=["mix", *names])


def oracle(values):
    values["compare"] = {"oracle": "random"}
    methods("random")(values)


def items(values):
    values["evaluation"]["losses"]["choice"] = values["evaluation"]["standard"]["choice"]


def followed(values):
    values["evaluation"]["losses"]["checkpoints"] = "all"
    methods("random")(values)


def probed(values):
    for scenario in values["scenarios"].values():
        scenario["probe"] = "standard"


MENDED = {
    "leaderboard": oracle,
    "ladder": oracle,
    "accuracy": items,
    "power": methods("random"),
    "differences": methods("random"),
    "speedups": followed,
    "gradients": methods("pike"),
    "similarities": probed,
    "figure1": items,
    "figure2": probed,
    "figure4": items,
    "figure5": probed,
    "figure6": probed,
}
NEVER = ("perplexity", "losses", "figure7", "figure8")
"""Those that a run of Mix suffices for."""


@pytest.mark.parametrize(("section", "name"), ALL)
def test_what_would_be_empty_is_refused_until_it_has_what_it_needs(single, section, name):
    values = single(section, name)
    found = told(values)
    if name not in NEVER:
        (line,) = found
        assert line.startswith(f"mine.yaml: {section}.{name} would be empty: ")
        MENDED[name](values)
    assert told(values) == []


@pytest.mark.parametrize("name", [name for _, name in ALL if name.startswith("figure")])
def test_a_figure_of_the_papers_needs_its_cast(single, name):
    values = single("figures", name)
    for change in (items, probed):
        change(values)
    assert told(values) == []
    del values["paper"]
    (line,) = told(values)
    assert "none of its runs plays the paper's (scenario " in line


def test_all_are_told_at_once_with_other_mistakes(single):
    values = single("tables", "leaderboard")
    values["tables"] |= {"accuracy": {}, "ladder": {}, "perplexity": {"methods": ["pike"]}}
    values["training"]["text"]["warmup_steps"] = 601
    lines = told(values)
    assert [line.split(" ")[1].rstrip(":") for line in lines] == [
        "training.text.warmup_steps",
        "tables.perplexity.methods",
        "tables.accuracy",
        "tables.ladder",
        "tables.leaderboard",
    ]


def test_pairs_are_of_one_scenario_model_and_seed(single):
    values = single("tables", "power")
    entry = values["runs"][0]
    for other in ({"seeds": [1]}, {"models": ["pico"]}, {"scenarios": ["stdlib"]}):
        values["runs"] = [
            entry | {"scenarios": ["symbols"], "models": ["nano"]},
            entry | {"scenarios": ["symbols"], "models": ["nano"], "methods": ["pike"]} | other,
        ]
        assert "of one scenario, model and seed" in told(values)[0]
    values["runs"].append(entry | {"methods": ["random"]})
    assert told(values) == []
    # A table reads the runs that it selects, and no others.
    values["tables"]["power"] = {"methods": ["random"]}
    assert "it needs runs of mix (compare.baseline)" in told(values)[0]


def test_the_leaderboard_needs_a_method_wherever_the_oracle_is(single):
    values = single("tables", "leaderboard")
    entry = values["runs"][0] | {"models": ["nano"]}
    values["compare"] = {"oracle": "random", "baseline": "mix"}
    values["runs"] = [
        entry | {"methods": ["random"]},
        entry | {"scenarios": ["stdlib"], "methods": ["pike"]},
    ]
    assert "in all scenarios of random" in told(values)[0]
    values["runs"][1]["scenarios"] = entry["scenarios"]
    assert told(values) == []


def test_a_method_whose_first_measurement_is_past_the_end_measures_nothing(single):
    values = single("figures", "gradients")
    methods("pike")(values)
    for scenario in values["scenarios"].values():
        scenario["methods"] = {"pike": {"first": 239}}
    assert told(values) == []
    for scenario in values["scenarios"].values():
        scenario["methods"] = {"pike": {"first": 240}}
    assert "measures gradients" in told(values)[0]
