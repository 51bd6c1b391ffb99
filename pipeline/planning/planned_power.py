"""How large a difference the planned seeds and items can show, before any of it runs."""

from collections import Counter

from pike_mixing.comparison.detectable import LEVEL, POWER, detectable
from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pipeline.planning import paper_roles
from pipeline.planning.dependencies import RunName
from pipeline.planning.plan import Plan

DISCORDANCE = 0.2
"""Share of items on which just one of two methods is right, until it is measured."""


def _known_items() -> dict[str, int]:
    """Items of the downstream tasks of which the paper, or its data set, says how many."""
    return {row["task"]: int(row["items"]) for row in paper_roles.rows("items")}


def items(plan: Plan, run: str) -> list[int]:
    """Items of each task that a run's last checkpoint is asked, as far as it is known."""
    evaluation = plan.evaluations.get(run, {})
    choice = evaluation.get("choice")
    own = [] if choice is None else [choice["items"]] * len(plan.runs[run]["domains"])
    requested = {entry["task"] for entry in evaluation.get("tasks", [])}
    return own + [_known_items()[task] for task in sorted(requested) if task in _known_items()]


def by_items(counts: list[int]) -> float | None:
    """The error of a mean over tasks from the choice of items, in points; None without items."""
    if not counts:
        return None
    return 100 * sum(DISCORDANCE / count for count in counts) ** 0.5 / len(counts)


def rows(plan: Plan) -> list[tuple[str, ...]]:
    """Titles, and a row for the comparisons with the baseline that share size and seeds."""
    baseline = (plan.config.get("compare") or {}).get("baseline", "mix")
    seeds, first = Counter[tuple[str, str, str]](), dict[tuple[str, str], str]()
    runs = dict.fromkeys(map(RunName.parse, plan.requested))
    for run in runs:
        if run.method != baseline and run._replace(method=baseline) in runs:
            seeds[run[:3]] += 1
            first.setdefault(run[:2], str(run))
    alike = Counter((scenario, model, n) for (scenario, model, _), n in seeds.items())
    result: list[tuple[str, ...]] = [
        ("against " + baseline, "methods", "seeds", "seed SDs", "items", "points by items")
    ]
    for (scenario, model, n), methods in alike.items():
        counts = items(plan, first[scenario, model])
        error = by_items(counts)
        result.append(
            (
                f"{scenario}/{model}",
                str(methods),
                str(n),
                f"{detectable(1.0, n):.2f}" if n >= LEAST_SEEDS else "-",
                f"{sum(counts):,}",
                "" if error is None else f"{detectable(0.0, 2, error):.1f}",
            )
        )
    return result


NOTE = (
    f"smallest differences that the planned runs show with probability {POWER:g} at level "
    f"{LEVEL:g}: over seeds, in\nstandard deviations of the seeds' differences (a verdict needs "
    f"{LEAST_SEEDS} seeds), and by items alone, of\nwhich two methods answer "
    f"{DISCORDANCE:.0%} differently; `pike power` has other numbers"
)
