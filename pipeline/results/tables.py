"""Tables: a view of cells, laid out as Markdown, CSV and LaTeX.

A table is one SQL file. Its view returns one row per cell, in the table's order:

    scenario, model       where the cell belongs (the report groups by them); may be null
    section               cells of one section form one block of rows and columns
    kind                  `method` rows compete for bold; `reference` rows (floors, chance) and
                          `statement` rows, which no method made, do not
    row_position, row_label, column_position, column_label
                          the place; equal labels are one row or column
    decimals              shown behind the point
    unit                  optional: shown in the column's header
    value, error          optional: numbers, the error half of a 95% interval
    better                optional: `lower` or `higher`: the best of the column is marked; null:
                          nothing is
    significant           optional: whether the row is ahead of the baseline by a paired test; then
                          the best is bold, else underlined
    above_chance          optional: false puts the cell in grey, with a ring behind it
    underlined, text      optional: the table's own marks, and what is shown in place of a value
    bold                  optional: printed so (by the paper)
    beats                 optional: underlines by the paper's rule; where a view has this column the
                          best of a column that no test confirms is in italics instead
    best                  optional: the table's own mark of the best, in italics
    published             optional: the paper's value, shown in brackets
    runs                  optional: the runs behind the cell; absent: all of its method
    run_values            optional: the value of each of these runs, of which the cell has the mean
    pairs                 optional: the seeds of a comparison, which both methods have
    one_seed              optional: whether the interval in its text is of one seed
    other_sign            optional: whether the paired difference to Mix has another sign than that
                          of the values

and any of `UNSHOWN`, which a selection may name. Other columns are shown nowhere: a warning says
so. The first paragraph of the comment that opens the file is the table's caption. Cells of a method
whose runs warned get the signs of the view `doubtful_runs`, and errors of one seed another one.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from pike_mixing.errors import InputError
from pipeline.results import number_marks, result_manifests, sql_views
from pipeline.results.database_reader import (
    Row,
    connect_database_of_any_version,
    select_rows_keeping_nulls,
)
from pipeline.results.number_marks import (
    EMPTY,
    Cell,
    cell_of,
    is_finite,
    number_with_error_or_empty,
)
from pipeline.runtime import atomic_files, made_from, output_formats, ownership
from pipeline.runtime.manifests import Slug
from pipeline.runtime.validate_settings import validate

COLUMNS = (
    "scenario", "model", "section", "kind", "row_position", "row_label", "column_position",
    "column_label", "decimals",
)  # fmt: skip
OPTIONAL = ("unit", "value", "error", "better")
UNSHOWN = ("method", "metric", "shots", "formulation", "quantity", "block", "paper_table")
"""Columns that our views have for selections and for their order."""
KNOWN = {
    *COLUMNS, *OPTIONAL, *UNSHOWN, *number_marks.NOTES, "significant", "above_chance", "text",
    "published", "runs", "run_values", "pairs",
}  # fmt: skip

log = logging.getLogger("pike")


@dataclass(frozen=True)
class TableSettings:
    """One table."""

    name: Slug
    """Its name, that of its files."""
    selection: dict[str, object] = field(default_factory=dict)
    """Runs by scenarios, models, methods or seeds, or values by column of the view."""
    query: str | None = None
    """The view that gives its cells; absent: `table_{name}`, or else `{name}`."""

    @property
    def view(self) -> str:
        """The view that gives its cells."""
        return self.query or sql_views.view_of(f"table_{self.name}")


@dataclass(frozen=True)
class TableSection:
    """One section of a table: a grid of cells."""

    section: str
    scenario: str | None
    model: str | None
    cells: pd.DataFrame
    """A `Cell` by a row's label and kind, and by header."""

    def cell_column_alignments(self, left: str, right: str) -> list[str]:
        """How each column is set: to the left where it holds words alone."""
        words = self.cells.map(lambda cell: cell.value is None).all()
        return [left if alone else right for alone in words]

    def cell_texts(
        self, styles: Mapping[str, str], plain: Callable[[str], str] = str
    ) -> pd.DataFrame:
        """The cells' marked texts; `plain` makes a text fit for the format."""

        def text(cell: Cell) -> str:
            shown = plain(cell.shown)
            for mark, style in styles.items():
                shown = style.format(shown) if shown and mark in cell.marks else shown
            return shown

        return self.cells.map(text)


def write_table(settings: Path, database: Path, out: Path) -> None:
    """Writes one table, by the JSON of its settings, as .md, .csv and .tex beside each other."""
    inputs, values = [settings, database], atomic_files.read_json(settings)
    table = validate(TableSettings, values, str(settings))
    places = ownership.sibling_outputs_by_suffix(out, (".md", ".csv", ".tex"), "table", inputs)
    snapshot = result_manifests.snapshot_inputs(
        "table", [result_manifests.unaltered_manifest_or_itself(database, "database")]
    )
    blocks = read_sections(table, database, str(settings))
    for suffix, text in (
        (".md", as_markdown(table, blocks)),
        (".csv", as_long_csv(blocks)),
        (".tex", as_latex(table, blocks)),
    ):
        with atomic_files.atomic_write(places[suffix], "table", inputs) as partial:
            partial.write_text(text, encoding="utf-8")
    made = made_from.manifest_beside(out)
    snapshot.write_manifest(made, settings=values, files=[*places.values()], facts={})


def read_sections(table: TableSettings, database: Path, place: str) -> list[TableSection]:
    """The table's blocks, best values marked; none where no selected run has what it shows.

    `place` is where the settings stand, for messages.
    """
    with connect_database_of_any_version(database) as connection:
        result = select_rows_keeping_nulls(connection, table.view, table.selection, place)
        columns = [name for name, *_ in connection.execute(f"describe {table.view}").fetchall()]
        _refuse_view_lacking_cell_columns(table, columns, place)
        made: dict[tuple[str | None, ...], list[str]] = {
            (scenario, model, method): runs
            for scenario, model, method, runs in connection.execute(
                "select scenario, model, method, list(run order by seed) from runs group by all"
            ).fetchall()
        }
        doubts = number_marks.read_doubts_by_method(connection, place)
    if not result:
        sql_views.warn_of_empty_output(table.name, table.view)
    for row in result:
        row |= {name: row.get(name) for name in OPTIONAL}
        key = row["scenario"], row["model"], row.get("method")
        own = made.get(key, ()) if row.get("runs") is None else row["runs"]
        row |= {"runs": tuple(own), **dict.fromkeys(doubts.get(key, ()), True)}
        seeds = len(row["runs"]) if row.get("pairs") is None else row["pairs"]
        row["one_seed"] = row.get("one_seed") or (row["error"] is not None and seeds == 1)
    sections = dict.fromkeys(row["section"] for row in result)
    return [make_section([row for row in result if row["section"] == name]) for name in sections]


def _refuse_view_lacking_cell_columns(
    table: TableSettings, columns: Sequence[str], place: str
) -> None:
    """Refuses a view that gives no cells, and warns of columns that no table shows."""
    file = sql_views.sql_file_of_view(table.view)
    if missing := [name for name in COLUMNS if name not in columns]:
        remedy = f"add them, or name another view ({place}: query)"
        if table.query is None:
            remedy = f"add them; `git diff {file}` shows what was changed"
        raise InputError(
            f"{file} gives no cells of a table, it lacks the columns {', '.join(missing)}: {remedy}"
        )
    for name in columns:
        if name not in KNOWN and name not in table.selection:
            log.warning(
                "%s: the column %s is not shown: a column of the table is rows with their own "
                "column_label and column_position",
                *(file, name),
            )


def make_section(rows: list[Row]) -> TableSection:
    """One section's grid. Rows and columns are sorted by position, then by label."""
    for row in rows:
        unit = f" ({row['unit']})" if row["unit"] else ""
        row["title"] = f"{row['column_label']}{unit}"
    for title in {row["title"] for row in rows}:
        _mark_best_values([row for row in rows if row["title"] == title])
    names = ["row_position", "row_label", "kind", "column_position", "column_label", "title"]
    places = pd.MultiIndex.from_tuples([[row[name] for name in names] for row in rows])
    if places.has_duplicates:
        _, label, *_, title = places[places.duplicated()][0]
        raise InputError(
            f"{rows[0]['section']}: the view has several cells of {label!r} under {title!r}: add a "
            "`selection` that leaves one"
        )
    cells = pd.Series([*map(cell_of, rows)], places).unstack([3, 4, 5], fill_value=EMPTY)
    cells = cells.sort_index().sort_index(axis="columns")
    cells = cells.droplevel(0).droplevel([0, 1], axis="columns")
    section, scenario, model = (rows[0][name] for name in ("section", "scenario", "model"))
    return TableSection(section, scenario, model, cells)


def _mark_best_values(column: list[Row]) -> None:
    """Marks the best of a column as shown: what rounds to the same number is equally good.

    Bold is what a paired test confirms; the best number alone is underlined, or in italics where
    underlining means something else. Nothing is marked where all are equal.
    """
    rivals = [
        row
        for row in column
        if row["kind"] == "method" and row["better"] and is_finite(row["value"])
    ]
    if not rivals:
        return
    choose = min if rivals[0]["better"] == "lower" else max
    values = {round(row["value"], row["decimals"]) for row in rivals}
    best = choose(values) if len(values) > 1 else None
    for row in rivals:
        if round(row["value"], row["decimals"]) == best:
            mark = "bold" if row.get("significant") else "best" if "beats" in row else "underlined"
            row[mark] = True


def _all_marks_to_explain(blocks: list[TableSection]) -> set[str]:
    return {
        mark
        for part in blocks
        for cell in part.cells.to_numpy().flat
        for mark in number_marks.marks_to_explain(part.section, cell.marks)
    }


def as_markdown(table: TableSettings, blocks: list[TableSection]) -> str:
    """A table of GitHub's Markdown per section, under the caption."""
    lines = [f"# {table.name}", "", sql_views.caption(table.view), ""]
    lines += [] if blocks else [sql_views.EMPTY, ""]
    for part in blocks:
        lines += [f"## {part.section}", ""]
        lines.append(_markdown_row(["", *part.cells]))
        lines.append(_markdown_row(["---", *part.cell_column_alignments("---", "---:")]))
        for (label, kind), *texts in part.cell_texts(number_marks.MARKDOWN).itertuples(name=None):
            lines.append(_markdown_row([f"*{label}*" if kind == "reference" else label, *texts]))
        lines.append("")
    notes = number_marks.notes_of_marks(_all_marks_to_explain(blocks))
    lines += [line for note in notes for line in (note, "")]
    return "\n".join(lines)


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def as_long_csv(blocks: list[TableSection]) -> str:
    """One line per cell, empty ones too: values with six decimals, and what readers are shown."""
    columns = ("scenario", "model", "section", "kind", "row", "column", "value", "error",
               "published", "shown", *number_marks.NOTES, "runs")  # fmt: skip
    lines = []
    for part in blocks:
        for (label, kind, title), cell in part.cells.stack().items():
            values = (cell.value, cell.error, cell.published)
            numbers = (number_with_error_or_empty(v, None, 6).replace(",", "") for v in values)
            place = part.scenario, part.model, part.section, kind, label, title
            marked = (int(mark in cell.marks) for mark in number_marks.NOTES)
            lines.append([*place, *numbers, cell.shown, *marked, " ".join(cell.runs)])
    return f"{output_formats.as_csv(columns, lines)}\n"


def as_latex(table: TableSettings, blocks: list[TableSection]) -> str:
    """A `table` environment with one `tabular` per section; needs booktabs and xcolor."""
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{number_marks.escape_latex(sql_views.caption(table.view))}}}",
    ]
    lines.append(rf"\label{{tab:{table.name}}}")
    lines += [] if blocks else [sql_views.EMPTY]
    for part in blocks:
        lines += [rf"\par\medskip {number_marks.escape_latex(part.section)}\par\smallskip"]
        columns = "".join(part.cell_column_alignments("l", "r"))
        lines += [rf"\begin{{tabular}}{{l{columns}}}", r"\toprule"]
        lines += [
            " & ".join(["", *map(number_marks.escape_latex, part.cells)]) + r" \\",
            r"\midrule",
        ]
        texts = part.cell_texts(number_marks.LATEX, number_marks.escape_latex)
        before = texts.index[0][1]
        for (label, kind), *line in texts.itertuples(name=None):
            lines += [r"\midrule"] if kind != before else []
            lines.append(" & ".join([number_marks.escape_latex(label), *line]) + r" \\")
            before = kind
        lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [
        rf"\par\smallskip {number_marks.escape_latex(note)}"
        for note in number_marks.notes_of_marks(_all_marks_to_explain(blocks))
    ]
    return "\n".join([*lines, r"\end{table}", ""])
