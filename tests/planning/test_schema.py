"""The schema against the dataclasses that it is written from, and its mistakes in words."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from pike_mixing.errors import InputError
from pipeline.planning import jobs, planner, rule_inputs, schema
from pipeline.runtime import accelerators

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = [ROOT / "config.yaml", *sorted((ROOT / "workflow" / "configs").glob("*.yaml"))]
FILE = yaml.safe_load(schema.PATH.read_text(encoding="utf-8"))


def nodes(node):
    """Every part of the schema."""
    yield node
    for value in node.values() if isinstance(node, dict) else node:
        yield from nodes(value) if isinstance(value, dict | list) else ()


@pytest.mark.slow
def test_the_file_is_what_the_dataclasses_say():
    assert schema.PATH.read_text(encoding="utf-8") == schema.text(), "write it anew: make schema"


def test_every_setting_is_described():
    described = [
        (name, part.get("description"))
        for node in nodes(FILE)
        if isinstance(node, dict) and isinstance(node.get("properties"), dict)
        for name, part in node["properties"].items()
        if "const" not in part
    ]
    assert len(described) > 120
    assert [name for name, words in described if not (words or "").endswith(".")] == []


def bare(node):
    """The schema without words and defaults, which a plan does not need."""
    if isinstance(node, list):
        return [bare(each) for each in node]
    if not isinstance(node, dict):
        return node
    words = {
        k
        for k in ("description", "default", "title", "$schema")
        if isinstance(node.get(k), str | bool | int | float)
    }
    return {key: bare(value) for key, value in node.items() if key not in words}


def test_reading_the_file_loses_nothing():
    assert bare(schema._object(schema._experiment())) == bare(FILE)


@pytest.mark.parametrize("path", CONFIGS, ids=[path.name for path in CONFIGS])
def test_editors_and_a_plan_take_every_shipped_configuration(path):
    config = planner.read(path)
    assert schema.problems(config, path.name) == []
    jsonschema.Draft202012Validator(FILE).validate(config)


def test_the_file_is_a_json_schema():
    jsonschema.Draft202012Validator.check_schema(FILE)


def found(config, path, value):
    """The problems after setting one key, given by its path."""
    *parents, last = path
    changed = config()
    place = changed
    for key in parents:
        place = place[key]
    place[last] = value
    return schema.problems(changed, "config.yaml")


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (["run"], [], "config.yaml: 'run' is unknown: did you mean 'runs'?"),
        (
            ["models", "nano", "layer"],
            2,
            "config.yaml: models.nano: 'layer' is unknown: did you mean 'layers'?",
        ),
        (["methods", "pike", "rule"], "pyke", "methods.pike.rule: 'pyke' is unknown: did you mean"),
        (["methods", "pike", "tau"], 1, "methods.pike: 'tau' is unknown"),
        (
            ["sources", "code", "topic"],
            "cod",
            "'packages', 'reference', 'tables', 'tests', 'unicode': did you mean 'code'?",
        ),
        (
            ["sources", "code"],
            {"kind": "python"},
            "sources.code: topic is missing: code: standard library",
        ),
        (
            ["training", "text", "rows"],
            2.5,
            "config.yaml: training.text.rows: 2.5 is not a whole number",
        ),
        (["runs", 0, "seeds", 0], "0", "runs[0].seeds[0]: '0' is a text in YAML: write 0"),
        (["models", "Nano"], {}, "models: the name: 'Nano' is not a name of lower-case letters"),
        (["methods", "../../x"], {"rule": "mix"}, "methods: the name: '../../x' is not a name"),
        (["methods", "a b; rm"], {"rule": "mix"}, "methods: the name: 'a b; rm' is not a name"),
        (["results"], "a b; rm", "config.yaml: results: 'a b; rm' is not a path of"),
        (["training", "text", "clip_norm"], float("inf"), "clip_norm: inf is not a number"),
        (["methods", "pike", "zeta1"], float("nan"), "zeta1: nan is not a number"),
        (["methods", "pike", "zeta1"], "1e-2", "zeta1: '1e-2' is a text in YAML: write 1.0e-2"),
        (["methods", "pike", "zeta1"], "1.5e4", "zeta1: '1.5e4' is a text in YAML: write 1.5e+4"),
        (
            ["training", "text", "epsilon"],
            "1e-8",
            "epsilon: '1e-8' is a text in YAML: write 1.0e-8",
        ),
        (
            ["methods", "pike"],
            {"zeta1": 1},
            "methods.pike.rule: None is not the name of a mixing rule: see `pike",
        ),
        (["methods", "pike", "rule"], 3, "methods.pike.rule: 3 is not the name"),
        (["methods", "pike"], 3, "methods.pike: 3 is not a mapping"),
        (["methods"], 3, "config.yaml: methods: 3 is not a mapping"),
        (["methods", "pike", "zeta1"], "much", "zeta1: 'much' is not a number"),
    ],
)
def test_a_mistake_is_named_with_its_path_and_a_way_out(config, path, value, expected):
    assert any(expected in line for line in found(config, path, value))


CHOICE = {"items": 60.0, "context": 4, "candidate": 4, "distractors": 3, "distractors_from": "same"}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (["evaluation", "standard", "rows"], 8.0, "rows: 8.0 is not a whole number: write 8"),
        (["evaluation", "standard", "rows"], "1e3", "rows: '1e3' is a text in YAML: write 1000"),
        (["evaluation", "standard", "rows"], True, "rows: True is not a whole number (YAML reads"),
        (["evaluation", "standard", "choice"], CHOICE, "choice.items: 60.0 is not a whole number"),
        (["evaluation", "standard", "choice"], 3, "choice: 3 is not a mapping"),
        (["evaluation", "standard", "domains"], [3], "standard.domains[0]: 3 is not a text"),
        (["packing", "shard_tokens"], 1000.0, "shard_tokens: 1000.0 is not a whole number: wri"),
        (["packing", "tokens"], 1000.0, "packing.tokens: 1000.0 is not a whole number: write 10"),
        (["sources", "easy", "order"], 1.0, "sources.easy.order: 1.0 is not one of 0, 1, 2"),
        (["sources", "easy", "order"], True, "sources.easy.order: True is not one of 0, 1, 2"),
        (["runs", 0, "seeds"], [0.0], "runs[0].seeds[0]: 0.0 is not a whole number: write 0"),
        (["runs", 0, "seeds"], [2**64], "runs[0].seeds[0]: 18446744073709551616 is out of range"),
        (["runs", 0, "seeds"], [-1], "runs[0].seeds[0]: must not be negative, not -1"),
        (["training", "text", "epsilon"], 10**400, "epsilon: a number of more than 40 digits is"),
        (["methods", "mix\n"], {"rule": "mix"}, r"methods: the name: 'mix\n' is not a name"),
        (["experiment"], "mine\n", r"experiment: 'mine\n' is not a name"),
        (["results"], "mine\n", r"results: 'mine\n' is not a path"),
        (["results"], "-n", "results: '-n' is not a path"),
        (["models", False], {}, "models: the name: False is not a text: put it in quotes"),
        (["methods", "pike", "prior"], {False: 1}, "prior: the name: False is not a text"),
    ],
)
def test_a_value_of_nearly_the_right_kind_is_refused(config, path, value, expected):
    assert any(expected in line for line in found(config, path, value))


C4 = {"kind": "huggingface", "revision": "0" * 40, "field": "text", "bytes": 9, "licence": "none"}


def test_the_page_of_a_data_set_is_answered_with_its_id(config):
    page = "https://huggingface.co/datasets/allenai/c4/tree/main"
    (line,) = found(config, ["sources", "c4"], {**C4, "dataset": page})
    assert line == (
        f"config.yaml: sources.c4.dataset: {page!r} is not an id on the Hugging Face Hub: write "
        "allenai/c4"
    )
    assert found(config, ["sources", "c4"], {**C4, "dataset": "allenai/c4"}) == []


def test_a_package_without_the_clone_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(schema, "PATH", tmp_path / "workflow" / "schemas" / "config.schema.yaml")
    with pytest.raises(InputError, match=f"the workflow needs the clone .* a copy in {tmp_path}: "):
        schema._experiment.__wrapped__()


def test_all_mistakes_are_reported_at_once(config):
    changed = config()
    del changed["packing"]
    changed["model"] = {}
    changed["training"]["text"]["rows"] = 0
    changed["methods"]["pike"]["zeta3"] = 1
    assert schema.problems(changed, "config.yaml") == [
        "config.yaml: 'model' is unknown: did you mean 'models'?",
        "config.yaml: packing is missing: a mapping with validation_share",
        "config.yaml: training.text.rows: must be at least 1, not 0",
        "config.yaml: methods.pike: 'zeta3' is unknown: did you mean 'zeta2'?",
    ]


def test_null_stands_for_a_setting_that_may_be_absent(config):
    values = config()
    values["packing"] |= {"tokens": None, "hygiene": {"normalisation": None, "decontaminate": None}}
    values["sources"]["easy"] |= {"family": None, "bytes": None}
    values["sources"]["prose"]["bytes"] = None
    values["training"]["text"] |= {"microbatch_rows": None, "max_epochs": None}
    asked = {"tasks": ["piqa"], "shots": [0], "formulations": ["cf"], "items": None, "split": None}
    values["evaluation"]["standard"] |= {"choice": None, "domains": None, "tasks": [asked]}
    work = jobs.Jobs(planner.plan(values, "config.yaml"), accelerators.accelerator("h100"))
    assert all(work.job(*key).seconds for key in work.every())
    assert rule_inputs.RuleInputs(work.plan).decontamination_files(None) == []
