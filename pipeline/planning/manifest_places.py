"""What finished work leaves: where its manifests lie, and what a database is built from."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pike_mixing.finders import build_finder as finders
from pipeline.planning import methods, normal_form
from pipeline.planning.configuration import Compare
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

OF_PAPER = (
    *("figure1", "figure2", "figure3", "table1", "table2", "table3", "table4", "table5", "table6"),
    *("table7", "figure4", "figure5", "figure6", "figure7", "table8", "table9", "table10"),
    *("table11", "table12", "table13", "table14", "figure8"),
)
"""The paper's tables and figures, in its order."""


class RuleOutput(NamedTuple):
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
    "download": RuleOutput("data/{}/manifest.json", "source/{}", "sources", "kind"),
    "tokenizer": RuleOutput("tokenizers/{}.json", "tokenizer/{}", "tokenizers"),
    "pack": RuleOutput("corpora/{}/manifest.json", "corpus/{}", "corpora"),
    "fetch": RuleOutput("tasks/{}/manifest.json", "task/{}", "tasks"),
    "theory": RuleOutput("theory/manifest.json", "theory", "theory"),
    "pretrain": RuleOutput("runs/{}/manifest.json", "run/{}", "runs", "rule"),
    "mixture": RuleOutput("mixtures/{}.json", "mixture/{}", "mixtures", "finder"),
    "evaluate": RuleOutput("runs/{}/evaluations/manifest.json", "evaluation/{}", "evaluations"),
    "probe": RuleOutput("runs/{}/probes/manifest.json", "probe/{}", "probes"),
    "database": RuleOutput("pike.manifest.json", "database", "databases"),
    "database_of_selection": RuleOutput(
        "databases/{}.manifest.json", "database/{}", "databases", stage="database"
    ),
    "table": RuleOutput("tables/{}.manifest.json", "table/{}", "tables"),
    "figure": RuleOutput("figures/{}.manifest.json", "figure/{}", "figures"),
    "article": RuleOutput("article/index.manifest.json", "article", "article"),
    "report": RuleOutput("report/index.manifest.json", "report", "report"),
}
"""By rule, in the order of the data's way."""


class ListedManifest(NamedTuple):
    """A manifest that a database is built from."""

    artifact: str
    stage: str
    path: str


def database_settings(experiment: Settings) -> Settings:
    """What decides the content of a database, of all that it is given: folders do not.

    That of all runs holds the configuration, which the report shows. `experiment` is as
    `Plan.database_settings_of_selection` gives it.
    """
    config = fill_rule_and_finder_defaults(experiment["config"])
    runs = {
        run: {key: value for key, value in values.items() if key != "folder"}
        for run, values in experiment["runs"].items()
    }
    read = config if experiment["whole"] else _config_read_by_database(config, runs)
    named = {n: sorted(experiment[n]) for n in ("corpora", "sources", "tokenizers", "tasks")}
    views = {"views": v} if (v := experiment.get("views")) is not None else {}
    methods = [*config.get("methods", [])]
    return {"config": read, "methods": methods, "runs": runs, **named, **views}


def fill_rule_and_finder_defaults(config: Settings) -> Settings:
    """A plan's configuration, as it is compared: with the defaults of rules and finders, too.

    Sections that others wrote, in another shape, stay as they are.
    """
    sections = ("methods", "scenarios", "mixtures")
    own = {name: config[name] for name in sections if isinstance(config.get(name), dict)}
    named = {name: one for name, one in own.get("methods", {}).items() if "rule" in one}
    full = {name: methods.fill_method_defaults(one) for name, one in named.items()}

    def keep_changed_method_settings(scenario: Settings) -> Settings:
        """Of what it lays over methods, that by which it changes them."""
        result: Settings = {}
        for name, over in scenario["methods"].items():
            whole = methods.fill_method_defaults({**named[name], **over})
            if other := {key: one for key, one in whole.items() if full[name].get(key) != one}:
                result[name] = other
        return {**scenario, "methods": result}

    def fill_finder_options(mixture: Settings) -> Settings:
        options = mixture.get("options", {})
        kind = finders.finder_class(mixture["finder"])
        return {**mixture, "options": normal_form.fill_top_level_class_defaults(kind, options)}

    result = {**config}
    if "methods" in own:
        result["methods"] = {**own["methods"], **full}
    if {"methods", "scenarios"} <= own.keys():
        listed = own["scenarios"].items()
        result["scenarios"] = {
            n: keep_changed_method_settings(one) if "methods" in one else one for n, one in listed
        }
    if "mixtures" in own:
        result["mixtures"] = {
            name: fill_finder_options(one) for name, one in own["mixtures"].items()
        }
    return result


def _config_read_by_database(config: Settings, runs: Settings) -> Settings:
    """What the database of these runs reads of the configuration.

    Of a scenario that is what its runs do not record; of `runs`, which methods and seeds are asked
    for, since tests are corrected over these; of methods, what they are labelled by. Sources stand
    in manifests that the database is made from.
    """
    ran = [values["settings"] for values in runs.values()]
    methods, seeds = {one["method_name"] for one in ran}, {one["seed"] for one in ran}
    asked: dict[str, set[int]] = {}
    for entry in config.get("runs", ()):
        for method in methods.intersection(entry["methods"]):
            asked.setdefault(method, set()).update(seeds.intersection(entry["seeds"]))
    known, scenarios = config.get("methods", {}), config.get("scenarios", {})
    reference = config.get("compare", {}).get("baseline", Compare.baseline)
    # One is told apart from the method that is called like its rule.
    rules = {one["rule"] for one in ran} | {known.get(reference, {}).get("rule")}
    words = ("about", "like", "target")
    return {
        **{name: config.get(name) for name in ("compare", "paper")},
        "scenarios": {
            name: {word: scenarios.get(name, {}).get(word) for word in words}
            for name in sorted({one["scenario"] for one in ran})
        },
        "asked": {method: sorted(some) for method, some in asked.items()},
        "methods": {name: known[name] for name in known if name in {*methods, *rules, reference}},
    }


def database_manifests(experiment: Settings) -> Iterator[ListedManifest]:
    """Every manifest that a database is built from."""
    for stage in ("download", "tokenizer", "pack", "fetch", "mixture"):
        for name, place in experiment[MADE[stage].section].items():
            own = place if place.endswith(".json") else f"{place}/{MANIFEST}"
            yield ListedManifest(MADE[stage].artifact.format(name), stage, own)
    if experiment["theory"]:
        yield ListedManifest("theory", "theory", f"{experiment['theory']}/{MANIFEST}")
    for run, values in experiment["runs"].items():
        for stage, folder, made in (
            ("pretrain", "", "trained"),
            ("evaluate", "evaluations/", "evaluations"),
            ("probe", "probes/", "probes"),
        ):
            if values[made]:
                place = f"{values['folder']}/{folder}{MANIFEST}"
                yield ListedManifest(MADE[stage].artifact.format(run), stage, place)
