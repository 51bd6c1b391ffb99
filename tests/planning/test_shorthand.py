"""Short forms of a configuration, written out."""

import pytest

from pike_mixing.errors import InputError
from pipeline.planning.shorthand import expand_shorthand

METHODS = {"mix": {"rule": "mix"}, "pike": {"rule": "pike", "zeta1": 1, "zeta2": 2, "every": 5}}


def test_a_scenario_takes_from_another_what_it_does_not_set():
    scenarios = {
        "text": {"domains": ["a", "b"], "training": "long", "about": "Text"},
        "short": {"like": "text", "training": "short"},
    }
    found = expand_shorthand({"scenarios": scenarios})["scenarios"]
    assert found["text"] == scenarios["text"]
    assert found["short"] == {
        "like": "text", "domains": ["a", "b"], "training": "short", "about": "Text",
    }  # fmt: skip


def test_runs_without_methods_have_all_but_those_that_are_left_out():
    runs = [{"seeds": [0]}, {"seeds": [1], "without": ["mix"]}, {"methods": ["mix"]}]
    found = expand_shorthand({"methods": METHODS, "runs": runs})["runs"]
    assert [entry["methods"] for entry in found] == [["mix", "pike"], ["pike"], ["mix"]]


def test_a_grid_of_values_makes_its_methods_which_no_run_is_asked_for():
    grids = {"rates": {"of": "pike", "values": {"zeta1": [3, 4], "zeta2": [6, 8]}, "seeds": [100]}}
    found = expand_shorthand({"methods": METHODS, "grids": grids, "runs": [{"seeds": [0]}]})
    assert found["methods"] == METHODS | {
        "rates-0": {"rule": "pike", "zeta1": 3, "zeta2": 6, "every": 5},
        "rates-1": {"rule": "pike", "zeta1": 4, "zeta2": 8, "every": 5},
    }
    assert found["grids"]["rates"]["methods"] == ["rates-0", "rates-1"]
    assert found["grids"]["rates"]["settings"] == ["zeta1", "zeta2"]
    assert found["runs"][0]["methods"] == ["mix", "pike"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenarios": {"a": {"like": "b"}, "b": {"like": "a"}}}, r"scenarios.a.like: 'b'"),
        ({"grids": {"g": {"of": "pke", "values": {"zeta1": [1]}}}}, r"grids.g.of: 'pke'.*pike"),
        ({"grids": {"g": {"of": "pike", "values": {"a": [1], "b": []}}}}, r"lists of \[0, 1\]"),
        ({"grids": {"g": {"of": "pike", "values": {"a": []}}}}, "give each setting one at least"),
        ({"grids": {"g": {"of": "pike", "values": {"a": 3}}}}, r"g\.values\.a: 3 is not a list: "),
        (
            {"grids": {"pike": {"of": "mix", "values": {"a": [1]}}}, "methods": {"pike-0": {}}},
            "methods.pike-0: grids.pike makes a method of this name",
        ),
        (
            {"runs": [{}, {"methods": ["mix", "pike"], "without": ["mix"]}]},
            r"runs\[1\]\.without: stands in place of methods",
        ),
    ],
)
def test_what_cannot_be_written_out_is_refused(changes, message):
    config = {**changes, "methods": METHODS | changes.get("methods", {})}
    with pytest.raises(InputError, match=message):
        expand_shorthand(config)


def test_a_part_of_another_shape_is_left_to_the_schema():
    (run,) = expand_shorthand({"methods": METHODS, "runs": [{"without": 3}]})["runs"]
    assert run == {"without": 3, "methods": ["mix", "pike"]}
    odd = {"grids": {"g": {"of": "pike", "values": {"zeta1": [3]}}}, "methods": {"pike": 3}}
    assert expand_shorthand(odd) == odd


@pytest.mark.parametrize("section", ["scenarios", "methods", "runs", "grids"])
@pytest.mark.parametrize("value", [None, 3, "x", [3], {"a": 3}])
def test_what_has_another_shape_is_left_to_the_schema(section, value):
    config = {"methods": METHODS, section: value}
    assert expand_shorthand(config)[section] == value
