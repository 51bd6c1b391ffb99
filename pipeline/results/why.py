"""The chain behind an artifact, down to the text's revision and the code."""

import difflib
import functools
import json
import logging
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError, names_text
from pike_mixing.setting_messages import unknown_name_message
from pipeline.planning import output_root
from pipeline.results import number_marks, sql_views
from pipeline.results.database_reader import (
    Row,
    given_or_default_database,
    has_no_unselected_value,
    is_of_some_runs,
    log_database_and_staleness,
    open_explaining_missing_views,
    query_rows,
    whole_database_path_or_command,
)
from pipeline.results.stale_work import find_stale_work
from pipeline.runtime import output_formats
from pipeline.runtime.programs import program_command

log = logging.getLogger("pike")

KINDS = ("table", "figure")
LINEAGE = """
    select artifact, path, sha256, produced_by, inputs, settings, code_fingerprint, code_commit,
        facts
    from lineage
"""
FACTS = ("revision", "licence", "device", "weights_sha256", "data_fingerprint")
"""Facts of a manifest that the tree shows."""
RUN_VALUES = {
    "table_perplexity": "select run, domain, perplexity from validation where final and ",
    "table_accuracy": "select run, task, shots, formulation, metric, value from run_accuracies "
    "where ",
}
"""Of views without a column `run_values`: where the values of each run are."""
MANY = 8
"""Artifacts of one kind beside each other that are all unfolded."""


def explain_artifact(
    artifact: str, database: Path | None = None, format: str = "text", row: str | None = None
) -> str:
    """What the artifact was made from, by which code, from which revision.

    What occurs a second time is named with `(above)` and not unfolded again. Of many artifacts of
    one kind that something was made from, such as the evaluations of a table, those are unfolded
    that lead to another text or are out of date; the others are counted, or with `row` named.

    Args:
        artifact: A table or figure, by its file or name; or a stable name: table/perplexity,
            figure/losses, run/..., checkpoint/.../step800, evaluation/..., probe/..., corpus/...,
            tokenizer/..., source/...
        database: The experiment's; absent: as `given_or_default_database` has it.
        format: text, an indented tree, or json: a list of the chain's artifacts, each once.
        row: Of a table, the method or the label of a row: what that row alone was made from.
    """
    database = given_or_default_database(database)
    named, numbers, values = {}, list[str](), dict[str, list[str]]()
    with open_explaining_missing_views(database) as connection:
        log_database_and_staleness(connection, database)
        lineage = {
            made["artifact"]: made | {"facts": json.loads(made["facts"] or "{}")}
            for made in query_rows(connection, LINEAGE)
        }
        _refuse_claim(connection, artifact)
        if artifact not in lineage:
            # A file of `tables/` or `figures/`, or its name.
            same = [n for n in lineage if n.partition("/")[2] == Path(artifact).stem]
            if len(same) != 1:
                raise InputError(_unknown_artifact_message(artifact, list(lineage)))
            (artifact,) = same
        if row is not None:
            cells = _cells_of_row(connection, lineage[artifact], row)
            inputs = _inputs_of_row(connection, lineage[artifact], cells, row)
            numbers = _number_lines_of_row(cells, _view_name(lineage[artifact]), database)
            values = _own_value_texts_by_run(cells)
            lineage[artifact] |= {"inputs": inputs}
            named = {artifact: row}
    made = lineage[artifact]
    if is_of_some_runs(database) and made["produced_by"] in KINDS and not made["inputs"]:
        read = sql_views.base_tables(_view_name(made))
        if not all(name.startswith("paper") for name in read):
            whole = whole_database_path_or_command(database)
            log.warning("%s holds no run that %s is of: ask %s", database, artifact, whole)
    stale: dict[str, list[str]] = {}
    for one in find_stale_work(database) or ():
        stale.setdefault(one.artifact, []).append(one.reason)
    tree = _LineageTree(lineage, stale, named, values)
    if format == "json":
        return output_formats.json_csv_or_text(format, tree.artifact_and_ancestors(artifact), str)
    folder = database.parents[1] if is_of_some_runs(database) else database.parent

    def as_text() -> str:
        lines = [*numbers, *tree.lines(artifact)]
        if output_root.origin_archive_path(folder):
            lines.append(
                f"{folder} was restored: it has no files of runs and corpora, only their SHA-256"
            )
        return "\n".join(lines)

    return output_formats.json_csv_or_text(format, None, as_text)


def _refuse_claim(connection: duckdb.DuckDBPyConnection, artifact: str) -> None:
    """Refuses the name of a claim, with or without the word, and says which commands lead on."""
    claim = artifact.removeprefix("claim/")
    known = query_rows(connection, "select claim from paper_claims")
    if claim != artifact or {"claim": claim} in known:
        pike = program_command("pike")
        raise InputError(
            f"{artifact} is a claim, not an artifact: `{pike} claims --claim {claim}` prints our "
            f"number and the comparison, `{pike} why table/claims` what the claims were tested on"
        )


def _view_name(made: Row) -> str:
    """The view that gives a table or figure."""
    own: str | None = json.loads(made["settings"] or "{}").get("query")
    return own or sql_views.view_of(made["artifact"].replace("/", "_", 1))


def _cells_of_row(connection: duckdb.DuckDBPyConnection, table: Row, row: str) -> list[Row]:
    """The cells of the rows that have this method or label."""
    artifact = table["artifact"]
    if table["produced_by"] != "table":
        kind = artifact.partition("/")[0]
        raise InputError(f"--row is for a table, and {artifact} is a {kind}: leave it out")
    selection = json.loads(table["settings"] or "{}").get("selection", {})
    every = query_rows(connection, f'from "{_view_name(table)}"')
    cells = [cell for cell in every if has_no_unselected_value(cell, selection)]
    names = ("method", "row_label")
    own = [cell for cell in cells if row in (cell.get(key) for key in names)]
    if not own:
        known = dict.fromkeys(cell[key] for key in names for cell in cells if cell.get(key))
        raise InputError(unknown_name_message(row, known, "--row"))
    return own


def _number_lines_of_row(cells: list[Row], view: str, database: Path) -> list[str]:
    """The row's numbers as the table prints them, one line each, and the query that has them."""
    lines, section = list[str](), None
    for cell in cells:
        number = cell.get("text") or number_marks.number_with_error_or_empty(
            cell.get("value"), cell.get("error"), cell["decimals"]
        )
        if not number:
            continue
        if section != (section := (cell["section"], cell["row_label"])):
            lines.append(f"{cell['row_label']}, {cell['section']}")
        unit = f" {cell['unit']}" if cell.get("unit") and not cell.get("text") else ""
        runs = ""
        if cell.get("run_values") or (unit and cell.get("runs")):
            runs = f", over {output_formats.count_with_noun(len(cell['runs']), 'run')}"
        lines.append(f"    {cell['column_label']}: {number}{unit}{runs}")
    pike, asked = program_command("pike"), ""
    if database != given_or_default_database(None):
        asked = f" --database {shlex.quote(str(database))}"
    method = cells[0].get("method")
    if view in RUN_VALUES and method:
        values = shlex.quote(f"{RUN_VALUES[view]}method = '{method}'")
        lines.append(f"Of each run: `{pike} query {values}{asked}`")
    return [*lines, f"`{pike} query 'from {view}'{asked}` has the numbers; the row was made from:"]


def _own_value_texts_by_run(cells: list[Row]) -> dict[str, list[str]]:
    """Of each run its values, of which the row's numbers are the means."""
    result: dict[str, list[str]] = {}
    several = len({cell["row_label"] for cell in cells}) > 1
    for cell in cells:
        label = cell["column_label"]
        if several:
            label = f"{cell['row_label']}, {label}"
        unit = f" {cell['unit']}" if cell.get("unit") else ""
        run_values = cell.get("run_values") or ()
        for run, value in zip(cell["runs"] if run_values else (), run_values, strict=True):
            number = number_marks.number_with_error_or_empty(value, None, cell["decimals"])
            result.setdefault(run, []).append(f"{label}: {number}{unit}")
    return result


def _inputs_of_row(
    connection: duckdb.DuckDBPyConnection, table: Row, own: list[Row], row: str
) -> list[str]:
    """What of a table's inputs is of the runs that a row's cells show."""
    # Cells without a list of runs are of all that their method has.
    methods = {
        tuple(cell.get(key) for key in ("scenario", "model", "method"))
        for cell in own
        if cell.get("runs") is None
    }
    runs = {run for cell in own for run in cell.get("runs") or ()}
    for one in query_rows(connection, "select run, scenario, model, method from runs"):
        if (one["scenario"], one["model"], one["method"]) in methods:
            runs.add(one["run"])
    inputs = [one for one in table["inputs"] if one.partition("/")[2] in runs]
    if not inputs:
        raise InputError(
            f"--row: no run of this database stands behind {row!r} of {table['artifact']}"
        )
    return inputs


def _unknown_artifact_message(artifact: str, names: list[str]) -> str:
    written = artifact.lower()
    inside = [name for name in names if written and written in name.lower()]
    # Whole last parts first (pike/seed0 is not a part of balanced-pike/seed0), short names first.
    inside.sort(key=lambda name: (not f"/{name}".lower().endswith(f"/{written}"), len(name), name))
    near = inside or difflib.get_close_matches(written, names, n=5, cutoff=0.5)
    kinds = ", ".join(sorted({name.partition("/")[0] for name in names}))
    hint = f"near it: {names_text(near, most=5)}" if near else f"kinds of artifacts: {kinds}"
    return (
        f"there is no artifact {artifact!r} in the database: {hint}; "
        f'`{program_command("pike")} query "select artifact from lineage"` lists all'
    )


class _LineageTree:
    """Artifacts with what they were made from."""

    def __init__(
        self,
        lineage: Mapping[str, Row],
        stale: Mapping[str, list[str]],
        rows: Mapping[str, str],
        values: Mapping[str, list[str]],
    ) -> None:
        self._lineage, self._stale, self._rows = lineage, stale, rows
        self._values = dict(values)
        self._seen: set[str] = set()

    def artifact_and_ancestors(self, name: str) -> list[Row]:
        """The artifact and all that it was made from, each once."""
        found: dict[str, Row] = {}
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found[one] = self._lineage[one] | {"out_of_date": self._stale.get(one, [])}
                waiting += reversed(found[one]["inputs"])
        return list(found.values())

    def lines(self, name: str, indent: str = "") -> Iterator[str]:
        """The artifact and, further in, what it was made from."""
        if name in self._seen:
            yield f"{indent}{name}  (above)"
            return
        self._seen.add(name)
        yield from self._artifact_lines(name, indent)
        kinds: dict[str, list[str]] = {}
        for source in self._lineage[name]["inputs"]:
            kinds.setdefault(source.partition("/")[0], []).append(source)
        for kind, sources in kinds.items():
            folded = 0
            for number, source in enumerate(sources):
                news = self._is_stale(source) or not self._text_sources(source) <= self._seen
                if not number or len(sources) <= MANY or news:
                    yield from self.lines(source, f"{indent}  ")
                elif name in self._rows:
                    yield from self._artifact_lines(source, f"{indent}  ")
                    for run in self._lineage[source]["inputs"]:
                        if run.startswith("run/"):
                            yield from self._artifact_lines(run, f"{indent}    ")
                else:
                    folded += 1
            if folded:
                own = ", `--row` those of a row" if name.startswith("table/") else ""
                yield (
                    f"{indent}  and {folded} more of {kind}/: `{program_command('pike')} why "
                    f"{sources[-1]}` shows one{own}, `--format json` all"
                )

    def _artifact_lines(self, name: str, indent: str) -> Iterator[str]:
        """The artifact without what it was made from."""
        row, detail = self._lineage[name], indent + "    "
        of_row = f", row {self._rows[name]}" if name in self._rows else ""
        code = f", code {row['code_fingerprint']}" if row["code_fingerprint"] else ""
        if code and (commit := row["code_commit"]):
            code += f" at {commit[:12]}{'+' if commit.endswith('+') else ''}"
        yield f"{indent}{name}{of_row}  [{row['produced_by']}{code}]"
        # Beside the first artifact of a run that is named.
        for value in self._values.pop(name.partition("/")[2], ()):
            yield f"{detail}{value}"
        yield f"{detail}{row['path']}" + (f"  sha256 {row['sha256'][:16]}" if row["sha256"] else "")
        facts, settings = row["facts"], json.loads(row["settings"] or "{}")
        if "rule" in settings:
            own = _settings_text(settings["method"])
            yield f"{detail}rule {settings['rule']}" + (f", {own}" if own else "")
        if chosen := facts.get("chosen"):
            yield f"{detail}chosen: {_settings_text(chosen)}"
        if shown := [f"{key} {facts[key]}" for key in FACTS if facts.get(key)]:
            # Checksums by their first digits.
            yield detail + re.sub(r"\b([0-9a-f]{16})[0-9a-f]{48}\b", r"\1", ", ".join(shown))
        for reason in self._stale.get(name, []):
            yield detail + output_formats.colour_text(f"OUT OF DATE: {reason} changed", "red")

    @functools.cache  # noqa: B019 - one tree lives as long as its process
    def _text_sources(self, name: str) -> frozenset[str]:
        """The sources of text, and the tasks, that the artifact was made from."""
        own = frozenset([name] if name.startswith(("source/", "task/")) else [])
        return own.union(*map(self._text_sources, self._lineage[name]["inputs"]))

    @functools.cache  # noqa: B019 - one tree lives as long as its process
    def _is_stale(self, name: str) -> bool:
        """Whether the artifact, or anything that it was made from, is out of date."""
        return name in self._stale or any(map(self._is_stale, self._lineage[name]["inputs"]))


def _settings_text(settings: Mapping[str, Any]) -> str:
    """Each setting and its value, as JSON writes it."""
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in settings.items())
