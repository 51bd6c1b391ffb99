"""The report: pages for reading that need no server and no network, index.html first."""

import contextlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import yaml
from markupsafe import Markup

from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pipeline.planning import manifest_places
from pipeline.planning.configuration import Predictions
from pipeline.planning.manifest_places import PAGES
from pipeline.results import (
    advice,
    board_tests,
    headline,
    labels,
    number_marks,
    report_facts,
    report_parts,
    result_manifests,
)
from pipeline.results.database_reader import (
    DATABASE,
    Row,
    is_of_some_runs,
    open_explaining_missing_views,
    query_rows,
)
from pipeline.results.experiment import Experiment, read_experiment
from pipeline.results.report_facts import REPORT
from pipeline.results.stale_work import find_stale_work
from pipeline.runtime import atomic_files, made_from
from pipeline.runtime.validate_settings import validate

FRONT = ("losses",)
"""Figures that the first page shows."""
OVER_ALL = ("board", "leaderboard", "ladder")
"""Tables over all scenarios that the first page shows."""
CHECKS = ("claims", "audit", "theory")
"""Tables about the paper that it does not have itself."""


def write_report(
    settings: Path, database: Path, tables: Path, figures: Path, index_page: Path
) -> None:
    """Writes the pages, `index_page`, index.html, last and the others beside it.

    `settings` are the experiment's, as of the database; `tables` and `figures` are folders, whose
    files must be what their manifests vouch for.
    """
    # The places are looked at first.
    inputs = [settings, database, tables, figures]
    places = {page: index_page.parent / f"{page}.html" for page in PAGES} | {"index": index_page}
    with contextlib.ExitStack() as opened:
        # What is opened first appears last.
        partials = {
            page: opened.enter_context(atomic_files.atomic_write(place, "report", inputs))
            for page, place in places.items()
        }
        experiment = read_experiment(settings)
        tabled = _configured_or_found_names(experiment.tables, tables, ".csv")
        drawn = _configured_or_found_names(experiment.figures, figures, ".svg")
        shown_files = [tables / f"{name}.csv" for name in tabled]
        shown_files += [figures / f"{name}.svg" for name in drawn]
        folders = {"tables": tables, "figures": figures}
        folder_links = {
            k: Path(os.path.relpath(f, index_page.parent)).as_posix() for k, f in folders.items()
        }
        stood_on = [
            result_manifests.unaltered_manifest_or_itself(database, "database"),
            *map(made_from.manifest_beside, shown_files),
        ]
        snapshot = result_manifests.snapshot_inputs("report", stood_on)
        texts = _page_texts(experiment, database, shown_files, folder_links)
        for page, partial in partials.items():
            partial.write_text(texts[page], encoding="utf-8")
    config = manifest_places.fill_rule_and_finder_defaults(experiment.config)
    made = made_from.manifest_beside(index_page)
    settings_of_it = {"config": config, "rules": experiment.rules}
    snapshot.write_manifest(made, settings=settings_of_it, files=[*places.values()], facts={})


def _page_texts(
    experiment: Experiment, database: Path, shown_files: list[Path], folder_links: dict[str, str]
) -> dict[str, str]:
    with open_explaining_missing_views(database) as connection:
        content = _content_of_all_pages(connection, experiment, shown_files) | {
            "files": folder_links
        }
    # Commands ask the database of all runs, beside one of some.
    asked = database.parents[1] / DATABASE if is_of_some_runs(database) else database
    content["database"] = shlex.quote(str(asked))
    stale = find_stale_work(database)
    # The report itself is being made.
    content["stale"] = stale and [one._asdict() for one in stale if one.artifact != "report"]
    environment = report_parts.load_templates()
    environment.globals["least"] = LEAST_SEEDS
    content["finders"] = report_parts.read_mixture_finders_page()
    content["script"] = Markup((REPORT / "script.js").read_text(encoding="utf-8"))
    return {
        page: environment.get_template(f"{page}.html").render(page=page, pages=PAGES, **content)
        for page in PAGES
    }


def _content_of_all_pages(
    connection: duckdb.DuckDBPyConnection, experiment: Experiment, shown_files: list[Path]
) -> dict[str, Any]:
    """What the pages show, by name."""
    tabled, of_paper = report_parts.split_own_and_paper(
        [report_parts.read_table(path) for path in shown_files if path.suffix == ".csv"]
    )
    drawn, drawn_of_paper = report_parts.split_own_and_paper(
        [report_parts.read_figure(path) for path in shown_files if path.suffix == ".svg"]
    )
    doubts = number_marks.read_doubts_by_method(connection, "report")
    places = advice.read_decisions(connection)
    scenarios = [
        _scenario_facts(connection, experiment, scenario, doubts, tabled)
        for scenario in experiment.scenarios()
    ]
    for place in places:
        place["snippets"] = advice.copyable_snippets(place)
    predictions = []
    if values := experiment.section("predictions"):
        expected = validate(Predictions, values, "predictions")
        differences = query_rows(connection, "from scenario_differences")
        predictions = board_tests.judge_hypotheses(expected.hypotheses, expected.level, differences)
    return _experiment_facts(connection, experiment) | {
        "places": places,
        "picture": headline.headline_picture_facts(places, doubts),
        "scenarios": scenarios,
        "front": [figure for figure in drawn if figure["name"] in FRONT],
        "figures": [figure for figure in drawn if figure["name"] not in FRONT],
        "paper": {"tables": of_paper, "figures": drawn_of_paper},
        "predictions": predictions,
        "over_all": [table for table in tabled if table["name"] in OVER_ALL],
        "checks": [table for table in tabled if table["name"] in CHECKS],
        "general": [
            t for t in _tables_cut_to_scenario(tabled, "") if t["name"] not in CHECKS + OVER_ALL
        ],
    }


def _experiment_facts(
    connection: duckdb.DuckDBPyConnection, experiment: Experiment
) -> dict[str, Any]:
    """What the database says of the experiment as a whole."""
    (overview,) = query_rows(
        connection,
        "select count(*) as runs, count(distinct method) as methods, "
        "count(distinct seed) as seeds, count(distinct scenario) as scenarios, "
        "sum(tokens) as tokens, sum(wall_seconds order by wall_seconds) as seconds, "
        "list_sort(list(distinct device)) as devices from runs",
    )
    return {
        "name": experiment.experiment,
        "baseline": experiment.baseline,
        "labels": labels.method_labels(connection),
        "overview": overview,
        "methods": report_facts.method_rows(connection, experiment.rules),
        "config": yaml.safe_dump(experiment.config, sort_keys=False, allow_unicode=True, width=96),
        "deviations": report_facts.deviation_rows(),
        "claims": report_facts.claim_groups_by_verdict(connection),
        "origins": report_facts.run_groups_with_lineage(connection),
        "sources": report_facts.source_rows(connection),
        "code": report_facts.code_rows_per_stage(connection),
        "versions": report_facts.version_texts(connection),
        "alarms": report_facts.packing_warnings_and_run_alarms(connection),
    }


def _configured_or_found_names(
    configured: Mapping[str, object], folder: Path, suffix: str
) -> list[str]:
    """The experiment's tables or figures in its order; all that lie there if it names none."""
    return list(configured) or sorted(path.stem for path in folder.glob(f"*{suffix}"))


def _scenario_facts(
    connection: duckdb.DuckDBPyConnection,
    experiment: Experiment,
    scenario: str,
    doubts: number_marks.Doubts,
    tabled: list[dict[str, Any]],
) -> dict[str, Any]:
    def rows_of_scenario(rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["scenario"] == scenario]

    models = query_rows(
        connection,
        "select scenario, model, any_value(parameters) as parameters from runs "
        "group by all order by all",
    )
    corpora = query_rows(
        connection,
        "select distinct r.scenario, d.position, c.*, "
        # The search split of a small corpus may be empty.
        "c.bytes / nullif(c.tokens, 0) as bytes_per_token, "
        "100 * c.unknown_tokens / nullif(c.tokens, 0) as unknown_percent from corpora as c "
        "join runs as r on c.tokenizer = r.tokenizer "
        "join domains as d on r.scenario = d.scenario and c.source = d.domain "
        "order by d.position, c.source, c.split",
    )
    tested, labelled = [], labels.method_labels(connection)
    for row in rows_of_scenario(models):
        model, size = row["model"], f"{labels.amount_in_words(row['parameters'])} parameters"
        blocks = report_facts.mean_accuracy_test_blocks(connection, scenario, model)
        marked = {row["method"]: doubts.get((scenario, model, row["method"]), {})
                  for block in blocks for row in block["rows"]}  # fmt: skip
        signs = {method: number_marks.signs_of_marks(found) for method, found in marked.items()}
        notes = number_marks.notes_with_counts(
            {labelled[method]: found for method, found in marked.items()}
        )
        one = {"model": model, "size": size, "blocks": blocks, "signs": signs, "notes": notes}
        tested.append(one)
    about = experiment.section("scenarios").get(scenario, {})
    return {
        "name": scenario,
        "about": about.get("about", "") if isinstance(about, dict) else "",
        "accuracies": tested,
        "corpora": rows_of_scenario(corpora),
        "tables": _tables_cut_to_scenario(tabled, scenario),
    }


def _tables_cut_to_scenario(tabled: list[dict[str, Any]], scenario: str) -> list[dict[str, Any]]:
    """The tables with their blocks of one scenario; those that have some."""
    parts = (
        {**table, "blocks": [b for b in table["blocks"] if b["scenario"] == scenario]}
        for table in tabled
    )
    return [part for part in parts if part["blocks"]]
