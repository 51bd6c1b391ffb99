"""Mixing methods: which domains fill the next batch, and how their losses add up.

    from pipeline.mixing import PiKE
    method = PiKE(zeta1=0.05, zeta2=0.005, every=40)
    state = method.init(("en", "hi", "de"), seed=0)
    counts_K = method.allocate(state, step=0, b=256)
    state = method.observe(state, Signals(step=0, batch_rows=256, statistics=...))

`METHODS` is the one table of names. A method's module is imported when it is asked for, so that a
run depends on its own method's code and on no other's.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.mixing.balanced_pike import BalancedPiKE
    from pipeline.mixing.fixed import Fixed
    from pipeline.mixing.mix import Mix
    from pipeline.mixing.one_random import Random
    from pipeline.mixing.pike import PiKE
    from pipeline.mixing.round_robin import RoundRobin
    from pipeline.mixing.seams import Needs, Signals, State, Statistics
    from pipeline.mixing.single import Single

METHODS = {
    "mix": "pipeline.mixing.mix:Mix",
    "round-robin": "pipeline.mixing.round_robin:RoundRobin",
    "random": "pipeline.mixing.one_random:Random",
    "single": "pipeline.mixing.single:Single",
    "fixed": "pipeline.mixing.fixed:Fixed",
    "pike": "pipeline.mixing.pike:PiKE",
    "balanced-pike": "pipeline.mixing.balanced_pike:BalancedPiKE",
}

__all__ = [
    "METHODS",
    "BalancedPiKE",
    "Fixed",
    "Mix",
    "Needs",
    "PiKE",
    "Random",
    "RoundRobin",
    "Signals",
    "Single",
    "State",
    "Statistics",
]

_PLACES = {place.partition(":")[2]: place for place in METHODS.values()} | {
    name: f"pipeline.mixing.seams:{name}" for name in ("Needs", "Signals", "State", "Statistics")
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
