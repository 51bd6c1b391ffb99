import importlib

import pytest

import pike_mixing
from pike_mixing import METHODS, registry
from pike_mixing.errors import InputError
from pike_mixing.rules.fixed import Fixed
from pike_mixing.rules.mix import Mix
from pike_mixing.rules.pike import PiKE


def test_every_rule_names_a_class():
    for rule in METHODS:
        assert registry.kind(rule).__name__ in METHODS[rule]


def test_every_rule_can_be_imported_from_the_package():
    for rule in METHODS:
        name = registry.kind(rule).__name__
        assert getattr(pike_mixing, name) is registry.kind(rule)


def test_the_package_offers_what_a_loop_of_ones_own_needs():
    for name in pike_mixing.__all__:
        assert getattr(pike_mixing, name) is not None
    assert pike_mixing.Signals is importlib.import_module("pike_mixing.interface").Signals


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'Pike'"):
        _ = pike_mixing.Pike


def test_settings_make_a_method():
    method = registry.build("pike", {"zeta1": 1, "zeta2": 2, "prior": {"en": 1}}, "run.json")
    assert method == PiKE(zeta1=1.0, zeta2=2.0, prior={"en": 1.0})
    assert registry.build("fixed", {"weights_by_domain": {"en": 1}}, "run.json") == Fixed(
        {"en": 1.0}
    )
    assert registry.build("pike_mixing.rules.mix:Mix", {}, "run.json") == Mix()


def test_an_unknown_rule_is_refused_with_the_nearest_one():
    with pytest.raises(InputError, match=r"rule: 'round_robin' is unknown: did you mean 'round-r"):
        registry.build("round_robin", {}, "run.json")


def test_all_settings_that_do_not_fit_are_named_at_once():
    wrong = {"zeta": 1, "zeta2": "much", "norm": "biased", "prior": {"en": "all"}}
    with pytest.raises(InputError) as caught:
        registry.build("pike", wrong, "run.json: method")
    message = str(caught.value)
    assert "run.json: method: 'zeta' is unknown: did you mean 'zeta" in message
    assert "run.json: method: zeta1 is missing" in message
    assert "run.json: method.zeta2: 'much' is not a number" in message
    assert "run.json: method.norm: 'biased' is not one of 'plug-in', 'unbiased'" in message
    assert "run.json: method.prior.en: 'all' is not a number" in message
