"""What tables and figures need of their runs: without it they are empty, after all training."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pike_mixing import RULES
from pike_mixing.errors import InputError
from pipeline.planning import dependencies, methods, paper_roles, plan, stage_settings
from pipeline.planning.configuration import Compare
from pipeline.planning.dependencies import RunName

Config = Any


@dataclasses.dataclass(frozen=True)
class Selected:
    """The runs that a table or figure shows."""

    config: Config
    runs: Sequence[RunName]
    held: frozenset[RunName]
    """Those of its database that are evaluated."""
    asked: frozenset[RunName]

    def evaluations(self) -> list[dict[str, Any]]:
        """How the runs are evaluated."""
        evaluated = [run for run in self.runs if run in self.held]
        return [stage_settings.evaluation(self.config, r, asked=r in self.asked) for r in evaluated]

    def compared(self, role: str) -> str | None:
        """The method that others are compared with: the `baseline` or the `oracle`."""
        result: str | None = self.config.get("compare", {}).get(role, getattr(Compare, role))
        return result


Need = Callable[[Selected], str]
"""What is missing, with a way to add it; "" where nothing is."""


def _evaluated(of: Selected) -> str:
    return "" if of.evaluations() else "its runs only serve others, which no evaluation asks"


def _items(of: Selected) -> str:
    requested = any(one.get("choice") or one.get("tasks") for one in of.evaluations())
    return "" if requested else "no evaluation of its runs asks items: add choice or tasks to one"


def _followed(of: Selected) -> str:
    if any(one["checkpoints"] == "all" for one in of.evaluations()):
        return _beside("baseline")(of)
    return "its runs are evaluated at their end alone: set checkpoints: all in their evaluation"


def _probed(of: Selected) -> str:
    probed = any(run in of.asked and stage_settings.probe(of.config, run) for run in of.runs)
    return "" if probed else "none of its runs is probed: name a probe of them in their scenario"


def _measured(of: Selected) -> str:
    measured = any(_measures(stage_settings.run_settings(of.config, run)) for run in of.runs)
    return "" if measured else "no method of its runs measures gradients, as pike does: add one"


def _measures(run: Mapping[str, Any]) -> bool:
    """Whether a run may measure gradients; of a class of the user's own nothing is known."""
    try:
        need = methods.needs(run).statistics
    except InputError:
        return True  # It is told where settings of methods are judged.
    if need is None:
        return run["rule"] not in RULES
    return need.first < int(run["training"]["steps"])


def _beside(role: str) -> Need:
    """Another method's run of the scenario, model and seed of one of the baseline, or oracle."""

    def lacks(of: Selected) -> str:
        if (named := of.compared(role)) is None:
            return f"it shows differences to compare.{role}: name a method there"
        pairs = ({run, run._replace(method=named)} for run in of.runs if run.method != named)
        result = any(pair <= of.held for pair in pairs)
        needed = f"it needs runs of {named} (compare.{role}) and of another method"
        return "" if result else f"{needed}, of one scenario, model and seed: add them"

    return lacks


def _everywhere(of: Selected) -> str:
    """A method, and one to compare it with, beside the oracle in all of the oracle's scenarios."""
    oracle, baseline = of.compared("oracle"), of.compared("baseline")
    if oracle is None or baseline is None:
        return _beside("oracle")(of)
    for run in of.runs:
        judged = {r.scenario for r in of.held if (r.model, r.method) == (run.model, oracle)}
        for other in {baseline, oracle} - {run.method} if judged else ():
            names = (run.method, other, oracle)
            if {run._replace(scenario=s, method=m) for s in judged for m in names} <= of.held:
                return ""
    needed = f"it needs runs of {oracle} (compare.oracle) and of another method"
    return f"{needed}, of one model and seed in all scenarios of {oracle}: add them"


def _as_papers(scenarios: str, model: str, named: str, *needs: Need) -> Need:
    """Runs that play the paper's (names, separated by spaces) and meet one of the needs."""

    def lacks(of: Selected) -> str:
        roles = set(paper_roles.pairs(of.config))
        sought = {"scenario": scenarios, "model": model, "method": named}

        def plays(run: RunName) -> bool:
            return all(
                any((kind, getattr(run, kind), name) in roles for name in names.split())
                for kind, names in sought.items()
            )

        if not (players := [run for run in of.runs if plays(run)]):
            told = ", ".join(f"{kind} {' or '.join(n.split())}" for kind, n in sought.items())
            return f"none of its runs plays the paper's ({told}): cast one in the section paper"
        missing = [need(dataclasses.replace(of, runs=players)) for need in needs]
        return "" if "" in missing else ", or ".join(missing)

    return lacks


STATIC, LARGE = "mix round-robin random", "gpt2-large"
PIKES = "pike pike-glam-init balanced-pike-tau1 balanced-pike-tau3 balanced-pike-tau5"
OF_MIX = _as_papers("glam", LARGE, "mix", _probed)
NEEDS: Mapping[str, Mapping[str, Need]] = {
    "tables": {
        "accuracy": _items,
        "gradients": _measured,
        "ladder": _beside("oracle"),
        "leaderboard": _everywhere,
        "perplexity": _evaluated,
        "power": _beside("baseline"),
        "speedups": _followed,
    },
    "figures": {
        "differences": _beside("baseline"),
        "gradients": _measured,
        "losses": _evaluated,
        "similarities": _probed,
        "figure1": _as_papers(
            "mc4-en-hi glam", LARGE, f"{STATIC} famo ado glam doremi {PIKES}", _items
        ),
        "figure2": _as_papers("glam", LARGE, STATIC, _items, OF_MIX),
        "figure4": _as_papers("mc4-en-hi-de glam", LARGE, STATIC, _items),
        "figure5": _as_papers("mc4-en-hi-de-zh-fr-ar", LARGE, "mix", _probed),
        "figure6": OF_MIX,
        "figure7": _as_papers("mc4-en-hi", "gpt2-small", "mix pcgrad adatask", _evaluated),
        "figure8": _as_papers("mc4-en-hi-de", LARGE, f"mix {PIKES}"),
    },
}
"""By name. All others are never empty: they show settings, training, theory or the paper."""


def problems(config: Config, origin: str, every: Sequence[RunName]) -> Iterator[str]:
    """Tables and figures that would be empty, or fail, after all training.

    Args:
        config: A configuration whose names are known.
        origin: Where it was set, for messages.
        every: Its runs, those that serve others too.
    """
    requested = frozenset(dependencies.asked(config))
    evaluated = frozenset(dependencies.evaluated(config, every))
    for section, needs in NEEDS.items():
        for name in needs.keys() & config[section].keys():
            chosen = dependencies.selected(every, requested, config[section][name])
            held = evaluated if name in plan.OF_ALL else evaluated & {*chosen}
            # What selects no run is told where selections are judged.
            if chosen and (lacks := needs[name](Selected(config, chosen, held, requested))):
                yield f"{origin}: {section}.{name} would be empty: {lacks}, or take it out"
