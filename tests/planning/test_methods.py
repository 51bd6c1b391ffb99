"""What a plan knows of mixing methods, and what it refuses before anything is trained."""

import dataclasses
import re
import sys

import pytest
from recipes import recipe

from pike_mixing import METHODS, method_registry
from pike_mixing.interface import Needs, StatisticsNeed
from pike_mixing.setting_fields import setting_docstrings
from pipeline.planning import methods, planner
from pipeline.runtime import code_fingerprint

RECIPE = recipe(rows=6, steps=6)
TRAINING = dataclasses.asdict(RECIPE)
PIKE = {"zeta1": 1, "zeta2": 1}


@pytest.mark.parametrize("rule", METHODS)
def test_a_rule_and_all_its_settings_are_described(rule):
    kind = method_registry.rule_class(rule)
    # A sentence of the base class would describe another rule.
    assert vars(kind)["about"] == methods.rule_about(rule)
    assert kind.about.endswith(".")
    assert set(setting_docstrings(kind)) == {field.name for field in dataclasses.fields(kind)}
    assert [
        name for name, words in setting_docstrings(kind).items() if not words.endswith(".")
    ] == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"rule": "pyke"}, ["here.rule: 'pyke' is unknown: did you mean 'pike'?"]),
        (
            {"rule": "pike", "zeta": 1, "zeta2": "1e-2", "every": 0.5, "norm": "biased"},
            [
                "here: 'zeta' is unknown: did you mean 'zeta",
                "here: zeta1 is missing: Coefficient of the gradient's squared norm; the",
                "here.zeta2: '1e-2' is not a number",
                "here.every: 0.5 is not a whole number",
                "here.norm: 'biased' is not one of 'plug-in', 'unbiased'",
            ],
        ),
        ({"rule": 3}, ["here.rule: 3 is not the name of a mixing rule"]),
        ({"rule": "no.such:Rule"}, ["here.rule: there is no module 'no.such': install its pack"]),
        ({"rule": "sys:Rule"}, ["here.rule: there is no module 'sys'"]),
        # Whether there is such a module depends on how the tests were started.
        ({"rule": "__main__:Rule"}, ["here.rule: "]),
        ({"rule": "shutil:copies"}, ["here.rule: shutil defines no such class: 'copies' is"]),
        ({"rule": "mine.py:Lean"}, ["here.rule: 'mine.py:Lean' names a file: write mine:Lean"]),
        # A scenario may lay other values over these.
        ({"rule": "pike", "zeta1": -1, "zeta2": 0.5, "prior": None}, []),
    ],
)
def test_every_mistake_in_names_and_types_is_told_at_once(values, expected):
    found = methods.rule_name_and_type_problems(values, "here")
    assert len(found) == len(expected)
    for line, beginning in zip(found, expected, strict=True):
        assert line.startswith(beginning)


@pytest.mark.parametrize(
    ("rule", "given", "expected"),
    [
        ("pike", {**PIKE, "zeta1": -1, "every": 0}, ["zeta1: must not", "every: must be at"]),
        # One beyond its limits, and two that do not fit together.
        ("aioli", {"eta": 0, "every": 205}, ["eta: must be positive", "every: must be a multiple"]),
        ("fixed", {"weights_by_domain": {"en": -1, "hi": 2}}, ["by_domain.en: must not be n"]),
        ("single", {"domain": "de"}, ["domain: 'de' is unknown"]),
        ("pike", {**PIKE, "prior": {"en": 1, "fr": 1}}, ["'fr' is unknown", "'hi' has no weight"]),
        ("famo", {"lower_bounds": {"en": 1}}, ["domain 'hi' has no bound"]),
        ("pike", {**PIKE, "batch": "training"}, ["too few for 8 (rows) of each of 2 domains"]),
        ("pike", {**PIKE, "batch": "training", "rows": 3}, []),
        ("fixed", {"mixture": "found"}, []),
        ("doremi", {"reference": "mix"}, []),
    ],
)
def test_what_a_method_cannot_train_with_is_named(rule, given, expected):
    found = methods.construction_problems(rule, given, ["en", "hi"], RECIPE, "methods.mine")
    assert len(found) == len(expected)
    for line, words in zip(found, expected, strict=True):
        assert line.startswith("methods.mine")
        assert words in line


@pytest.mark.parametrize(
    ("rule", "given", "expected"),
    [
        ("mix", {}, Needs()),
        ("pike", PIKE, Needs(statistics=StatisticsNeed(1000, 1000, True, 8))),
        ("pike_mixing.rules.pike:PiKE", PIKE, Needs()),
        ("scale-free-pike", {}, Needs(losses=True, statistics=StatisticsNeed(20, 20, True, 16))),
    ],
)
def test_a_plan_knows_what_is_measured_for_the_projects_rules(rule, given, expected):
    run = {"domains": ["easy", "hard"], "training": {"steps": 400}}
    assert methods.run_needs_unless_custom_rule({"rule": rule, "method": given} | run) == expected


OWN = '''"""Mine."""

import dataclasses
from typing import ClassVar

from pike_mixing.rules.pike import PiKE

from mine.kinds import Speed

open("imported", "w").close()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mine(PiKE):
    """Faster."""

    about: ClassVar[str] = "As PiKE, " "but faster."

    speed: Speed = "high"
    """How fast it is."""


class Broken(PiKE):
    def init(self, domains, seed):
        return {}[seed]


@dataclasses.dataclass
class Nothing:
    """No method."""
'''


@pytest.fixture
def own(own_modules, monkeypatch):
    """A package of the user's own, which leaves a file where it is imported."""
    package = own_modules / "mine"
    package.mkdir()
    (package / "rule.py").write_text(OWN)
    (package / "kinds.py").write_text('from typing import Literal\n\nSpeed = Literal["high"]\n')
    (package / "again.py").write_text("from mine.rule import Mine\n")
    monkeypatch.chdir(own_modules)
    return "mine.rule:Mine"


def test_a_plan_imports_no_class_of_the_users_own(own, config, tmp_path):
    values = config()
    values["methods"]["mix"] = {"rule": own, "zeta1": 1, "zeta2": 1, "speed": "low"}
    plan = planner.plan(values, "config.yaml")
    assert plan.summary_by_method_rule()[own] == "As PiKE, but faster."
    assert methods.rule_about("mine.again:Mine") == "As PiKE, but faster."
    module = methods.class_reference(own).partition(":")[0]
    closure = code_fingerprint.import_closure(module)
    assert {"mine.rule", "mine.kinds", "pike_mixing.rules.pike"} <= closure
    assert not (tmp_path / "imported").exists()


INHERITING = """
import pike_mixing.rules.pike
import pike_mixing.rules.r_and_b as r_and_b
from pike_mixing import ScaleFreePiKE
from .again import Mine as Base

class FromTop(ScaleFreePiKE): pass
class FromModule(r_and_b.RAndB): pass
class FromPlace(pike_mixing.rules.pike.PiKE): pass
class FromOwn(Base): pass
class FromItself(FromItself): pass
class FromNowhere(missing.Thing): pass
"""


@pytest.mark.parametrize(
    ("name", "target", "zeta1"),
    [
        ("FromTop", True, False),
        ("FromModule", True, False),
        ("FromPlace", False, True),
        ("FromOwn", False, True),
        ("FromItself", False, False),
        ("FromNowhere", False, False),
    ],
)
def test_settings_that_a_class_inherits_are_its_own(own, own_modules, name, target, zeta1):
    (own_modules / "mine" / "heirs.py").write_text(INHERITING)
    found = [methods.has_setting(f"mine.heirs:{name}", one) for one in ("target", "zeta1")]
    assert found == [target, zeta1]


def run(rule, name="own", **method):
    return {
        "scenario": "text",
        "method_name": name,
        "domains": ["en", "hi"],
        "training": TRAINING,
        "rule": rule,
        "method": method,
    }


def test_at_the_start_every_mistake_of_ones_own_methods_is_told_once(own):
    low = run(own, "low", zeta1=1, zeta2=-1, speed="low")
    runs = [low, low, run("mine.again:Mine", zeta1=1, zeta2=1, rows=1), run("mix")]
    runs.append(run("mine.rule:Nothing", "no"))
    assert methods.custom_method_problems(runs) == [
        "methods.low in scenario text.zeta2: must not be negative, not -1",
        "methods.low in scenario text.speed: 'low' is not one of 'high'",
        "methods.own in scenario text.rows: must be at least 2, not 1",
        "methods.no in scenario text: rule: 'mine.rule:Nothing' is no mixing method: inherit "
        "pike_mixing.interface:Method and define `init` (docs/your-method.md)",
    ]
    assert methods.custom_method_problems([run(own, zeta1=1, zeta2=1)]) == []


def test_a_fault_of_ones_own_method_is_told_at_the_start(own):
    told = r"^methods\.own in scenario text: rule: 'mine\.rule:Broken' fails: KeyError: 0 "
    (problem,) = methods.custom_method_problems([run("mine.rule:Broken", zeta1=1, zeta2=1)])
    assert re.match(told, problem)


def test_a_finder_that_cannot_find_is_told_at_the_start(monkeypatch):
    (problem,) = methods.finder_problems([{"finder": "exposure-law"}, {"finder": "best"}])
    assert "'exposure-law' reads how much text each run had" in problem
    law = {"epochs": 4, "tokens_by_domain": {"code": 1e6}, "budget_tokens": 1e6}
    assert methods.finder_problems([{"finder": "mixing-law", "options": law}]) == []
    for name in ("best", "mixing-law"):
        (problem,) = methods.finder_problems([{"finder": name, "options": {"epochs": 4}}])
        assert f"the cap on epochs of '{name}'" in problem
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    (problem,) = methods.finder_problems([{"finder": "regmix"}, {"finder": "best"}])
    assert "'regmix' needs the package 'lightgbm'" in problem


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"x = 1\nclass Mine(:\n", "rule.py, line 2: invalid syntax: mend it"),
        (b"x = 1\0\n", "rule.py"),
        (b"def Mine():\n    pass\n", "mine.rule defines no such class: 'Mine' is unknown"),
    ],
)
def test_a_file_that_holds_no_rule_is_named_with_its_line(own, tmp_path, content, expected):
    (tmp_path / "mine" / "rule.py").write_bytes(content)
    (problem,) = methods.rule_name_and_type_problems({"rule": own}, "here")
    assert problem.startswith("here.rule: ")
    assert expected in problem
