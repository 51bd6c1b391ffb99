import dataclasses
import importlib
import json

import numpy as np
import pytest

import pike_mixing
from pike_mixing import METHODS, RULES, Method, finders, make, method_registry, provenance
from pike_mixing.errors import InputError
from pike_mixing.rules.pike import PiKE
from pike_mixing.rules.static import Mix


def test_every_rule_is_a_class_of_the_package_and_of_the_mapping():
    assert list(METHODS) == list(RULES)
    assert METHODS.get("pik") is None
    for rule, kind in METHODS.items():
        assert method_registry.rule_class(rule) is getattr(pike_mixing, kind.__name__) is kind


def test_every_rule_and_finder_says_where_it_comes_from():
    where = "pike_mixing/provenance.py: RULES there and in pike_mixing/__init__.py have one order"
    assert list(provenance.RULES) == list(RULES), where
    assert set(finders.FINDERS) < set(provenance.FINDERS)


def test_every_public_name_is_there():
    classes = {kind.__name__ for kind in METHODS.values()}
    assert classes < set(pike_mixing.__all__) <= set(dir(pike_mixing))
    for name in pike_mixing.__all__:
        assert getattr(pike_mixing, name) is not None
    assert pike_mixing.Signals is importlib.import_module("pike_mixing.interface").Signals


@pytest.mark.parametrize(
    ("rule", "settings", "message"),
    [
        ("pik", {}, "rule: 'pik' is unknown: did you mean 'pike'?"),
        ("nil:R", {}, "rule: 'nil:R' cannot be imported: No module named 'nil': correct the na"),
        (".mine:Rule", {}, "rule: '.mine:Rule' cannot be imported"),
        ("pike", {"zeta1": 1, "zeta2": 1, "evry": 2}, "pike: 'evry' is unknown: did you mean 'ev"),
        ("pike", {"zeta1": 1}, "pike: zeta2 is missing: Coefficient"),
    ],
)
def test_make_refuses_what_the_constructor_does_with_the_nearest_name(rule, settings, message):
    with pytest.raises(InputError) as caught:
        make(rule, **settings)
    assert str(caught.value).startswith(message)


def test_make_is_the_constructor():
    assert make("pike", zeta1=1, zeta2=2, rows=4) == PiKE(zeta1=1.0, zeta2=2.0, rows=4)
    assert make("pike_mixing.rules.static:Mix") == Mix()


def test_numbers_of_numpy_are_numbers():
    given = {"zeta1": np.float64(0.1), "zeta2": np.float32(0.5), "every": np.int64(40)}
    given |= {"rows": np.array(4), "prior": {"en": np.float64(3), "de": np.int32(1)}}
    for method in (make("pike", **given), PiKE(**given)):
        assert repr(method.every) == "40"
        assert method == PiKE(zeta1=0.1, zeta2=0.5, every=40, rows=4, prior={"en": 3, "de": 1})
        assert json.dumps(dataclasses.asdict(method))
    with pytest.raises(InputError, match="every: nan is not a whole number"):
        make("pike", zeta1=1, zeta2=1, every=np.float64("nan"))
    with pytest.raises(InputError, match=r"PiKE.prior: \[0.5, 0.5\] is not a mapping"):
        PiKE(zeta1=1, zeta2=1, prior=np.array([0.5, 0.5]))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'Pike'"):
        _ = pike_mixing.Pike


def test_a_setting_with_the_name_of_a_hook_is_refused():
    fields = {"__annotations__": {"weights": dict[str, float]}}
    with pytest.raises(InputError, match=r"Mine\.weights: that is a hook of Method"):
        type("Mine", (Method,), fields)
