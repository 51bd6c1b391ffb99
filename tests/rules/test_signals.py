"""Signals that contradict each other or the method's needs, and answers that are none."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from arrays import vector

from pike_mixing import ADO, DoReMi, PCGrad, PiKE, Signals, Statistics
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Needs, rows_of_domains
from pike_mixing.rules.adatask import AdaTask
from pike_mixing.rules.famo import FAMO
from pike_mixing.rules.skill_it import SkillIt
from pike_mixing.rules.surgery import MGDA

DOMAINS = ("en", "hi")


def refusal(hook, method, b=4, **given):
    """What a hook says to signals of step 7."""
    with pytest.raises(InputError) as caught:
        getattr(method, hook)(method.init(DOMAINS, 0), Signals(7, b, **given))
    return str(caught.value)


GRAM = {"gram_KxK": np.eye(2)}
GIVEN = {"loss_K": vector(1, 2), "count_K": vector(1, 3)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": 0}, "batch_rows: 0 must be a whole number, at least 1"),
        ({"b": 1.5}, "batch_rows: 1.5 must be a whole number, at least 1"),
        ({"count_K": None}, "count_K is missing: the method needs it (`needs`)"),
        ({"loss_K": None}, "loss_K is missing: the method needs it (`needs`)"),
        (
            {"count_K": vector(5, 7), "b": 48},
            "count_K: [5.0, 7.0] sums to 12, but the batch has 48",
        ),
        ({"count_K": vector(5, -1)}, "count_K of the run's domain 2 is -1: it cannot be neg"),
        ({"loss_K": vector(1, 2, 3)}, "loss_K has the shape (3,), but the state is of 2 domains"),
        ({"loss_K": vector(1, math.inf)}, "loss_K of the run's domain 2 is inf: training diverges"),
        (
            {"loss_K": vector(1, math.nan)},
            "loss_K of the run's domain 2 is nan, but the batch has 3 rows of it: training div",
        ),
    ],
)
def test_what_contradicts_the_batch_is_named_with_the_step(changes, message):
    assert refusal("observe", ADO(), **GIVEN | changes).startswith(
        f"ADO.observe, step 7: {message}"
    )


def test_a_step_before_the_first_is_refused():
    with pytest.raises(InputError, match="step: -1 must be a whole number, at least 0"):
        ADO().observe(ADO().init(DOMAINS, 0), Signals(-1, 4, **GIVEN))


def test_a_gradient_that_is_lost_is_not_absent():
    gram_KxK = np.array([[math.nan, math.nan], [math.nan, 4]])
    message = "gram_KxK of the run's domain 1 is nan, but the batch has 2 rows of it: training div"
    assert message in refusal(
        "gradient_coefficients", PCGrad(), gram_KxK=gram_KxK, count_K=np.array([2, 2])
    )
    # Without rows of it in the batch, it is absent.
    method = PCGrad()
    absent = Signals(7, 4, gram_KxK=gram_KxK, count_K=np.array([0, 4]))
    assert method.gradient_coefficients(method.init(DOMAINS, 0), absent).tolist() == [0, 1]


def test_the_mean_of_two_estimates_has_the_rows_of_one():
    estimates = [
        Statistics.of_moments(vector(3, 5), vector(8, 0), vector(1, 2), vector(4, 2)),
        Statistics.of_moments(vector(5, 7), vector(16, 4), vector(3, 2), vector(4, 2)),
    ]
    found = Statistics.fieldwise_mean(estimates)
    assert found.squared_norm_K.tolist() == [4, 6]
    # 4 - 12 / 4 and 6 - 2 / 2.
    assert found.squared_norm_unbiased_K.tolist() == [1, 5]
    assert found.variance_K.tolist() == [12, 2]
    assert (found.loss_K.tolist(), found.rows_K.tolist()) == ([2, 2], [4, 2])


@pytest.mark.parametrize(
    ("hook", "method", "given", "missing"),
    [
        ("observe", FAMO(), GIVEN, ["loss_after_K"]),
        ("observe", PCGrad(), {}, []),
        ("gradient_coefficients", PCGrad(), {}, ["gram_KxK"]),
        ("gradient_coefficients", AdaTask(), {}, ["count_K"]),
        ("gradient_coefficients", MGDA(normalise="loss"), GRAM, ["loss_K", "count_K"]),
        ("gradient_coefficients", MGDA(normalise="l2"), GRAM, []),
        ("loss_weights", FAMO(), {}, ["loss_K", "count_K"]),
        ("loss_weights", DoReMi(reference="mix"), {"count_K": vector(1, 3)}, ["excess_K"]),
        ("observe", PiKE(zeta1=1, zeta2=1, batch="training", first=7), GIVEN, ["statistics"]),
        ("observe", PiKE(zeta1=1, zeta2=1, batch="training", first=8), GIVEN, []),
        ("observe", PiKE(zeta1=1, zeta2=1, first=7), GIVEN, []),
        ("observe", SkillIt(), {}, []),
    ],
)
def test_a_signal_that_a_method_needs_at_a_step_is_missed(hook, method, given, missing):
    if not missing:
        getattr(method, hook)(method.init(DOMAINS, 0), Signals(7, 4, **given))
        return
    lines = refusal(hook, method, **given).splitlines()
    assert [line.split()[3] for line in lines] == missing


def test_a_tensor_is_refused_by_name():
    method = ADO()
    signals = Signals(0, 4, count_K=np.array([2, 2]), loss_K=torch.ones(2))
    with pytest.raises(InputError, match=r"loss_K is a torch\.Tensor: give a NumPy array"):
        method.observe(method.init(("a", "b"), 0), signals)


def test_statistics_of_rows_by_hand():
    # Gradients 1/2, -1/2, -1/2, -1/2: mean -1/4, variance (9/16 + 3 * 1/16) / 3 = 1/4.
    four, one = vector(1, -1, -1, -1)[:, None] / 2, np.array([[3.0]])
    measured = Statistics.of_rows([four, one, one[:0]], [vector(1, 2, 3, 2), vector(5), vector()])
    assert measured.squared_norm_K.tolist()[:2] == [1 / 16, 9]
    assert measured.variance_K[0] == 1 / 4
    assert measured.squared_norm_unbiased_K[0] == 0
    assert measured.loss_K.tolist()[:2] == [2, 5]
    assert measured.rows_K.tolist() == [4, 1, 0]
    # One row has no variance, none has nothing.
    assert np.isnan(measured.variance_K).tolist() == [False, True, True]
    assert np.isnan(measured.squared_norm_K).tolist() == [False, False, True]


@dataclasses.dataclass(frozen=True)
class Answers(Method):
    """A method of which one hook gives what it is told to."""

    hook: str
    # A function: an array would become a list, as in all settings.
    answer: Any

    def _given(self, hook, other):
        return self.answer() if hook == self.hook else other

    def needs(self):
        return self._given("needs", Needs())

    def init(self, domains, seed):
        return self._given("init", {"weights_K": vector(0.5, 0.5)})

    def allocate(self, state, step, b):
        return self._given("allocate", np.array([b, 0]))

    def gradient_coefficients(self, state, signals):
        return self._given("gradient_coefficients", None)

    def observe(self, state, signals):
        return self._given("observe", state)


def stepped(method):
    """Calls the hooks as a step does."""
    state = method.init(DOMAINS, 0)
    rows_of_domains(method, state, 7, 4, "largest-remainder", 2)
    for judged in (method.gradient_coefficients, method.observe):
        judged(state, Signals(7, 4, count_K=np.array([2, 2])))


@pytest.mark.parametrize(
    ("hook", "answer", "message"),
    [
        ("needs", None, ".needs: it gives a NoneType: return pike_mixing.Needs"),
        ("init", {"n": [1.0]}, ".init: 'n' of the state is a list: give a NumPy array of numbers"),
        ("observe", None, ".observe, step 7: the state is a NoneType"),
        ("observe", {"n": 0.1}, ".observe, step 7: 'n' of the state is a float: give a NumPy arr"),
        (
            "observe",
            {"weights_K": vector(0.6, 0.40001)},
            ".observe, step 7: the next weights: [0.6     0.40001] must be numbers that are not "
            "negative and sum to 1: the rule's weights sum to 1.00001: have it divide them by the",
        ),
        (
            "observe",
            {"weights_K": vector(-0.5, 1.5)},
            ".observe, step 7: the next weights: [-0.5  1.5] must be numbers that are not negative "
            "and sum to 1: if the rule is yours, it divides by 0 or subtracts too much; else the",
        ),
        (
            "gradient_coefficients",
            vector(1),
            ".gradient_coefficients, step 7: it gives [1.]: give a NumPy array of 2 numbers",
        ),
        (
            "gradient_coefficients",
            vector(1, math.nan),
            ".gradient_coefficients, step 7: it gives [1.0, nan]: a domain with",
        ),
        ("allocate", [4, 0], ".allocate, step 7: [4, 0] is a list: give a NumPy array"),
        ("allocate", vector(2.5, 1.5), ".allocate, step 7: [2.5 1.5] must be whole numbers"),
    ],
)
def test_what_is_no_answer_is_told_by_the_hook_that_gives_it(hook, answer, message):
    with pytest.raises(InputError) as caught:
        stepped(Answers(hook, lambda: answer))
    assert str(caught.value).startswith(f"Answers{message}")


def test_weights_of_a_domain_without_rows_are_told_what_its_loss_is():
    @dataclasses.dataclass(frozen=True)
    class Proportional(Answers):
        def needs(self):
            return Needs(losses=True)

        def observe(self, state, signals):
            return {"weights_K": signals.loss_K / signals.loss_K.sum()}

    method = Proportional("", None)
    signals = Signals(7, 4, count_K=np.array([4, 0]), loss_K=vector(2, math.nan))
    with pytest.raises(InputError, match=r"1 of 2 domains had no row at this step, and their loss"):
        method.observe(method.init(DOMAINS, 0), signals)


@pytest.mark.parametrize("rounding", ["largest-remainder", "systematic"])
def test_a_method_that_deals_rows_itself_does_so_whatever_the_rounding(rounding):
    # Its weights are 1/2 each.
    method = Answers("allocate", lambda: np.array([1, 3]))
    assert rows_of_domains(method, method.init(DOMAINS, 0), 7, 4, rounding, 2).tolist() == [1, 3]


def test_what_is_an_answer_passes():
    # Of a domain without rows no coefficient is used.
    method, count_K = (
        Answers("gradient_coefficients", lambda: vector(1, math.nan)),
        np.array([4, 0]),
    )
    assert (
        method.gradient_coefficients(method.init(DOMAINS, 0), Signals(7, 4, count_K=count_K))[0]
        == 1
    )
    given = {"weights_K": vector(1, 0), "mean": np.mean([1.0, 2.0])}
    assert Answers("observe", lambda: given).observe(given, Signals(7, 4)) is given


def test_a_class_that_can_change_its_settings_is_refused():
    @dataclasses.dataclass
    class Thawed(Method):
        def init(self, domains, seed):
            return {"weights_K": vector(0.5, 0.5)}

    with pytest.raises(InputError, match="Thawed can change its settings"):
        Thawed()
