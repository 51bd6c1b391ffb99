"""What is refused in a configuration though PyYAML takes it."""

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
        ("no: 1", "here: line 1: YAML reads the name no as bool: put it in quotes"),
        ("2: 1", "here: line 1: YAML reads the name 2 as int: put it in quotes"),
        ("~: 1", "here: line 1: YAML reads the name ~ as null: put it in quotes"),
        ("? [a]\n: 1", "here: line 1: a list or a mapping cannot be a name"),
        ('a: "x\\0y"', r"here: line 1: 'x\x00y' holds a character that no text has"),
        ('a: "\\ud800"', r"here: line 1: '\ud800' holds a character that no text has"),
        ("a: 2020-13-45", "here is not valid YAML: month must be in 1..12"),
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
        strict_yaml.load("a: 1\na: 2\nb: {on: 1}\n", "here")
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    "text",
    [
        "b: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}\nd: [*b, *b]\n",
        # The merged mapping is itself made by a merge, and names z again on purpose.
        "a: {x: {y: &p {<<: &q {z: 0}, z: 1}}}\nb: {<<: *p}\n",
        '"no": {"1": text}',
        "",
    ],
)
def test_all_else_is_read_as_pyyaml_reads_it(text):
    assert strict_yaml.load(text, "here") == yaml.safe_load(text)
