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
from pipeline.planning import outdated, records
from pipeline.planning.configuration import Predictions
from pipeline.planning.records import PAGES
from pipeline.results import (
    board_tests,
    decisions,
    display,
    experiment,
    labels,
    picture,
    provenance,
    report_parts,
    result_manifests,
)
from pipeline.results.provenance import REPORT
from pipeline.results.selection import Row, open_current_version, query
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
    """Writes the pages, `index_page` last.

    Args:
        settings: The experiment's settings, those of the database.
        database: The experiment's database.
        tables: Folder of the tables.
        figures: Folder of the figures.
        index_page: The first page, index.html; the others are written beside it.

    Raises:
        InputError: a table or figure of the experiment is missing, or is not what its manifest
            vouches for; the message says what to run.
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
        named = experiment.read_experiment(settings)
        read = [tables / f"{name}.md" for name in _output_names(named.tables, tables, ".md")]
        read += [figures / f"{name}.svg" for name in _output_names(named.figures, figures, ".svg")]
        folders = {"tables": tables, "figures": figures}
        files = {
            k: Path(os.path.relpath(f, index_page.parent)).as_posix() for k, f in folders.items()
        }
        stood_on = [
            result_manifests.manifest_or_file(database, "database"),
            *map(made_from.manifest_beside, read),
        ]
        taken = result_manifests.take_inputs("report", stood_on)
        texts = _page_texts(named, database, read, files)
        for page, partial in partials.items():
            partial.write_text(texts[page], encoding="utf-8")
    under = {"config": records.fill_config_defaults(named.config), "rules": named.rules}
    result_manifests.write_result_manifest(index_page, taken, under, places.values())


def _page_texts(
    named: experiment.Experiment, database: Path, read: list[Path], files: dict[str, str]
) -> dict[str, str]:
    with open_current_version(database) as connection:
        content = _page_content(connection, named, read) | {"files": files}
        content["database"] = shlex.quote(str(_database_of_all_runs(database)))
        compared = outdated.compare_results(*database.absolute().parents[:2])
    # The report itself is being made.
    every = (
        (one for one in compared.own_differences() if one.artifact != "report")
        if compared
        else None
    )
    content["stale"] = None if every is None else [one._asdict() for one in every]
    environment = report_parts.load_templates()
    environment.globals["least"] = LEAST_SEEDS
    content["script"] = Markup((REPORT / "script.js").read_text(encoding="utf-8"))
    return {
        page: environment.get_template(f"{page}.html").render(page=page, pages=PAGES, **content)
        for page in PAGES
    }


def _database_of_all_runs(database: Path) -> Path:
    """The database of all runs, which commands ask, beside one of some runs."""
    inside = database.parent.name == "databases"
    return database.parent.with_name("pike.duckdb") if inside else database


def _page_content(
    connection: duckdb.DuckDBPyConnection, named: experiment.Experiment, read: list[Path]
) -> dict[str, Any]:
    """What the pages show, by name."""
    tabled, of_paper = report_parts.split_own_and_paper(
        [report_parts.read_table(path.with_suffix(".csv")) for path in read if path.suffix == ".md"]
    )
    drawn, drawn_of_paper = report_parts.split_own_and_paper(
        [report_parts.read_figure(path) for path in read if path.suffix == ".svg"]
    )
    doubts, places = display.read_doubts(connection, "report"), decisions.read_decisions(connection)
    scenarios = [
        _scenario_content(connection, named, scenario, doubts, tabled)
        for scenario in named.scenarios()
    ]
    for place in places:
        place["snippets"] = decisions.copyable_snippets(place)
    return _experiment_facts(connection, named) | {
        "places": places,
        "picture": picture.picture_blocks(places, doubts),
        "scenarios": scenarios,
        "front": [figure for figure in drawn if figure["name"] in FRONT],
        "figures": [figure for figure in drawn if figure["name"] not in FRONT],
        "paper": {"tables": of_paper, "figures": drawn_of_paper},
        "predictions": _prediction_rows(connection, named),
        "over_all": [table for table in tabled if table["name"] in OVER_ALL],
        "checks": [table for table in tabled if table["name"] in CHECKS],
        "general": [
            t for t in _tables_of_scenario(tabled, "") if t["name"] not in CHECKS + OVER_ALL
        ],
    }


def _prediction_rows(
    connection: duckdb.DuckDBPyConnection, named: experiment.Experiment
) -> list[Row]:
    """What a registration expected, beside its outcome."""
    if not (values := named.section("predictions")):
        return []
    asked = validate(Predictions, values, "predictions")
    differences = query(connection, "from scenario_differences")
    return board_tests.judge_hypotheses(asked.hypotheses, asked.level, differences)


def _experiment_facts(
    connection: duckdb.DuckDBPyConnection, named: experiment.Experiment
) -> dict[str, Any]:
    """What the database says of the experiment as a whole."""
    (overview,) = query(
        connection,
        "select count(*) as runs, count(distinct method) as methods, "
        "count(distinct seed) as seeds, count(distinct scenario) as scenarios, "
        "sum(tokens) as tokens, sum(wall_seconds order by wall_seconds) as seconds, "
        "list_sort(list(distinct device)) as devices from runs",
    )
    return {
        "name": named.experiment,
        "baseline": named.baseline,
        "labels": labels.method_labels(connection),
        "overview": overview,
        "methods": provenance.method_rows(connection, named.rules),
        "config": yaml.safe_dump(named.config, sort_keys=False, allow_unicode=True, width=96),
        "deviations": provenance.deviation_rows(),
        "claims": provenance.claim_rows(connection),
        "origins": provenance.origin_rows(connection),
        "sources": provenance.source_rows(connection),
        "code": provenance.code_rows(connection),
        "versions": provenance.version_texts(connection),
        "alarms": provenance.alarm_rows(connection),
    }


def _output_names(given: Mapping[str, object], folder: Path, suffix: str) -> list[str]:
    """The experiment's tables or figures in its order; all that lie there if it names none."""
    return list(given) or sorted(path.stem for path in folder.glob(f"*{suffix}"))


def _scenario_content(
    connection: duckdb.DuckDBPyConnection,
    named: experiment.Experiment,
    scenario: str,
    doubts: display.Doubts,
    tabled: list[dict[str, Any]],
) -> dict[str, Any]:
    def own(sql: str) -> list[Row]:
        return [r for r in query(connection, sql) if r["scenario"] == scenario]

    models = own("select scenario, model, any_value(parameters) as parameters from runs "
                 "group by all order by all")  # fmt: skip
    tested, labelled = [], labels.method_labels(connection)
    for row in models:
        model, size = row["model"], f"{labels.format_amount(row['parameters'])} parameters"
        blocks = provenance.accuracy_blocks(connection, scenario, model)
        marked = {row["method"]: doubts.get((scenario, model, row["method"]), {})
                  for block in blocks for row in block["rows"]}  # fmt: skip
        signs = {method: display.signs_of_marks(found) for method, found in marked.items()}
        notes = display.notes_with_counts(
            {labelled[method]: found for method, found in marked.items()}
        )
        one = {"model": model, "size": size, "blocks": blocks, "signs": signs, "notes": notes}
        tested.append(one)
    about = named.section("scenarios").get(scenario, {})
    return {
        "name": scenario,
        "about": about.get("about", "") if isinstance(about, dict) else "",
        "accuracies": tested,
        "corpora": own(
            "select distinct r.scenario, d.position, c.*, "
            # The search split of a small corpus may be empty.
            "c.bytes / nullif(c.tokens, 0) as bytes_per_token, "
            "100 * c.unknown_tokens / nullif(c.tokens, 0) as unknown_percent from corpora as c "
            "join runs as r on c.tokenizer = r.tokenizer "
            "join domains as d on r.scenario = d.scenario and c.source = d.domain "
            "order by d.position, c.source, c.split"
        ),
        "tables": _tables_of_scenario(tabled, scenario),
    }


def _tables_of_scenario(tabled: list[dict[str, Any]], scenario: str) -> list[dict[str, Any]]:
    """The tables with their blocks of one scenario; those that have some."""
    parts = (
        {**table, "blocks": [b for b in table["blocks"] if b["scenario"] == scenario]}
        for table in tabled
    )
    return [part for part in parts if part["blocks"]]
