"""The schema against what it describes: every key has words, and the code's own fields."""

import dataclasses
import importlib

import pytest

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.data import SOURCES
from pipeline.data.packing import Packing
from pipeline.data.tokenizer import File, Train
from pipeline.planning import schema

DEFS = schema.document()["$defs"]


def nodes(node, path=""):
    """Every part of the schema with its path."""
    yield path, node
    if isinstance(node, dict):
        for key, value in node.items():
            yield from nodes(value, f"{path}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from nodes(value, f"{path}/{index}")


def described(node):
    """Whether a property says what it is, itself or where it is defined."""
    if "$ref" in node:
        target = DEFS[node["$ref"].removeprefix("#/$defs/")]
        return bool(node.get("description") or target.get("description"))
    return bool(node.get("description"))


def properties():
    for path, node in nodes(schema.document()):
        # The conditions of `if` only look at a key; the key is described where it is allowed.
        if path.endswith("/properties") and "/if/" not in path:
            yield from ((f"{path}/{name}", value) for name, value in node.items())


def test_every_property_is_described():
    assert len(list(properties())) > 80
    assert [path for path, value in properties() if not described(value)] == []


def test_no_object_takes_keys_that_are_not_in_the_schema():
    for path, node in nodes(schema.document()):
        if (
            isinstance(node, dict)
            and isinstance(node.get("properties"), dict)
            and "/if" not in path
        ):
            # An object of several kinds is closed by the definition of each kind, a method by the
            # class of its rule.
            closed = node.get("additionalProperties") is False or "allOf" in node
            assert closed or path == "/$defs/method", path


def test_every_reference_has_a_target():
    for path, node in nodes(schema.document()):
        if isinstance(node, dict) and "$ref" in node:
            assert node["$ref"].removeprefix("#/$defs/") in DEFS, path


def fields(kind):
    every = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    required = {f.name for f in every if f.default is missing and f.default_factory is missing}
    return {f.name for f in every}, required


def place(entry):
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


PAIRS = [
    ("model", settings.Model, set(), set()),
    ("training", settings.Training, set(), set()),
    ("packing", Packing, set(), set()),
    ("given-tokenizer", File, {"kind"}, set()),
    # The share comes from `packing`, the sources' folders from the workflow.
    ("trained-tokenizer", Train, {"kind", "sources"}, {"validation_share"}),
    *((kind, place(entry), {"kind"}, set()) for kind, entry in SOURCES.items()),
]


@pytest.mark.parametrize(("definition", "kind", "more", "fewer"), PAIRS, ids=[p[0] for p in PAIRS])
def test_the_schema_and_the_dataclass_know_the_same_settings(definition, kind, more, fewer):
    known, required = fields(kind)
    assert set(DEFS[definition]["properties"]) - more == known - fewer
    assert set(DEFS[definition].get("required", [])) - more == required - fewer


def test_the_schema_knows_every_kind_of_source():
    assert set(DEFS["source"]["properties"]["kind"]["enum"]) == set(SOURCES)


def test_the_default_experiment_fits(config):
    assert schema.problems(config(), "config.yaml") == []


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
        (["sources", "code", "topic"], "cod", "sources.code.topic: 'cod' is unknown: did you mean"),
        (["sources", "code"], {"kind": "python"}, "sources.code: 'topic' is missing: Which part"),
        (["training", "text", "rows"], 2.5, "training.text.rows: 2.5 is not a whole number (Batch"),
        (["runs", 0, "seeds", 0], "0", "runs[0].seeds[0]: '0' is a text in YAML: write 0"),
        (["models", "Nano"], {}, "config.yaml: models: 'Nano' does not match"),
        (["methods", "../../x"], {"rule": "mix"}, "methods: '../../x' does not match"),
        (["methods", "a b; rm"], {"rule": "mix"}, "methods: 'a b; rm' does not match"),
        (["results"], "a b; rm", "config.yaml: results: 'a b; rm' does not match"),
        (["training", "text", "clip_norm"], float("inf"), "clip_norm: inf is not a number"),
        (["methods", "pike", "zeta1"], float("nan"), "zeta1: nan is not a number"),
        (["methods", "pike", "zeta1"], "1e-2", "zeta1: '1e-2' is a text in YAML: write 1.0e-2"),
        (["methods", "pike", "zeta1"], "1.5e4", "zeta1: '1.5e4' is a text in YAML: write 1.5e+4"),
        (
            ["training", "text", "epsilon"],
            "1e-8",
            "epsilon: '1e-8' is a text in YAML: write 1.0e-8",
        ),
        (["methods", "pike"], {"zeta1": 1}, "methods.pike: 'rule' is missing: The rule: a name"),
        (["methods", "pike", "rule"], 3, "methods.pike.rule: 3 is not a text"),
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
        (["evaluation", "standard", "rows"], 8.0, "rows: 8.0 is not a whole number: write 8 (Va"),
        (["evaluation", "standard", "rows"], "1e3", "rows: '1e3' is a text in YAML: write 1000"),
        (["evaluation", "standard", "rows"], True, "rows: True is not a whole number (YAML reads"),
        (["evaluation", "standard", "choice"], CHOICE, "choice.items: 60.0 is not a whole number"),
        (["evaluation", "standard", "choice"], 3, "3 is not null, or 3 is not a mapping"),
        (["evaluation", "standard", "domains"], [3], "standard.domains[0]: 3 is not a text"),
        (["packing", "shard_tokens"], 1000.0, "shard_tokens: 1000.0 is not a whole number: wri"),
        (["packing", "tokens"], 1000.0, "packing.tokens: 1000.0 is not a whole number: write 10"),
        (["sources", "easy", "order"], 1.0, "sources.easy.order: 1.0 is not one of [0, 1, 2]"),
        (["sources", "easy", "order"], True, "sources.easy.order: True is not one of [0, 1, 2]"),
        (["runs", 0, "seeds"], [0.0], "runs[0].seeds[0]: 0.0 is not a whole number: write 0"),
        (["runs", 0, "seeds"], [2**64], "runs[0].seeds[0]: 18446744073709551616 is out of range"),
        (["runs", 0, "seeds"], [-1], "runs[0].seeds[0]: -1 is less than the minimum of 0"),
        (["training", "text", "epsilon"], 10**400, "epsilon: a number of more than 40 digits is"),
        (["methods", "mix\n"], {"rule": "mix"}, r"methods: 'mix\n' does not match"),
        (["experiment"], "mine\n", r"experiment: 'mine\n' does not match"),
        (["results"], "mine\n", r"results: 'mine\n' does not match"),
        (["results"], "-n", "results: '-n' does not match"),
        (["models", False], {}, "models: False is not a text: put it in quotes (YAML reads yes"),
        (["methods", "pike", "prior"], {False: 1}, "prior: the name: False is not a text"),
        (["mixtures", "doremi"], {"finder": "best"}, "'swarm' is a required property, or 'meth"),
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
        "allenai/c4 (Id on the Hub: owner/name)"
    )
    assert found(config, ["sources", "c4"], {**C4, "dataset": "allenai/c4"}) == []


def test_a_package_without_the_clone_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(schema, "PATH", tmp_path / "workflow" / "schemas" / "config.schema.yaml")
    schema.document.cache_clear()
    with pytest.raises(InputError, match=f"the workflow needs the clone .* a copy in {tmp_path}: "):
        schema.document()
    schema.document.cache_clear()


def test_all_mistakes_are_reported_at_once(config):
    changed = config()
    del changed["packing"]
    changed["model"] = {}
    changed["training"]["text"]["rows"] = 0
    changed["methods"]["pike"]["zeta3"] = 1
    lines = schema.problems(changed, "config.yaml")
    assert len(lines) == 4
    assert any("'packing' is missing" in line for line in lines)
