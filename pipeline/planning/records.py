"""What finished work leaves: where its manifests lie, and what a database is built from."""

from collections.abc import Iterator
from typing import Any

from pipeline.runtime.atomic_files import MANIFEST

Settings = dict[str, Any]

MANIFESTS = {
    "download": "data/{}/manifest.json",
    "tokenizer": "tokenizers/{}.json",
    "pack": "corpora/{}/manifest.json",
    "fetch": "tasks/{}/manifest.json",
    "theory": "theory/manifest.json",
    "pretrain": "runs/{}/manifest.json",
    "mixture": "mixtures/{}.json",
    "evaluate": "runs/{}/evaluations/manifest.json",
    "probe": "runs/{}/probes/manifest.json",
    "database": "pike.manifest.json",
    "database_of_selection": "databases/{}.manifest.json",
    "table": "tables/{}.manifest.json",
    "figure": "figures/{}.manifest.json",
    "report": "report/index.manifest.json",
}
"""Where the manifest of what each rule makes lies in the output root; {}: its name."""


def database_settings(experiment: Settings) -> Settings:
    """What decides the content of a database, of all that it is given: folders do not.

    That of all runs holds the configuration, which the report shows.

    Args:
        experiment: As `Plan.experiment` gives it.
    """
    config = experiment["config"]
    shown = config
    if not experiment["whole"]:
        shown = {name: config.get(name) for name in ("compare", "paper")}
    runs = {
        run: {key: value for key, value in values.items() if key != "folder"}
        for run, values in experiment["runs"].items()
    }
    named = {n: sorted(experiment[n]) for n in ("corpora", "sources", "tokenizers", "tasks")}
    return {"config": shown, "methods": [*config.get("methods", [])], "runs": runs, **named}


def manifests_of(experiment: Settings) -> Iterator[tuple[str, str, str]]:
    """Every manifest that a database is built from: the artifact's name, the stage, the place.

    Args:
        experiment: As `Plan.experiment` gives it.
    """
    for kind, stage, section in (
        ("source", "download", "sources"),
        ("tokenizer", "tokenizer", "tokenizers"),
        ("corpus", "pack", "corpora"),
        ("task", "fetch", "tasks"),
        ("mixture", "mixture", "mixtures"),
    ):
        for name, place in experiment[section].items():
            own = place if place.endswith(".json") else f"{place}/{MANIFEST}"
            yield f"{kind}/{name}", stage, own
    if experiment["theory"]:
        yield "theory", "theory", f"{experiment['theory']}/{MANIFEST}"
    for run, values in experiment["runs"].items():
        for kind, stage, folder, made in (
            ("run", "pretrain", "", "trained"),
            ("evaluation", "evaluate", "evaluations/", "evaluations"),
            ("probe", "probe", "probes/", "probes"),
        ):
            if values[made]:
                yield f"{kind}/{run}", stage, f"{values['folder']}/{folder}{MANIFEST}"
