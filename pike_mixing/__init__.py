"""Mixing methods: which domains fill the next batch, and how their losses add up.

    from pike_mixing import PiKE, Signals
    method = PiKE(zeta1=0.05, zeta2=0.005, every=40)
    state = method.init(("en", "hi", "de"), seed=0)
    counts_K = method.allocate(state, step=0, b=256)
    state = method.observe(state, Signals(step=0, batch_rows=256, statistics=...))

`METHODS` maps names to classes, `make("pike", zeta1=0.05, zeta2=0.005)` makes a method by its name.
`RULES` is the table behind both. A rule's module is imported when it is asked for, so that a run
depends on its own method's code and on no other's.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pike_mixing.alarms import Alarm, Watch
    from pike_mixing.errors import InputError
    from pike_mixing.interface import Facts, Method, Needs, Signals, State, Statistics
    from pike_mixing.movement import Movement
    from pike_mixing.registry import METHODS, make
    from pike_mixing.rules.adatask import AdaTask
    from pike_mixing.rules.ado import ADO
    from pike_mixing.rules.aioli import Aioli
    from pike_mixing.rules.balanced_pike import BalancedPiKE
    from pike_mixing.rules.cagrad import CAGrad
    from pike_mixing.rules.conceptual_pike import ConceptualPiKE
    from pike_mixing.rules.dga import DGA
    from pike_mixing.rules.doge import DoGE
    from pike_mixing.rules.doremi import DoReMi
    from pike_mixing.rules.famo import FAMO
    from pike_mixing.rules.fixed import Fixed
    from pike_mixing.rules.gradnorm import GradNorm
    from pike_mixing.rules.gradvac import GradVaccine
    from pike_mixing.rules.mgda import MGDA
    from pike_mixing.rules.mix import Mix
    from pike_mixing.rules.nash_mtl import NashMTL
    from pike_mixing.rules.odm import OnlineDataMixing
    from pike_mixing.rules.one_random import Random
    from pike_mixing.rules.pcgrad import PCGrad
    from pike_mixing.rules.pike import PiKE, proposed_coefficients
    from pike_mixing.rules.r_and_b import RAndB
    from pike_mixing.rules.round_robin import RoundRobin
    from pike_mixing.rules.scale_free_pike import ScaleFreePiKE
    from pike_mixing.rules.single import Single
    from pike_mixing.rules.skill_it import SkillIt
    from pike_mixing.rules.temperature import Temperature
    from pike_mixing.rules.unimax import UniMax
    from pike_mixing.rules.upgrad import UPGrad

__version__ = "0.1.0"
"""Of this library and of the pipeline."""

RULES = {
    "mix": "pike_mixing.rules.mix:Mix",
    "round-robin": "pike_mixing.rules.round_robin:RoundRobin",
    "random": "pike_mixing.rules.one_random:Random",
    "single": "pike_mixing.rules.single:Single",
    "fixed": "pike_mixing.rules.fixed:Fixed",
    "temperature": "pike_mixing.rules.temperature:Temperature",
    "unimax": "pike_mixing.rules.unimax:UniMax",
    "pike": "pike_mixing.rules.pike:PiKE",
    "balanced-pike": "pike_mixing.rules.balanced_pike:BalancedPiKE",
    "conceptual-pike": "pike_mixing.rules.conceptual_pike:ConceptualPiKE",
    "scale-free-pike": "pike_mixing.rules.scale_free_pike:ScaleFreePiKE",
    "ado": "pike_mixing.rules.ado:ADO",
    "odm": "pike_mixing.rules.odm:OnlineDataMixing",
    "famo": "pike_mixing.rules.famo:FAMO",
    "gradnorm": "pike_mixing.rules.gradnorm:GradNorm",
    "doremi": "pike_mixing.rules.doremi:DoReMi",
    "doge": "pike_mixing.rules.doge:DoGE",
    "skill-it": "pike_mixing.rules.skill_it:SkillIt",
    "aioli": "pike_mixing.rules.aioli:Aioli",
    "dga": "pike_mixing.rules.dga:DGA",
    "r-and-b": "pike_mixing.rules.r_and_b:RAndB",
    "pcgrad": "pike_mixing.rules.pcgrad:PCGrad",
    "gradvac": "pike_mixing.rules.gradvac:GradVaccine",
    "mgda": "pike_mixing.rules.mgda:MGDA",
    "cagrad": "pike_mixing.rules.cagrad:CAGrad",
    "nash-mtl": "pike_mixing.rules.nash_mtl:NashMTL",
    "upgrad": "pike_mixing.rules.upgrad:UPGrad",
    "adatask": "pike_mixing.rules.adatask:AdaTask",
}

__all__ = [
    "ADO",
    "DGA",
    "FAMO",
    "METHODS",
    "MGDA",
    "RULES",
    "AdaTask",
    "Aioli",
    "Alarm",
    "BalancedPiKE",
    "CAGrad",
    "ConceptualPiKE",
    "DoGE",
    "DoReMi",
    "Facts",
    "Fixed",
    "GradNorm",
    "GradVaccine",
    "InputError",
    "Method",
    "Mix",
    "Movement",
    "NashMTL",
    "Needs",
    "OnlineDataMixing",
    "PCGrad",
    "PiKE",
    "RAndB",
    "Random",
    "RoundRobin",
    "ScaleFreePiKE",
    "Signals",
    "Single",
    "SkillIt",
    "State",
    "Statistics",
    "Temperature",
    "UPGrad",
    "UniMax",
    "Watch",
    "make",
    "proposed_coefficients",
]

_PLACES = {place.partition(":")[2]: place for place in RULES.values()} | {
    "Alarm": "pike_mixing.alarms:Alarm",
    "Watch": "pike_mixing.alarms:Watch",
    "Movement": "pike_mixing.movement:Movement",
    "InputError": "pike_mixing.errors:InputError",
    "Facts": "pike_mixing.interface:Facts",
    "Method": "pike_mixing.interface:Method",
    "Needs": "pike_mixing.interface:Needs",
    "Signals": "pike_mixing.interface:Signals",
    "State": "pike_mixing.interface:State",
    "Statistics": "pike_mixing.interface:Statistics",
    "METHODS": "pike_mixing.registry:METHODS",
    "make": "pike_mixing.registry:make",
    "proposed_coefficients": "pike_mixing.rules.pike:proposed_coefficients",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]
