"""The output root of an experiment: whose it is, and the settings files that stages read there."""

from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.errors import InputError
from pipeline.planning.runs import Plan

Settings = dict[str, Any]


def claim(plan: Plan, origin: str) -> str:
    """Refuses an output root that another experiment has begun; returns the stamp to write.

    Raises:
        InputError: the root belongs to another configuration.
    """
    stamp = {"experiment": plan.config["experiment"], "configuration": origin}
    path = Path(plan.results, "experiment.json")
    found = files.read_json(path) if path.exists() else stamp
    if found != stamp:
        raise InputError(
            f"{plan.results}/ belongs to the experiment {found['experiment']!r} of "
            f"{found['configuration']}, not to {stamp['experiment']!r} of {origin}: give this "
            f"configuration its own folder (results: ...), or, if it replaces the other for good, "
            f"delete {path}"
        )
    return files.canonical(stamp)


def write_settings(plan: Plan, origin: str) -> None:
    """Writes every settings file whose content changed, and the stamp of the output root.

    Raises:
        InputError: the output root belongs to another configuration.
    """
    claim(plan, origin)
    stamp = {"experiment": plan.config["experiment"], "configuration": origin}
    wanted = {f"{plan.results}/experiment.json": stamp, **plan.settings_files()}
    for name, values in wanted.items():
        if not _holds(Path(name), values):
            files.write_json(Path(name), values)


def _holds(path: Path, values: Settings) -> bool:
    """Whether a settings file is there and whole: a spoiled one is as good as none."""
    try:
        return bool(files.read_json(path) == values)
    except InputError:
        return False
