"""What is refused in a configuration, and what YAML 1.2 makes of the rest."""

import math

import pytest
import yaml

from pike_mixing.errors import InputError
from pipeline.planning import strict_yaml


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "here: line 3: 'a' is named a second time, after line 1"),
        ('{a: 1, "a": 2}', "here: line 1: 'a' is named a second time, after line 1"),
        ("b: &b {x: 1}\nc: {<<: *b, <<: *b}", "here: line 2: '<<' is named a second time"),
        ("true: 1", "here: line 1: YAML reads the name true as bool: put it in quotes"),
        ("2: 1", "here: line 1: YAML reads the name 2 as int: put it in quotes"),
        ("~: 1", "here: line 1: YAML reads the name ~ as null: put it in quotes"),
        ("? [a]\n: 1", "here: line 1: a list or a mapping cannot be a name"),
        ('a: "x\\0y"', r"here: line 1: 'x\x00y' holds a character that no text has"),
        ('a: "\\ud800"', r"here: line 1: '\ud800' holds a character that no text has"),
        ("a: 1\nb: &b [x, *b]", "here: line 2: a list or a mapping holds itself"),
        ("a: " + "9" * 5000, "here is not valid YAML: Exceeds the limit"),
        ("a: 1\n---\nb: 2", "here is not valid YAML: expected a single document"),
        ("a: !!python/object/apply:os.getcwd []", "here is not valid YAML: could not determine"),
        ("a: " + "[" * 5000, "here is nested too deeply"),
    ],
    ids=lambda text: text[:20],
)
def test_what_nobody_means_is_refused(text, expected):
    with pytest.raises(InputError) as caught:
        strict_yaml.load(text, "here")
    assert str(caught.value).startswith(expected)


def test_all_of_it_is_said_at_once():
    with pytest.raises(InputError) as caught:
        strict_yaml.load("a: 1\na: 2\nb: {8: 1}\n", "here")
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    "text",
    [
        "b: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}\nd: [*b, *b]\n",
        # The merged mapping is itself made by a merge, and names z again on purpose.
        "a: {x: {y: &p {<<: &q {z: 0}, z: 1}}}\nb: {<<: *p}\n",
        '"8": {"1": text}',
        "",
    ],
)
def test_all_else_is_read_as_pyyaml_reads_it(text):
    assert strict_yaml.load(text, "here") == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1e-2", 0.01), ("1.2e+3", 1200.0), (".5", 0.5), ("-1.", -1.0), ("-.inf", -math.inf)),
        *(("010", 10), ("0o10", 8), ("0x1F", 31), ("-3", -3), ("true", True), ("~", None)),
        *((text, text) for text in ("no", "on", "y", "1:30", "1_000", "2020-13-45", "1e", ".")),
        ('"8"', "8"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    found = strict_yaml.load(f"a: {text}", "here")["a"]
    assert (found, type(found)) == (value, type(value))
