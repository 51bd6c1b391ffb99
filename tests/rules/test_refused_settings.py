"""Every rule, finder and need judges its settings when it is made, without a configuration."""

import dataclasses
import math
import typing

import pytest

from pike_mixing import METHODS, method_registry
from pike_mixing.errors import InputError
from pike_mixing.finders import FINDERS, build_finder
from pipeline.planning import method_catalogue

NAMED = {"single": {"domain": "prose"}, "fixed": {"mixture": "found"}}


def kind_of(name):
    return build_finder.finder_class(name) if name in FINDERS else method_registry.rule_class(name)


def made(name, **changes):
    """A rule, or a finder, of which no setting is required."""
    required = (
        {}
        if name in FINDERS
        else method_catalogue.placeholders_of_required_settings(name) | NAMED.get(name, {})
    )
    return kind_of(name)(**required | changes)


@pytest.mark.parametrize("name", [*METHODS, *FINDERS])
def test_a_value_of_another_type_is_refused_in_every_setting(name):
    kind, hints = kind_of(name), typing.get_type_hints(kind_of(name))
    for field in dataclasses.fields(kind):
        wrong = [object()] + [math.nan, math.inf, True] * (hints[field.name] in (float, int))
        for value in wrong:
            with pytest.raises(InputError, match=rf"^{kind.__name__}\.{field.name}: .* is not "):
                made(name, **{field.name: value})


def test_settings_that_do_not_fit_each_other_are_told_where_each_can_be_asked():
    # 205 steps are no multiple of a slot's 10.
    with pytest.raises(InputError) as caught:
        made("aioli", eta=0.0, every=205)
    problems = ["eta: must be positive, not 0.0", "every: must be a multiple of slot, 10"]
    assert str(caught.value).splitlines() == [f"Aioli.{p}" for p in problems]
    # What is of another type cannot.
    with pytest.raises(InputError, match=r"^Aioli\.slot: '3' is not a whole number: write 3$"):
        made("aioli", slot="3", every=205)


NEGATIVE = {"en": -1.0, "hi": 2.0}


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("pike", {"zeta1": -1, "zeta2": -1, "every": 0, "first": -1, "rows": 1, "estimates": 0}),
        ("pike", {"min_weight": 1, "prior": NEGATIVE}),
        ("balanced-pike", {"tau": 0, "every": 0}),
        ("conceptual-pike", {"L": 0, "eta": 0, "beta": 0, "gamma": 0, "every": 0, "first": -1}),
        ("conceptual-pike", {"rows": 1, "prior": NEGATIVE}),
        ("ado", {"every": 0, "stride": 0, "window": 4, "ignore": -1, "points": 3, "min_weight": 1}),
        ("ado", {"window": 6, "first": 8, "prior": NEGATIVE}),
        ("scale-free-pike", {"strength": 0, "every": 0, "rows": 1, "max_change": 0}),
        ("scale-free-pike", {"min_share": 0, "prior": NEGATIVE, "target": NEGATIVE}),
        ("r-and-b", {"strength": 0, "every": 0, "target": NEGATIVE}),
        ("odm", {"warmup": -1, "memory": 1, "prior": NEGATIVE}),
        ("famo", {"rate": 0, "gamma": -1, "lower_bounds": NEGATIVE}),
        ("gradnorm", {"rate": 0, "alpha": -1, "first": -1}),
        ("doremi", {"rate": 0, "smoothing": 0, "prior": NEGATIVE}),
        ("doge", {"rate": 0, "cap": 0, "clip_norm": 0}),
        ("skill-it", {"eta": 0, "window": 0, "every": 0, "graph": {"en": NEGATIVE}}),
        ("aioli", {"eta": 0, "ema": 1, "lean": 0, "sweeps": 0, "slot": 0}),
        ("gradvac", {"beta": 0, "highest_target": 1}),
        ("cagrad", {"c": 1.0}),
        ("temperature", {"temperature": 0, "tokens_by_domain": NEGATIVE}),
        ("unimax", {"epochs": 0, "budget_tokens": 0, "tokens_by_domain": NEGATIVE}),
        ("fixed", {"weights_by_domain": NEGATIVE, "mixture": None}),
        ("best", {"target": NEGATIVE}),
        ("mde", {"folds": 1, "starts": 0, "seed": -1, "target": NEGATIVE}),
        ("regmix", {"patience": 0, "kept": 0, "seed": -1, "samples": 0, "leaves": 1, "rounds": 0}),
        ("regmix", {"concentration": -1, "folds": 1, "prior": NEGATIVE, "target": NEGATIVE}),
        ("regmix", {"kept": 200_000, "learning_rate": 0}),
        ("mixing-law", {"huber": 0, "epochs": -4, "seed": -1, "kl": -1, "starts": 0, "folds": 1}),
        # Not without sizes.
        ("mixing-law", {"epochs": 0, "budget_tokens": 0, "prior": NEGATIVE}),
    ],
)
def test_all_that_is_wrong_is_one_message_by_the_settings_names(rule, wrong):
    with pytest.raises(InputError) as caught:
        made(rule, **wrong)
    kind = kind_of(rule).__name__
    named = [line.partition(":")[0].split(".") for line in str(caught.value).splitlines()]
    assert {name for first, name, *_ in named if first == kind} == wrong.keys() - {"mixture"}
    assert all("en" in rest for _, name, *rest in named if wrong[name] == NEGATIVE)
