"""Rules as their source tells them, against the classes that Python makes of it."""

import dataclasses
import inspect
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from pike_mixing import METHODS, registry
from pike_mixing.errors import InputError
from pike_mixing.settings import check
from pipeline.planning import method_docs, stages
from pipeline.runtime import code_fingerprint

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("rule", METHODS)
def test_a_rule_is_read_as_python_reads_it(rule):
    kind, found = registry.kind(rule), method_docs.of(rule)
    fields = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    optional = {f.name for f in fields if (f.default, f.default_factory) != (missing, missing)}
    assert [setting.name for setting in found.settings] == [field.name for field in fields]
    assert {s.name for s in found.settings if s.default is not None} == optional
    hints = {s.name: s.kind for s in found.settings}
    assert hints == {f.name: typing.get_type_hints(kind)[f.name] for f in fields}
    assert found.place == f"{kind.__module__}:{kind.__name__}"
    assert found.formula == inspect.getdoc(kind)
    assert found.source == inspect.getdoc(inspect.getmodule(kind))


@pytest.mark.parametrize("rule", METHODS)
def test_a_rule_and_all_its_settings_are_described(rule):
    found = method_docs.of(rule)
    # A sentence of the base class would describe another rule.
    assert vars(registry.kind(rule))["about"] == found.about
    assert found.about.endswith(".")
    assert found.source
    assert [s.name for s in found.settings if not s.meaning.endswith(".")] == []


def test_defaults_are_shown_as_they_are_written():
    pike = {s.name: s.default for s in method_docs.of("pike").settings}
    assert pike["zeta1"] is None
    assert pike["every"] == "1000"
    assert {s.name: s.default for s in method_docs.of("temperature").settings}[
        "temperature"
    ] == "10 / 3"


def test_reading_every_rule_imports_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from pipeline.planning import method_docs; from pike_mixing import METHODS\n"
        "for rule in METHODS: method_docs.problems({'rule': rule}, 'here')\n"
        "assert not [m for m in sys.modules if m.startswith('pike_mixing.rules.')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"rule": "pyke"}, ["here.rule: 'pyke' is unknown: did you mean 'pike'?"]),
        ({"rule": "mix", "tau": 1}, ["here: 'tau' is unknown: known: "]),
        (
            {"rule": "pike", "zeta1": 1},
            ["here: zeta2 is missing: Coefficient of the gradient's variance;"],
        ),
        (
            {"rule": "pike", "zeta": 1, "zeta2": "1e-2", "every": 0.5, "norm": "biased"},
            [
                "here: 'zeta' is unknown: did you mean 'zeta",
                "here: zeta1 is missing",
                "here.zeta2: '1e-2' is a text in YAML: write 1.0e-2",
                "here.every: 0.5 is not a whole number",
                "here.norm: 'biased' is not one of 'plug-in', 'unbiased'",
            ],
        ),
        (
            {"rule": "balanced-pike", "zeta1": 1, "zeta2": 1, "tau": 1, "prior": {"en": "1.5e4"}},
            ["here.prior.en: '1.5e4' is a text in YAML: write 1.5e+4"],
        ),
        ({"rule": "pcgrad", "scale": "sum"}, ["here.scale: 'sum' is not one of 'mix', 'ref"]),
        ({"rule": "pike", "zeta1": float("inf"), "zeta2": 1}, ["here.zeta1: inf is not a number"]),
        ({"rule": 3}, ["here.rule: 3 is not the name of a mixing rule"]),
        ({"rule": "no.such:Rule"}, ["here.rule: there is no module 'no.such': install its pack"]),
        ({"rule": ":Rule"}, ["here.rule: there is no module ''"]),
        (
            {"rule": "pike_mixing.rules.mix:Mx"},
            ["here.rule: pike_mixing.rules.mix defines no class 'Mx'"],
        ),
        (
            {"rule": "subprocess:Popen"},
            ["here.rule: subprocess:Popen is no mixing method: it has no allocate, combine, inf"],
        ),
        ({"rule": "__main__:Rule"}, ["here.rule: there is no module '__main__'"]),
        ({"rule": "sys:Rule"}, ["here.rule: there is no module 'sys'"]),
        ({"rule": "os.path:join"}, ["here.rule: there is no module 'os.path'"]),
        ({"rule": "shutil:move"}, ["here.rule: shutil defines no class 'move'"]),
    ],
)
def test_every_mistake_is_named_at_once(values, expected):
    found = method_docs.problems(values, "here")
    assert len(found) == len(expected)
    for line, beginning in zip(found, expected, strict=True):
        assert line.startswith(beginning)


@pytest.mark.parametrize(
    "values",
    [
        {"rule": "mix"},
        {"rule": "pike", "zeta1": 1, "zeta2": 0.5, "prior": None},
        {"rule": "skill-it", "graph": {"en": {"en": 1, "de": 0.5}}},
        {"rule": "pike_mixing.rules.pcgrad:PCGrad", "scale": "reference"},
    ],
)
def test_settings_that_fit_have_no_problem(values):
    assert method_docs.problems(values, "here") == []


OWN = '''"""Mine."""

import dataclasses
from typing import ClassVar

import torch

from mine.kinds import Speed
from pike_mixing.rules.pike import PiKE

torch.ones(1, device="of no kind")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mine(PiKE):
    """Faster."""

    about: ClassVar[str] = "As PiKE, " "but faster."

    speed: Speed = "high"
    """How fast
    it is."""
    boost: "dict[str, float]" = dataclasses.field(default_factory=dict)
    every: int = 7
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A package of the user's own, whose rule cannot be imported: it has to be read."""
    package = tmp_path / "mine"
    package.mkdir()
    (package / "rule.py").write_text(OWN)
    (package / "kinds.py").write_text('from typing import Literal\n\nSpeed = Literal["high"]\n')
    monkeypatch.syspath_prepend(tmp_path)
    for cached in (method_docs.of, method_docs.twin, code_fingerprint.tree, code_fingerprint._root):
        cached.cache_clear()
    code_fingerprint.imports.cache_clear()
    return "mine.rule:Mine"


def test_a_rule_of_ones_own_is_read_with_what_it_inherits(own):
    found = {s.name: (s.default, s.meaning) for s in method_docs.of(own).settings}
    assert list(found)[:2] == ["zeta1", "zeta2"]
    assert found["speed"] == ("'high'", "How fast it is.")
    assert found["boost"] == ("dict()", "")
    assert found["every"] == ("7", "")
    assert method_docs.about(own) == "As PiKE, but faster."
    assert "mine.rule" not in sys.modules


def test_settings_of_a_rule_of_ones_own_are_checked(own):
    values = {"rule": own, "zeta1": 1, "zeta2": 1, "speed": "low", "boost": {"en": True}}
    assert method_docs.problems(values, "here") == [
        "here.speed: 'low' is not one of 'high'",
        "here.boost.en: True is not a number (YAML reads yes, no, on and off as true and false)",
    ]


def test_a_run_of_ones_own_rule_depends_on_its_package(own):
    module = method_docs.place(own).partition(":")[0]
    closure = code_fingerprint.closure(stages.STAGES["pretrain"].partition(":")[0], module)
    assert {"mine.rule", "mine.kinds", "pike_mixing.rules.pike"} <= closure


def test_a_type_that_no_setting_can_have_is_refused(own, tmp_path):
    place = tmp_path / "mine" / "rule.py"
    place.write_text(OWN.replace('"dict[str, float]"', "torch.Tensor"))
    (problem,) = method_docs.problems({"rule": own}, "here")
    assert problem.startswith("here.rule: mine.rule:Mine.boost is of type torch.Tensor, but a")


@pytest.mark.parametrize(
    "annotation",
    [
        '__import__("os").mkdir("ran")',
        'Literal[__import__("os").mkdir("ran")]',
        'dict[str, __import__("os").mkdir("ran")]',
        '[__import__("os").mkdir("ran")]',
        '"import os"',
        "Literal",
        "list[int]",
        "tuple[int, int]",
        "int & float",
    ],
)
def test_an_annotation_is_read_and_not_run(own, tmp_path, monkeypatch, annotation):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "mine" / "rule.py"
    place.write_text(OWN.replace('"dict[str, float]"', annotation))
    problems = method_docs.problems({"rule": own, "zeta1": 1, "zeta2": 1, "boost": 1}, "here")
    assert not (tmp_path / "ran").exists()
    if annotation != "Literal":
        assert problems[0].startswith("here.rule: mine.rule:Mine.boost is of ")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"x = 1\nclass Mine(:\n", "rule.py, line 2: invalid syntax: mend it"),
        (b"class Mine:\n\tpass\n  x\n", "rule.py, line 3: "),
        (b"\xff\xfe", "rule.py, line 1: "),
        (b"x = 1\0\n", "rule.py"),
        (b"class Mine(Mine):\n    pass\n", "mine.rule:Mine: its class, a type or an import refers"),
        (b"from mine.rule import Mine\n", "mine.rule:Mine: its class, a type or an import refers"),
        (
            b"class Mine:\n    a: int = 1\n",
            "mine.rule:Mine is no mixing method: it has no allocate",
        ),
    ],
)
def test_a_file_that_is_no_rule_is_named_with_its_line(own, tmp_path, content, expected):
    (tmp_path / "mine" / "rule.py").write_bytes(content)
    (problem,) = method_docs.problems({"rule": own}, "here")
    assert problem.startswith("here.rule: ")
    assert expected in problem


def test_a_base_class_is_looked_up_where_the_class_is_defined(own, tmp_path):
    (tmp_path / "mine" / "again.py").write_text("from mine.rule import Mine\n")
    assert [s.name for s in method_docs.of("mine.again:Mine").settings][:2] == ["zeta1", "zeta2"]


def test_a_class_that_is_no_dataclass_is_refused():
    with pytest.raises(InputError, match="rule: 'subprocess:Popen' is no dataclass"):
        registry.kind("subprocess:Popen")


def test_a_rule_of_ones_own_that_cannot_be_imported_is_refused(own):
    with pytest.raises(InputError, match=r"rule: 'mine.kinds:Mine' cannot be imported"):
        registry.kind(own.replace("rule", "kinds"))
    with pytest.raises(InputError, match=r"rule: 'mine.other:Mine' cannot be imported"):
        registry.build("mine.other:Mine", {}, "run.json")


def test_the_twin_has_no_checks_of_its_own():
    assert not hasattr(method_docs.twin("pike"), "problems")
    assert check(method_docs.twin("pike"), {"zeta1": -1, "zeta2": 1}, "here") == []
