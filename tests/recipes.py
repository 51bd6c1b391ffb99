"""What tests give: settings as a file, wildcards, a recipe of a few rows at a constant rate."""

from types import SimpleNamespace

from pipeline import settings
from pipeline.runtime import atomic_files


def written(path, values):
    """The path of a settings file, with these values in it."""
    atomic_files.write_json(path, values)
    return path


def of_run(run):
    """Wildcards of a rule whose jobs are of a run, as Snakemake gives them."""
    return SimpleNamespace(run=run, items=lambda: [("run", run)])


def recipe(**changes):
    """The recipe, with changes."""
    rates = dict.fromkeys(("peak", "initial", "final"), 0.01)
    return settings.Training(
        **{"rows": 4, "length": 8, "steps": 10, "warmup_steps": 0}
        | {"checkpoint_every": 1, "resume_every": 1}
        | {f"{name}_learning_rate": rate for name, rate in rates.items()}
        | changes
    )
