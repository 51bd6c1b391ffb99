"""A prior may give a domain the weight 0: it has no rows, and no other number becomes NaN."""

import math

import numpy as np
import pytest
from test_invariants import DOMAINS, answers, signals

from pike_mixing import METHODS, registry

RULES = {
    "pike": {"zeta1": 0.1, "zeta2": 0.01, "first": 0, "every": 1},
    "balanced-pike": {"zeta1": 0.1, "zeta2": 0.01, "tau": 3, "first": 0, "every": 1},
    "conceptual-pike": {"L": 1, "eta": 0.1, "first": 20},
    "ado": {"first": 9, "every": 1, "ignore": 0, "stride": 1, "window": 5, "min_weight": 0},
    "odm": {"warmup": 20},
    "doremi": {"reference": "mix"},
    "scale-free-pike": {"every": 1},
    "fixed": {},
}


def test_no_rule_with_a_prior_is_left_out():
    with_prior = {r for r in METHODS if "prior" in registry.kind(r).__dataclass_fields__}
    assert with_prior == RULES.keys() - {"fixed"}


@pytest.mark.parametrize("place", range(len(DOMAINS)))
@pytest.mark.parametrize(
    "rule", [pytest.param(r, marks=[pytest.mark.slow] * (r == "ado")) for r in RULES]
)
def test_a_domain_of_weight_0_stays_out_and_leaves_numbers(rule, place):
    prior = {d: float(k != place) for k, d in enumerate(DOMAINS)}
    name = "weights_by_domain" if rule == "fixed" else "prior"
    method = registry.build(rule, RULES[rule] | {name: prior}, rule)
    state = method.init(DOMAINS, 3)
    for step in range(11):
        numbers = [math.nan if k == place else k + 1.0 + step for k in range(len(DOMAINS))]
        seen = signals(method, step, numbers)
        assert method.allocate(state, step, 24)[place] == 0
        for value_K in answers(method, state, seen).values():
            assert np.isfinite(value_K).all()
            assert value_K[place] == 0
        if rule not in ("conceptual-pike", "odm"):
            # These two let go of the prior at their first estimate and after their warm-up.
            state = method.observe(state, seen)
    assert np.isfinite(method.weights(state, 11)).all()
