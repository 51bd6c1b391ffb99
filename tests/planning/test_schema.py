"""The schema against the dataclasses that it is written from, and its mistakes in words."""

import dataclasses
import importlib
from typing import get_args

import pytest
import yaml
from edits import set_at, way
from repository import CONFIGS, ROOT

from pike_mixing.errors import InputError
from pipeline.data import SOURCES
from pipeline.planning import configuration, job_estimates, planner, rule_inputs, schema
from pipeline.runtime import accelerators

PARTS = sorted(ROOT.glob("workflow/*.yaml"))
PLANNED = get_args(get_args(configuration.Source)[0])
FILE = yaml.safe_load(schema.PATH.read_text(encoding="utf-8"))


def nodes(node):
    """Every part of the schema."""
    yield node
    for value in node.values() if isinstance(node, dict) else node:
        yield from nodes(value) if isinstance(value, dict | list) else ()


@pytest.mark.slow
def test_the_file_is_what_the_dataclasses_say():
    assert schema.PATH.read_text(encoding="utf-8") == schema.schema_text(), (
        "write it anew: make schema"
    )


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


@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_is_read_by_the_settings_that_a_plan_checks(kind):
    """A plan waits for no library that the readers import."""
    module, _, name = SOURCES[kind].partition(":")
    reader = getattr(importlib.import_module(module), name)
    (known,) = (one for one in PLANNED if one.kind == kind)
    assert issubclass(reader, known)
    assert dataclasses.fields(reader) == dataclasses.fields(known)
    assert len(PLANNED) == len(SOURCES)


@pytest.fixture(scope="module")
def editor():
    """What judges a file as editors do."""
    # It takes a second to import.
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(FILE)
    return jsonschema.Draft202012Validator(FILE)


@pytest.mark.parametrize("path", [*CONFIGS, *PARTS], ids=lambda path: path.name)
def test_editors_take_every_shipped_configuration_as_it_stands(editor, path):
    editor.validate(planner.read_config_file(path))


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("include", "other.yaml"),
        ("scenarios", {"b": {"like": "a"}}),
        ("runs", [{"scenarios": ["a"], "models": ["n"], "seeds": [0], "without": ["m"]}]),
        ("grids", {"g": {"of": "m", "values": {"x": [1]}}}),
        ("models", {"m": {"transformers": "folder"}}),
    ],
)
def test_editors_take_a_file_that_includes_another_and_short_forms(editor, section, value):
    assert editor.is_valid({section: value})
    assert not editor.is_valid({section: value, "rums": []})


def found(config, path, value):
    """The problems after setting one key."""
    changed = config()
    set_at(changed, way(path), value)
    try:
        schema.read_experiment(changed, "config.yaml")
    except InputError as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("results", "a b; rm", "config.yaml: results: 'a b; rm' is not a path of"),
        ("results", "mine\n", r"results: 'mine\n' is not a path"),
        ("results", "-n", "results: '-n' is not a path"),
        ("methods.pike", 3, "methods.pike: 3 is not a mapping"),
    ],
)
def test_a_mistake_is_named_with_its_path_and_a_way_out(config, path, value, expected):
    assert any(expected in line for line in found(config, path, value))


def test_the_page_of_a_data_set_is_answered_with_its_id(config):
    page = "https://huggingface.co/datasets/allenai/c4/tree/main"
    source = {"kind": "huggingface", "revision": "0" * 40, "field": "text", "dataset": page}
    (line,) = found(config, "sources.c4", {**source, "bytes": 9, "licence": "none"})
    assert line == (
        f"config.yaml: sources.c4.dataset: {page!r} is not an id on the Hugging Face Hub: write "
        "allenai/c4"
    )


def test_a_package_without_the_clone_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(schema, "PATH", tmp_path / "workflow" / "schemas" / "config.schema.yaml")
    with pytest.raises(InputError, match=f"the workflow needs the clone .* a copy in {tmp_path}: "):
        schema.read_experiment({}, "config.yaml")


def test_null_stands_for_a_setting_that_may_be_absent(config):
    values = config()
    values["packing"] |= {"tokens": None, "hygiene": {"normalisation": None, "decontaminate": None}}
    values["sources"]["like-hi"] |= {"family": None, "bytes": None}
    values["sources"]["prose"]["bytes"] = None
    values["training"]["text"] |= {"microbatch_rows": None, "max_epochs": None}
    values["methods"]["mix"]["training"] = None
    asked = {"tasks": ["piqa"], "shots": [0], "formulations": ["cf"], "items": None, "split": None}
    values["evaluation"]["standard"] |= {"choice": None, "domains": None, "tasks": [asked]}
    work = job_estimates.JobEstimates(
        planner.plan(values, "config.yaml"), accelerators.accelerator_of_name("h100")
    )
    assert all(work.estimate(*key).seconds for key in work.counted_jobs_from_scratch())
    assert rule_inputs.RuleInputs(work.plan).job_inputs("pack", "symbols/like-en").given == []
