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
    from pike_mixing.alarms import Alarm as Alarm
    from pike_mixing.alarms import Watch as Watch
    from pike_mixing.delivered import Delivered as Delivered
    from pike_mixing.errors import InputError as InputError
    from pike_mixing.interface import Method as Method
    from pike_mixing.interface import Needs as Needs
    from pike_mixing.interface import RunFacts as RunFacts
    from pike_mixing.interface import Signals as Signals
    from pike_mixing.interface import State as State
    from pike_mixing.interface import Statistics as Statistics
    from pike_mixing.interface import StatisticsNeed as StatisticsNeed
    from pike_mixing.interface import ValidationNeed as ValidationNeed
    from pike_mixing.method_registry import METHODS as METHODS
    from pike_mixing.method_registry import make as make
    from pike_mixing.moved_rows import Movement as Movement
    from pike_mixing.rules.adatask import AdaTask as AdaTask
    from pike_mixing.rules.ado import ADO as ADO
    from pike_mixing.rules.aioli import Aioli as Aioli
    from pike_mixing.rules.doge import DoGE as DoGE
    from pike_mixing.rules.doremi import DoReMi as DoReMi
    from pike_mixing.rules.famo import FAMO as FAMO
    from pike_mixing.rules.gradnorm import GradNorm as GradNorm
    from pike_mixing.rules.odm import OnlineDataMixing as OnlineDataMixing
    from pike_mixing.rules.pike import BalancedPiKE as BalancedPiKE
    from pike_mixing.rules.pike import ConceptualPiKE as ConceptualPiKE
    from pike_mixing.rules.pike import PiKE as PiKE
    from pike_mixing.rules.pike import proposed_coefficients as proposed_coefficients
    from pike_mixing.rules.r_and_b import RAndB as RAndB
    from pike_mixing.rules.scale_free_pike import ScaleFreePiKE as ScaleFreePiKE
    from pike_mixing.rules.schedule import Schedule as Schedule
    from pike_mixing.rules.skill_it import SkillIt as SkillIt
    from pike_mixing.rules.static import Fixed as Fixed
    from pike_mixing.rules.static import Mix as Mix
    from pike_mixing.rules.static import Random as Random
    from pike_mixing.rules.static import RoundRobin as RoundRobin
    from pike_mixing.rules.static import Single as Single
    from pike_mixing.rules.static import Temperature as Temperature
    from pike_mixing.rules.static import UniMax as UniMax
    from pike_mixing.rules.surgery import MGDA as MGDA
    from pike_mixing.rules.surgery import CAGrad as CAGrad
    from pike_mixing.rules.surgery import GradVaccine as GradVaccine
    from pike_mixing.rules.surgery import NashMTL as NashMTL
    from pike_mixing.rules.surgery import PCGrad as PCGrad
    from pike_mixing.rules.surgery import UPGrad as UPGrad

__version__ = "0.1.0"
"""Of this library and of the pipeline."""

RULES = {
    "mix": "pike_mixing.rules.static:Mix",
    "round-robin": "pike_mixing.rules.static:RoundRobin",
    "random": "pike_mixing.rules.static:Random",
    "single": "pike_mixing.rules.static:Single",
    "fixed": "pike_mixing.rules.static:Fixed",
    "temperature": "pike_mixing.rules.static:Temperature",
    "unimax": "pike_mixing.rules.static:UniMax",
    "schedule": "pike_mixing.rules.schedule:Schedule",
    "pike": "pike_mixing.rules.pike:PiKE",
    "balanced-pike": "pike_mixing.rules.pike:BalancedPiKE",
    "conceptual-pike": "pike_mixing.rules.pike:ConceptualPiKE",
    "scale-free-pike": "pike_mixing.rules.scale_free_pike:ScaleFreePiKE",
    "ado": "pike_mixing.rules.ado:ADO",
    "odm": "pike_mixing.rules.odm:OnlineDataMixing",
    "famo": "pike_mixing.rules.famo:FAMO",
    "gradnorm": "pike_mixing.rules.gradnorm:GradNorm",
    "doremi": "pike_mixing.rules.doremi:DoReMi",
    "doge": "pike_mixing.rules.doge:DoGE",
    "skill-it": "pike_mixing.rules.skill_it:SkillIt",
    "aioli": "pike_mixing.rules.aioli:Aioli",
    "r-and-b": "pike_mixing.rules.r_and_b:RAndB",
    "pcgrad": "pike_mixing.rules.surgery:PCGrad",
    "gradvac": "pike_mixing.rules.surgery:GradVaccine",
    "mgda": "pike_mixing.rules.surgery:MGDA",
    "cagrad": "pike_mixing.rules.surgery:CAGrad",
    "nash-mtl": "pike_mixing.rules.surgery:NashMTL",
    "upgrad": "pike_mixing.rules.surgery:UPGrad",
    "adatask": "pike_mixing.rules.adatask:AdaTask",
}

_PLACES = {place.partition(":")[2]: place for place in RULES.values()} | {
    "Alarm": "pike_mixing.alarms:Alarm",
    "Watch": "pike_mixing.alarms:Watch",
    "Delivered": "pike_mixing.delivered:Delivered",
    "Movement": "pike_mixing.moved_rows:Movement",
    "InputError": "pike_mixing.errors:InputError",
    "RunFacts": "pike_mixing.interface:RunFacts",
    "Method": "pike_mixing.interface:Method",
    "Needs": "pike_mixing.interface:Needs",
    "Signals": "pike_mixing.interface:Signals",
    "State": "pike_mixing.interface:State",
    "Statistics": "pike_mixing.interface:Statistics",
    "StatisticsNeed": "pike_mixing.interface:StatisticsNeed",
    "ValidationNeed": "pike_mixing.interface:ValidationNeed",
    "METHODS": "pike_mixing.method_registry:METHODS",
    "make": "pike_mixing.method_registry:make",
    "proposed_coefficients": "pike_mixing.rules.pike:proposed_coefficients",
}

__all__ = sorted(["RULES", *_PLACES])


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]
