import pytest

from pike_mixing.errors import InputError
from pipeline.planning import planner, unfit

RUN = {
    "scenario": "text",
    "method_name": "mine",
    "seed": 0,
    "domains": ["en", "hi"],
    "training": {
        "rows": 6,
        "length": 8,
        "steps": 6,
        "warmup_steps": 2,
        "peak_learning_rate": 0.01,
        "initial_learning_rate": 0.001,
        "final_learning_rate": 0.001,
        "checkpoint_every": 3,
        "resume_every": 3,
    },
}
PIKE = {"zeta1": 1, "zeta2": 1}


def run(rule, method, **changes):
    return {**RUN, "rule": rule, "method": method, **changes}


@pytest.mark.parametrize(
    ("rule", "method", "expected"),
    [
        ("mx", {}, ["rule: 'mx' is unknown: did you mean 'mix'?"]),
        ("pike", {"zeta1": -1, "zeta2": 1, "every": 0}, ["zeta1: must not", "every: must be at"]),
        ("fixed", {"weights_by_domain": {"en": 0, "hi": 0}}, ["weights_by_domain: at least one"]),
        (
            "fixed",
            {"weights_by_domain": {"en": -1, "hi": 2}},
            ["weights_by_domain.en: -1.0 is neg"],
        ),
        ("single", {"domain": "de"}, ["domain: 'de' is unknown"]),
        ("pike", {**PIKE, "prior": {"en": 1, "fr": 1}}, ["'fr' is unknown", "'hi' has no weight"]),
        ("temperature", {"tokens_by_domain": {"en": 1}}, ["domain 'hi' has no size"]),
        ("famo", {"lower_bounds": {"en": 1}}, ["domain 'hi' has no bound"]),
        ("skill-it", {"graph": {"en": {"en": 1, "hi": 1}}}, ["domain 'hi' has no row"]),
        ("aioli", {"every": 40}, ["40 steps do not hold 2 x 2 slots of 10"]),
        ("pike", {**PIKE, "batch": "training"}, ["too few for 8 (rows) of each of 2 domains"]),
        ("pike", {**PIKE, "batch": "training", "rows": 3}, []),
        ("pike", {**PIKE, "rows": 600}, []),
        ("fixed", {"mixture": "found"}, []),
        ("unimax", {}, []),
        ("doremi", {"reference": "mix"}, []),
    ],
)
def test_what_a_method_cannot_train_with_is_named(rule, method, expected):
    found = unfit.problems(run(rule, method))
    assert len(found) == len(expected)
    for line, words in zip(found, expected, strict=True):
        assert line.startswith("methods.mine in scenario text")
        assert words in line


def test_all_mistakes_of_all_runs_are_one_message_that_names_each_once():
    mistaken = [run("single", {"domain": "de"}, seed=seed) for seed in range(3)]
    other = run("pike", {"zeta1": 1, "zeta2": 1, "rows": 1}, method_name="other", scenario="more")
    with pytest.raises(InputError) as caught:
        unfit.refuse([*mistaken, other, run("mix", {})])
    assert str(caught.value).splitlines() == [
        "methods.mine in scenario text: domain: 'de' is unknown: did you mean 'en'?",
        "methods.other in scenario more.rows: the variance needs at least 2",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"zeta1": -0.1}, "zeta1: must not be negative"),
        ({"min_weight": 1.5}, "min_weight: must lie in"),
        ({"rows": 1}, "rows: the variance needs at least 2"),
    ],
)
def test_a_plan_refuses_what_a_method_cannot_train_with(config, changes, message):
    values = config()
    values["methods"]["pike"] |= changes
    with pytest.raises(InputError) as caught:
        planner.plan(values, "config.yaml")
    found = str(caught.value).splitlines()
    assert any(line.startswith("config.yaml: methods.pike") and message in line for line in found)
