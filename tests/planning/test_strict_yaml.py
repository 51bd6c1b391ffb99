"""What is refused in a configuration, and what YAML 1.2 makes of the rest."""

import math

import pytest
import yaml
from repository import ROOT

from pike_mixing.errors import InputError
from pipeline.planning import plan_hints, planner, strict_yaml

TAGS = [
    ("!!int 1.5", "tag:yaml.org,2002:int"),
    ("!!timestamp 2024-01-01", "tag:yaml.org,2002:timestamp"),
    ("!!map [x]", "tag:yaml.org,2002:map"),
    ("!!python/object/apply:os.getcwd []", "tag:yaml.org,2002:python/object/apply:os.getcwd"),
    ("!mine x", "!mine"),
]


def doubled(first, form):
    """Thirty names, each of the one before twice."""
    return first + "".join(form.format(n, n - 1) for n in range(1, 30))


BOMBS = [
    doubled("a0: &a0 [x]\n", "a{0}: &a{0} [*a{1}, *a{1}]\n"),
    doubled("a0: &a0 {x: 1}\n", "a{0}: &a{0} {{<<: [*a{1}, *a{1}]}}\n"),
    "a: &a " + "x" * 10**6 + "\nb: [" + "*a, " * 99 + "]",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "here: line 3: 'a' is named a second time, after line 1"),
        ('{a: 1, "a": 2}', "here: line 1: 'a' is named a second time, after line 1"),
        ("b: &b {x: 1}\nc: {<<: *b, <<: *b}", "here: line 2: '<<' is named a second time"),
        ("true: 1", "here: line 1: YAML reads the name true as bool: put it in quotes"),
        ("? [a]\n: 1", "here: line 1: a list or a mapping cannot be a name"),
        ('a: "x\\0y"', r"here: line 1: 'x\x00y' holds a character that no text has"),
        ('a: "\\ud800"', r"here: line 1: '\ud800' holds a character that no text has"),
        ("a: 1\nb: &b [x, *b]", "here: line 2: a list or a mapping holds itself"),
        ("a: " + "9" * 5000, "here: line 1: the number 99999999999999999999... has 5,000 digits"),
        ("a: 1\n---\nb: 2", "here is not valid YAML: expected a single document"),
        ("a: " + "[" * 5000, "here is nested too deeply"),
        ("a: " + "[" * 90 + "]" * 90, "here: line 1: it is nested too deeply"),
        ("a: \x01", "here is not valid YAML: "),
        *((f"a: {value}", f"here: line 1: the tag {tag!r} does not fit") for value, tag in TAGS),
        ("a: <<", "here: line 1: << stands where a value is wanted"),
        *((bomb, "here holds more than 50,000 values, those that aliases") for bomb in BOMBS),
        ("a: " + "x" * 2**20, "here is too large: a configuration has 1,048,576 bytes"),
    ],
    ids=lambda text: text[:20],
)
def test_what_nobody_means_is_refused(text, expected):
    with pytest.raises(InputError) as caught:
        strict_yaml.load_strict_yaml(text, "here")
    assert str(caught.value).startswith(expected)


def test_all_of_it_is_said_at_once():
    with pytest.raises(InputError) as caught:
        strict_yaml.load_strict_yaml("a: 1\na: 2\nb: {8: 1}\n", "here")
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    "text",
    [
        "b: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}\nd: [*b, *b]\n",
        # The merged mapping is itself made by a merge, and names z again on purpose.
        "a: {x: {y: &p {<<: &q {z: 0}, z: 1}}}\nb: {<<: *p}\n",
        '"8": {"1": text}',
        "a: !!str 5\nb: !!float 2\nc: !!bool true\nd: !!seq [!!int 3]\ne: !!map {x: !!null }",
        "",
    ],
)
def test_all_else_is_read_as_pyyaml_reads_it(text):
    assert strict_yaml.load_strict_yaml(text, "here") == yaml.safe_load(text)


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
    found = strict_yaml.load_strict_yaml(f"a: {text}", "here")["a"]
    assert (found, type(found)) == (value, type(value))


TEMPLATE = ROOT / "config" / "config.yaml"
KNOWN = (
    "is unknown: known: code, english, names; domains are those of the list `&domains` (line 26)"
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # One list with two places is one mistake.
        (
            "  english: {",
            "  tickets: {",
            "tokenizers.shared.sources, the list `&domains` (line 26): 'english' is unknown: "
            "known: code, names, tickets",
        ),
        (
            "    # target: {english: 2",
            "    target: {tickets: 2",
            f"scenarios.mine.target: 'tickets' {KNOWN}",
        ),
        (
            "  # target: {rule: fixed, weights_by_domain: {english: 2",
            "  mix-2: {rule: fixed, weights_by_domain: {tickets: 2",
            f"methods.mix-2 in scenario mine: weights_by_domain: 'tickets' {KNOWN}",
        ),
    ],
)
def test_a_message_names_the_anchor_of_the_list_to_change(tmp_path, old, new, message):
    text = TEMPLATE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = tmp_path / "mine.yaml"
    changed = text.replace(old, new)
    if "mix-2" in new:
        changed = changed.replace("[mix, round-robin", "[mix, mix-2, round-robin")
    path.write_text(changed, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        planner.plan_config_files([path], {})
    lines = str(caught.value).splitlines()
    assert [line for line in lines if message in line] == lines[:1]
    # What is not named there is told, and where to name it.
    path.write_text(text.replace("[english, code, names]", "[english, code]"), encoding="utf-8")
    plan, own = planner.plan_config_files([path], {})
    assert plan_hints.unused_name_hints(plan, own)[0].endswith(
        "sources: defined, and used by no run: names: to use them, add them to the list "
        "`&domains` (line 26)"
    )
