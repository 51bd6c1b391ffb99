"""The report: one page with everything, for reading, that needs no server and no network."""

import base64
import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import yaml
from markupsafe import Markup

from pike_mixing.errors import InputError
from pipeline.results import experiment, inline, marks, provenance, views
from pipeline.results.drawing import INK
from pipeline.results.provenance import REPORT, counted
from pipeline.results.selection import Row, connect_ours, query
from pipeline.runtime import atomic_files, manifests

FIGURE = {
    "name": str,
    "caption": str,
    "lines": str,
    "svg_sha256": str,
    "legend": [{"key": str, "colour": str}],
    "panels": [{"id": str, "scenario": str, "model": str, "box": list, "series": list}],
}
"""What is read of a figure's numbers."""


def write(settings: Path, database: Path, tables: Path, figures: Path, out: Path) -> None:
    """Writes the page.

    Args:
        settings: The experiment's settings, those of the database.
        database: The experiment's database.
        tables: Folder of the tables' .csv files.
        figures: Folder of the figures' .svg and .json files.
        out: The page.

    Raises:
        InputError: a table or figure of the experiment is missing; the message says what to run.
    """
    # The place is looked at first.
    inputs = [settings, database, tables, figures]
    with atomic_files.atomic_write(out, "report", inputs) as partial:
        partial.write_text(_page(settings, database, tables, figures), encoding="utf-8")


def _page(settings: Path, database: Path, tables: Path, figures: Path) -> str:
    named = experiment.read(settings)
    connection = connect_ours(database)
    try:
        page = _content(connection, named, tables, figures)
    finally:
        connection.close()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(REPORT),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["counted"] = counted
    environment.filters["titled"] = _titled
    return environment.get_template("page.html").render(
        style=Markup((REPORT / "style.css").read_text(encoding="utf-8")),
        script=Markup((REPORT / "script.js").read_text(encoding="utf-8")),
        **page,
    )


def _content(
    connection: duckdb.DuckDBPyConnection,
    named: experiment.Experiment,
    tables: Path,
    figures: Path,
) -> dict[str, Any]:
    tabled, of_paper = _sorted(
        [read_table(tables / f"{n}.csv") for n in _names(named.tables, tables, ".csv")]
    )
    drawn, drawn_of_paper = _sorted(
        [read_figure(figures, name) for name in _names(named.figures, figures, ".json")]
    )
    (overview,) = query(
        connection,
        "select count(*) as runs, count(distinct method) as methods, "
        "count(distinct seed) as seeds, count(distinct scenario) as scenarios, "
        "sum(tokens) as tokens, sum(wall_seconds) as seconds, "
        "list_sort(list(distinct device)) as devices from runs",
    )
    return {
        "name": named.experiment,
        "baseline": named.baseline,
        "overview": overview,
        "scenarios": [_scenario(connection, named, s, tabled, drawn) for s in named.scenarios()],
        "paper": {"tables": of_paper, "figures": [_legend(figure) for figure in drawn_of_paper]},
        "claims": provenance.claims(connection),
        "general": _part(tabled, ""),
        "config": yaml.safe_dump(named.config, sort_keys=False, allow_unicode=True, width=96),
        "made": provenance.made(connection),
        "sources": provenance.sources(connection),
        "code": provenance.code(connection),
        "versions": provenance.versions(connection),
        "stale": query(connection, "select * from stale"),
        "alarms": provenance.alarms(connection),
        "deviations": provenance.deviations(),
        "data": {figure["name"]: _data(figure) for figure in drawn + drawn_of_paper},
    }


def _names(given: Mapping[str, object], folder: Path, suffix: str) -> list[str]:
    """The experiment's tables or figures in its order; all that lie there if it names none."""
    names = list(given) or sorted(path.stem for path in folder.glob(f"*{suffix}"))
    for name in names:
        if not (folder / f"{name}{suffix}").is_file():
            made = ".md" if suffix == ".csv" else ".svg"
            raise InputError(
                f"{folder / name}{suffix} does not exist: make it with "
                f"`snakemake --cores 2 --force {folder / name}{made}`"
            )
    return names


def _titled(name: str) -> str:
    """A table's or figure's name as a title: Table 1, Perplexity."""
    return re.sub(r"(?<=[a-z])(?=\d)", " ", name).capitalize()


def _sorted(made: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Our own tables or figures, and those of the paper, each in the experiment's order."""
    ours: list[dict[str, Any]] = []
    paper: list[dict[str, Any]] = []
    for one in made:
        (paper if re.fullmatch(r"(table|figure)\d+", one["name"]) else ours).append(one)
    return ours, paper


def _scenario(
    connection: duckdb.DuckDBPyConnection,
    named: experiment.Experiment,
    scenario: str,
    tabled: list[dict[str, Any]],
    drawn: list[dict[str, Any]],
) -> dict[str, Any]:
    def of(sql: str) -> list[Row]:
        return [r for r in query(connection, sql) if r["scenario"] == scenario]

    verdicts = [
        {**row, "sentence": provenance.sentence(row), "aside": provenance.aside(row)}
        for row in of("select * from verdicts")
    ]
    differences = of(
        "select d.* from method_differences as d join methods as m on d.method = m.method "
        "join experiment as e on d.against = e.baseline "
        "where d.nll_high is not null order by d.model, m.position"
    )
    doubts = marks.doubts(connection, "report")
    for verdict in verdicts:
        model = verdict["model"]
        same = [row for row in differences if row["model"] == model]
        verdict["intervals"] = provenance.intervals(same)
        verdict["accuracies"] = provenance.accuracies(connection, scenario, model)
        compared = [verdict["intervals"], *(block["rows"] for block in verdict["accuracies"])]
        marked = {row["method"]: doubts.get((scenario, model, row["method"]), set())
                  for rows in compared for row in rows}  # fmt: skip
        verdict["signs"] = {method: marks.signs(found) for method, found in marked.items()}
        verdict["notes"] = marks.notes(set().union(*marked.values()))
    about = named.section("scenarios").get(scenario, {})
    parts = [{**f, "panels": [p for p in f["panels"] if p["scenario"] == scenario]} for f in drawn]
    return {
        "name": scenario,
        "about": about.get("about", "") if isinstance(about, dict) else "",
        "verdicts": verdicts,
        "methods": provenance.methods(connection, scenario, named.rules),
        "corpora": of(
            "select distinct r.scenario, d.position, c.* from corpora as c "
            "join runs as r on c.tokenizer = r.tokenizer "
            "join domains as d on r.scenario = d.scenario and c.source = d.domain "
            "order by d.position, c.source, c.split"
        ),
        "tables": _part(tabled, scenario),
        "figures": [_legend(part) for part in parts if part["panels"]],
    }


def _part(tabled: list[dict[str, Any]], scenario: str) -> list[dict[str, Any]]:
    """The tables with their blocks of one scenario; those that have some."""
    parts = (
        {**table, "blocks": [b for b in table["blocks"] if b["scenario"] == scenario]}
        for table in tabled
    )
    return [part for part in parts if part["blocks"]]


def read_table(path: Path) -> dict[str, Any]:
    """A table's .csv file as the page shows it, with the file itself for download."""
    text = path.read_text(encoding="utf-8")
    found = list(csv.DictReader(io.StringIO(text)))
    return {
        "name": path.stem,
        "caption": views.caption(views.of(f"table_{path.stem}")),
        "notes": marks.notes([m for m in marks.NOTES if any(row[m] == "1" for row in found)]),
        "blocks": [
            _block([row for row in found if row["section"] == section])
            for section in dict.fromkeys(row["section"] for row in found)
        ],
        "download": "data:text/csv;base64," + base64.b64encode(text.encode()).decode(),
    }


def _block(rows: list[dict[str, str]]) -> dict[str, Any]:
    headers = list(dict.fromkeys(row["column"] for row in rows))
    cells = {(row["row"], row["column"]): _cell(row) for row in rows}
    labels = dict.fromkeys((row["row"], row["kind"]) for row in rows)
    made = {row["row"]: provenance.anchor(row["runs"].split()) for row in rows if row["runs"]}
    scenario = rows[0]["scenario"]
    words = set(headers) - {row["column"] for row in rows if row["value"]}
    return {
        "label": rows[0]["section"].removeprefix(f"{scenario} / "),
        "scenario": scenario,
        "headers": [(*_header(header), header in words) for header in headers],
        "lines": [
            (label, kind, made.get(label), [(cells[label, h], h in words) for h in headers])
            for label, kind in labels
        ],
    }


def _header(text: str) -> tuple[str, str]:
    """A column's name and its unit."""
    found = re.fullmatch(r"(.*) \((.*)\)", text)
    return (found[1], found[2]) if found else (text, "")


def _cell(row: dict[str, str]) -> dict[str, Any]:
    value, _, error = row["shown"].partition(" ± ")
    found = [mark for mark in marks.NOTES if row[mark] == "1"]
    return {
        "value": value,
        "error": error,
        "made": provenance.anchor(row["runs"].split()),
        "signs": marks.signs(found) if value else "",
        **{mark: mark in found for mark in marks.NOTES},
    }


def read_figure(folder: Path, name: str) -> dict[str, Any]:
    """A figure's data with the SVG of each panel, which becomes a part of the page.

    Raises:
        InputError: the SVG is missing or is not the one that was drawn, or its data are not whole.
    """
    data, path = atomic_files.read_json(folder / f"{name}.json"), folder / f"{name}.svg"
    remake = f"make it with `snakemake --cores 2 --force {path}`"
    if not path.is_file():
        raise InputError(f"{path} does not exist: {remake}")
    manifests.require(data, FIGURE, folder / f"{name}.json", remake)
    if atomic_files.sha256(path) != data["svg_sha256"]:
        raise InputError(f"{path} was changed since it was drawn: {remake}")
    pieces = inline.panels(path.read_text(encoding="utf-8"), data)
    data["panels"] = [{**panel, "svg": Markup(pieces[panel["id"]])} for panel in data["panels"]]
    return data


def _legend(part: dict[str, Any]) -> dict[str, Any]:
    """The figure with the legend's entries that its panels show."""
    shown = {series["key"] for panel in part["panels"] for series in panel["series"]}
    colours = (
        {**entry, "colour": "currentColor" if entry["colour"] == INK else entry["colour"]}
        for entry in part["legend"]
        if entry["key"] in shown
    )
    return {**part, "legend": list(colours)}


def _data(figure: dict[str, Any]) -> dict[str, Any]:
    """What the page's script needs of a figure."""
    panels = [{k: v for k, v in p.items() if k not in ("svg", "box")} for p in figure["panels"]]
    return {"legend": figure["legend"], "panels": panels}
