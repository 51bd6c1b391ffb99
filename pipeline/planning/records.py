"""What finished work leaves: where its manifests lie, and what a database is built from."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pipeline.runtime.atomic_files import MANIFEST

Settings = dict[str, Any]

PAGES = {
    "index": "Results",
    "tables": "All numbers",
    "paper": "The paper",
    "methods": "Methods",
    "finders": "Finders",
    "provenance": "Provenance",
}
"""The report's pages: files and titles."""


class Made(NamedTuple):
    """What a rule makes, and which of the plan's settings it is made under."""

    manifest: str
    """Where its manifest lies in the output root; {}: its name."""
    artifact: str
    section: str
    part: str = ""
    """The setting that names the peer which does the work."""
    stage: str = ""
    """The stage, where the rule is not called like it."""


MADE = {
    "download": Made("data/{}/manifest.json", "source/{}", "sources", "kind"),
    "tokenizer": Made("tokenizers/{}.json", "tokenizer/{}", "tokenizers"),
    "pack": Made("corpora/{}/manifest.json", "corpus/{}", "corpora"),
    "fetch": Made("tasks/{}/manifest.json", "task/{}", "tasks"),
    "theory": Made("theory/manifest.json", "theory", "theory"),
    "pretrain": Made("runs/{}/manifest.json", "run/{}", "runs", "rule"),
    "mixture": Made("mixtures/{}.json", "mixture/{}", "mixtures", "finder"),
    "evaluate": Made("runs/{}/evaluations/manifest.json", "evaluation/{}", "evaluations"),
    "probe": Made("runs/{}/probes/manifest.json", "probe/{}", "probes"),
    "database": Made("pike.manifest.json", "database", "databases"),
    "database_of_selection": Made(
        "databases/{}.manifest.json", "database/{}", "databases", stage="database"
    ),
    "table": Made("tables/{}.manifest.json", "table/{}", "tables"),
    "figure": Made("figures/{}.manifest.json", "figure/{}", "figures"),
    "report": Made("report/index.manifest.json", "report", "report"),
}
"""By rule, in the order of the data's way."""


def database_settings(experiment: Settings) -> Settings:
    """What decides the content of a database, of all that it is given: folders do not.

    That of all runs holds the configuration, which the report shows. `experiment` is as
    `Plan.experiment` gives it.
    """
    config = shown = experiment["config"]
    if not experiment["whole"]:
        shown = {name: config.get(name) for name in ("compare", "paper")}
    runs = {
        run: {key: value for key, value in values.items() if key != "folder"}
        for run, values in experiment["runs"].items()
    }
    named = {n: sorted(experiment[n]) for n in ("corpora", "sources", "tokenizers", "tasks")}
    return {"config": shown, "methods": [*config.get("methods", [])], "runs": runs, **named}


def manifests_of(experiment: Settings) -> Iterator[tuple[str, str, str]]:
    """Every manifest that a database is built from: the artifact's name, the stage, the place."""
    for stage in ("download", "tokenizer", "pack", "fetch", "mixture"):
        for name, place in experiment[MADE[stage].section].items():
            own = place if place.endswith(".json") else f"{place}/{MANIFEST}"
            yield MADE[stage].artifact.format(name), stage, own
    if experiment["theory"]:
        yield "theory", "theory", f"{experiment['theory']}/{MANIFEST}"
    for run, values in experiment["runs"].items():
        for stage, folder, made in (
            ("pretrain", "", "trained"),
            ("evaluate", "evaluations/", "evaluations"),
            ("probe", "probes/", "probes"),
        ):
            if values[made]:
                place = f"{values['folder']}/{folder}{MANIFEST}"
                yield MADE[stage].artifact.format(run), stage, place
