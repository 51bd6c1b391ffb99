"""What a plan tells that is no mistake: what nothing uses, what could be better, what is next."""

import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError, names_text, refuse
from pipeline.planning import dependencies, rule_inputs, stage_settings, strict_yaml
from pipeline.planning.configuration import Compare
from pipeline.planning.dependencies import RunName
from pipeline.planning.plan import Plan
from pipeline.runtime import accelerators, atomic_files
from pipeline.runtime.programs import program_command
from pipeline.runtime.validate_settings import validate
from pipeline.settings import GRID, Training


def used_names(plan: Plan) -> dict[str, set[str]]:
    """By section, the names that a run, or something behind one, uses."""
    config, runs = plan.config, [RunName.parse(run) for run in plan.runs]
    result = {f"{key}s": {getattr(r, key) for r in runs} for key in ("scenario", "model", "method")}
    result["training"] = {dependencies.recipe_name(config, run) for run in runs}
    chosen = [config["scenarios"][name] for name in result["scenarios"]]
    keys = {"tokenizers": "tokenizer", "evaluation": "evaluation", "probe": "probe"}
    for section, key in keys.items():
        result[section] = {scenario[key] for scenario in chosen if key in scenario}
    searches = {name.split("/")[2] for name in plan.mixtures}
    result |= {"mixtures": searches, "grids": searches, "tasks": set(plan.tasks)}
    found = [dependencies.mixture_or_grid_settings(config, name) for name in searches]
    result["swarms"] = {search.get("swarm", "") for search in found}
    result["methods"].update(search.get("of", "") for search in found)
    result["sources"] = {corpus.partition("/")[2] for corpus in plan.corpora}
    result["sources"].update(s for t in result["tokenizers"] for s in plan.tokenizer_sources[t])
    return result


def unused_name_hints(plan: Plan, own_config: Mapping[str, Any]) -> list[str]:
    """A line for each of its sections that defines what is not used, or names what no run has.

    `own_config` is the configuration without what it includes, which others may use.
    """
    used, result = used_names(plan), []
    for section, names in used.items():
        if idle := [name for name in own_config.get(section, {}) if name not in names]:
            where = _hint_where_to_add_sources(plan) if section == "sources" else ""
            told = f"defined, and used by no run: {names_text(idle)}{where}"
            result.append(f"{plan.origin}: {section}: {told}")
    for section in ("evaluation", "probe"):
        for name in sorted(used[section].intersection(own_config.get(section, {}))):
            result += _unmatched_curve_and_probe_hints(plan, section, name)
    # Methods are compared with one that has no run.
    baseline = plan.config.get("compare", {}).get("baseline", Compare.baseline)
    methods = {RunName.parse(run).method for run in plan.requested}
    if baseline not in methods and len(methods) > 1:
        result.append(
            f"{plan.origin}: compare.baseline: no run has {baseline}: without it no differences "
            "are shown and nothing is advised: add it to runs, or name another"
        )
    return result


def _hint_where_to_add_sources(plan: Plan) -> str:
    """Where a source is added to the scenarios, if they all name one list of domains."""
    anchors = strict_yaml.anchor_text_by_place(map(Path, plan.files))
    lists = {anchors.get(f"scenarios.{name}.domains", "") for name in plan.config["scenarios"]}
    (place,) = lists if len(lists) == 1 else ("",)
    return f": to use them, add them to the list {place}" if place else ""


def _unmatched_curve_and_probe_hints(
    plan: Plan, evaluation_or_probe: str, name: str
) -> Iterator[str]:
    """A line for each list of an evaluation's curves, or of a probe, with values of no run."""
    scenarios, lists = plan.config["scenarios"], plan.config[evaluation_or_probe][name]
    where = f"{evaluation_or_probe}.{name}"
    if evaluation_or_probe == "evaluation":
        where, lists = f"{where}.curves", lists.get("curves", {})
    runs = [RunName.parse(run).names_by_key() for run in plan.requested]
    for key in (key for key in dependencies.KEYS if key in lists):
        there = {r[key] for r in runs if scenarios[r["scenarios"]].get(evaluation_or_probe) == name}
        if absent := [str(value) for value in lists[key] if value not in there]:
            yield f"{plan.origin}: {where}.{key}: no run of its scenarios has {', '.join(absent)}"


def short_proxy_run_hints(plan: Plan) -> list[str]:
    """A line for each mixture that runs of at most half a training's tokens find by their losses.

    Tested where losses have no target; only there something is told.
    """
    config, told = plan.config, dict[str, None]()
    for name, found in plan.found.items():
        search, run = plan.mixtures[found], RunName.parse(name)
        if search["finder"] == GRID or stage_settings.needs_method_states(search["finder"]):
            continue
        # A plan has no such mixture of runs of several lengths.
        read = dependencies.training_tokens(config, RunName.parse(next(iter(search["proxies"]))))
        trained = dependencies.training_tokens(config, run)
        if 2 * read <= trained and "target" not in config["scenarios"][run.scenario]:
            told[
                f"{plan.origin}: mixtures.{found.split('/')[2]}: runs of {read:,} tokens find it "
                f"for trainings of {trained:,}: in two tests, the best mixture of runs an eighth "
                "as long was worse than equal shares (docs/leaderboard.md); where text was read "
                "many times, no difference was shown (docs/finders.md)"
            ] = None
    return list(told)


def few_document_hints(plan: Plan) -> list[str]:
    """A line for each source of the user's own files with too few documents for validation.

    Files that are missing are told elsewhere. Those that cannot be read, such as one without the
    field of the text, are refused.
    """
    told, problems, inputs = [], [], rule_inputs.RuleInputs(plan)
    for name in sorted(used_names(plan)["sources"]):
        given = inputs.job_inputs("download", name).given
        values = plan.section_entry("sources", name)
        if values["kind"] != "local" or not all(Path(path).is_file() for path in given):
            continue
        # Large libraries, which a plan without such a source does not load.
        from pipeline.data import document_preview, local_files

        place = f"{plan.origin}: sources.{name}"
        source = validate(local_files.LocalSource, values, place)
        try:
            document_preview.refuse_unreadable_first_documents(source)
            # Of a text for the tokenizer alone nothing is scored.
            scored = _rows_and_length_of_fewest_scored_tokens(plan, name)
            few = scored and document_preview.few_or_unequal_documents_warning(
                source, plan.config["packing"]["validation_share"], *scored
            )
        except InputError as error:
            problems.append(f"{place}: {error}")
            continue
        told += [f"{place}: {few}"] if few else []
    refuse(problems)
    return told


def _rows_and_length_of_fewest_scored_tokens(plan: Plan, domain: str) -> tuple[int, int] | None:
    """The rows that evaluations score of a domain, and tokens of each, where they are fewest."""
    scored = [
        (asked["rows"], plan.runs[run]["training"]["length"])
        for run, asked in plan.evaluations.items()
        if domain in plan.domains_read_by(run)
    ]
    return min(scored, key=math.prod, default=None)


def slow_cpu_float32_hints(plan: Plan) -> list[str]:
    """A line where models train in float32 whose products this machine's processor has faster."""
    units = accelerators.bfloat16_cpu_flags()
    wide = {
        run["model_name"]
        for run in plan.runs.values()
        if run["training"].get("precision", Training.precision) == "float32"
        and run["model"].get("width", 0) >= accelerators.BFLOAT16_WIDTH
    }
    if not units or not wide:
        return []
    return [
        f"{plan.origin}: training: this processor multiplies bfloat16 ({', '.join(units)}): with "
        f"`precision: bfloat16` it trains {', '.join(sorted(wide))} faster (docs/training.md)"
    ]


DOMAIN = re.compile(r"domain '([^']*)'")


def merge_similar_doubts(doubts: Sequence[str]) -> list[str]:
    """Doubts about corpora, those that differ in names and numbers alone in one line.

    Such a line has the first one whole, and names the other domains. The corpora's manifests have
    all of them.
    """
    alike: dict[str, list[str]] = {}
    for doubt in dict.fromkeys(doubts):
        known = DOMAIN.search(doubt)
        bare = doubt.replace(known[1], "") if known and known[1] else doubt
        alike.setdefault(re.sub(r"[\d,.]+", "", bare), []).append(doubt)
    result = []
    for first, *others in alike.values():
        names = dict.fromkeys(name for one in others for name in DOMAIN.findall(one))
        like = (
            f" The same holds, with other numbers, for {', '.join(names)}: see manifest.json of "
            "each corpus."
        )
        result.append(first.rstrip(".") + f".{like}" if names else first)
    return result


def finished_workflow_hints(plan: Plan) -> list[str]:
    """What a reader of a finished workflow needs next.

    A line for each kind of doubt about packed corpora, such as little validation text. Where the
    report is there: what to train with (`pike advise --format summary`), and the commands that say
    more.
    """
    manifests = (Path(plan.manifest_path("pack", corpus)) for corpus in plan.corpora)
    made = filter(Path.exists, manifests)
    warnings = (atomic_files.read_json_mapping(manifest).get("warnings", ()) for manifest in made)
    doubts = merge_similar_doubts([doubt for several in warnings for doubt in several])
    report = Path(plan.results, "report", "index.html")
    database = plan.report_database_files().database
    if not report.exists():
        return doubts
    asked = ("advise", database, "--format", "summary")
    # A process of its own: DuckDB is large, and a plan never loads it.
    answer = subprocess.run(
        [sys.executable, "-m", "pipeline", *asked],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    pike = program_command("pike")
    return [
        *doubts,
        *(answer.stdout or answer.stderr).splitlines(),
        f"The report: {report}",
        f"Why, and what is open: {pike} advise {database}",
        f"The paper's claims:    {pike} claims {database}",
        f"How a run was made:    {pike} why run/{plan.requested[0]} --database {database}",
    ]
