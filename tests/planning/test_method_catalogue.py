import dataclasses

import pytest
from repository import ROOT

from pike_mixing import METHODS
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, StatisticsNeed, ValidationNeed
from pipeline.planning import method_catalogue

PAGE = ROOT / "docs" / "methods.md"


def test_the_page_is_what_the_command_prints():
    text = method_catalogue.describe_methods(format="markdown")
    assert PAGE.read_text(encoding="utf-8") == f"{text}\n", "write it anew: make docs"
    assert [rule for rule in METHODS if f"\n| [{rule}](../pike_mixing/rules/" not in text] == []


@pytest.mark.parametrize(
    ("place", "last"),
    [
        (
            "static:Mix",
            "\n  tried        a few steps of invented signals of three domains: no fault",
        ),
        ("pike:PiKE", "\n  not tried    zeta1 has no default: make run tries the rule with yours"),
    ],
)
def test_a_rule_of_ones_own_is_shown_too(place, last):
    text = method_catalogue.describe_methods(f"pike_mixing.rules.{place}")
    assert text.startswith(f"pike_mixing.rules.{place}\n")
    assert last in text


FAULTY = """
import dataclasses
import numpy as np
from pike_mixing import Method, Needs, StatisticsNeed

{before}

@dataclasses.dataclass(frozen=True)
class Faulty(Method):
    def needs(self):
        {needs}

    def init(self, domains, seed):
        {init}

    def {hook}(self, state, signals):
        K = 3
        {observe}
"""
SOUND = {
    "before": "",
    "needs": "return Needs(losses=True)",
    "init": 'return {"weights_K": np.full(len(domains), 1 / len(domains))}',
    "observe": "return state",
    "hook": "observe",
}
STATISTICS = "return Needs(statistics=StatisticsNeed(first=900, every=900, fresh=True, rows=4))"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"before": "1 / 0"},
            r"fails: ZeroDivisionError: division by zero \(.*mine\.py:6, in <mod",
        ),
        (
            {"needs": "return Needs()", "observe": "signals.loss_K.sum(); return state"},
            r"has no attribute 'sum', and a signal is None if `needs` does not ask for it \(",
        ),
        ({"before": "x = ("}, r"fails: SyntaxError: '\(' was never closed .*mine\.py:6\): mend it"),
        ({"init": 'raise ValueError("two\\nlines")'}, r"ValueError: two lines \(.*mine\.py:14"),
        (
            {"init": "return {}"},
            "Faulty: the state has no weights_K: have init and observe give it",
        ),
        (
            {"init": 'return {"weights_K": np.ones(len(domains))}'},
            r"Faulty\.weights, step 0: \[1\. 1\. 1\.\] must be numbers that are not negative and s",
        ),
        # First measured at step 900.
        ({"needs": STATISTICS, "observe": "1 / 0"}, r"ZeroDivisionError.*mine\.py:18, in observe"),
        # The second step has no row of a domain.
        (
            {"observe": 'return {"weights_K": signals.loss_K / signals.loss_K.sum()}'},
            "observe, step 1: the next weights: .nan nan nan.* the batch has no row of '[abc]'",
        ),
        ({"hook": "update"}, r"no `observe` uses them: define it \(update is no hook: did you mea"),
        # What measures nothing may have no observe.
        ({"hook": "update", "needs": "return Needs()"}, None),
        ({}, None),
    ],
)
def test_a_fault_of_ones_own_rule_is_one_sentence(own_modules, changes, told):
    source = FAULTY
    for name, line in (SOUND | changes).items():
        source = source.replace(f"{{{name}}}", line)
    (own_modules / "mine.py").write_text(source)
    if told is None:
        assert "no fault" in method_catalogue.describe_methods("mine:Faulty")
        return
    with pytest.raises(InputError, match=told) as caught:
        method_catalogue.describe_methods("mine:Faulty")
    assert len(str(caught.value).splitlines()) == 1


def test_every_row_of_a_table_has_as_many_cells_as_its_head():
    cells = 0
    for line in method_catalogue.describe_methods(format="markdown").splitlines():
        now = line.replace(r"\|", "").count("|")
        assert not (cells and now) or cells == now, line
        cells = now


def test_one_rule_alone_for_a_terminal():
    text = method_catalogue.describe_methods("balanced-pike")
    assert text.splitlines()[0] == "balanced-pike"
    assert "    tau (required)\n        Weight of the worst loss: towards 0 their" in text
    assert "    every = 1000\n        Steps T_0 between updates of the weights.\n" in text
    assert "  measures     gradient statistics\n" in text
    assert "backward passes over max(8, b_k) fresh rows of each domain, every 1000 steps" in text
    assert text.endswith("\n  code         pike_mixing.rules.pike:BalancedPiKE")
    assert max(map(len, text.splitlines())) <= 96


def test_all_rules_for_a_terminal():
    text = method_catalogue.describe_methods()
    names = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert names == list(METHODS)


@pytest.mark.parametrize(
    ("name", "format", "told"),
    [
        ("pyke", "text", "'pyke' is unknown: did you mean 'pike'"),
        ("mine.py:Lean", "text", "'mine.py:Lean' names a file: write mine:Lean$"),
        ("a/mine.py", "text", "write mine:CLASS, and put the folder a on PYTHONPATH"),
        ("pike_mixing.rules.pike:Pike", "text", "no such class: 'Pike' is .* mean 'PiKE'"),
        ("pike", "markdown", "the page of all rules: leave pike out"),
    ],
)
def test_a_question_without_an_answer_is_refused(name, format, told):
    with pytest.raises(InputError, match=told):
        method_catalogue.describe_methods(name, format=format)


def test_what_is_measured_now_and_then_has_its_rows_and_steps():
    assert method_catalogue.costs_of_needs(Needs()) == []
    statistics = StatisticsNeed(first=0, every=1, fresh=False, rows=2)
    validation = ValidationNeed(first=0, every=10, rows=16)
    some = Needs(losses=True, statistics=statistics, validation=validation)
    _, measured, compared = method_catalogue.costs_of_needs(some)
    assert measured.work == "backward passes over the batch's rows of each domain, every step"
    assert measured.memory.startswith("a gradient, ")
    assert compared.work == "forward passes over 16 rows of each domain, every 10 steps"
    products = dataclasses.replace(statistics, inner_products=True)
    (each,) = method_catalogue.costs_of_needs(Needs(statistics=products))
    assert (each.measured[-15:], each.memory[:11]) == (" inner products", "K gradients")


def test_no_need_is_without_a_cost():
    assert set(method_catalogue.COSTS) == {field.name for field in dataclasses.fields(Needs)}
