"""Figures: how the view of each becomes panels. A view's first comment is its caption."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb

from pike_mixing.setting_messages import unknown_name_message
from pipeline.results import (
    drawing,
    figure_panels,
    labels,
    number_marks,
    result_manifests,
    sql_views,
)
from pipeline.results.database_reader import (
    Row,
    connect_database_of_any_version,
    select_rows_keeping_nulls,
)
from pipeline.results.figure_panels import Panel, Series
from pipeline.runtime import atomic_files, made_from, output_formats, ownership
from pipeline.runtime.manifests import Slug
from pipeline.runtime.validate_settings import validate


@dataclasses.dataclass(frozen=True)
class FigureSettings:
    """One figure."""

    name: Slug
    """Its name, that of its files."""
    selection: dict[str, object] = dataclasses.field(default_factory=dict)
    """Runs by scenarios, models, methods or seeds, or values by column of the view."""
    kind: str | None = None
    """A name in `KINDS`: what is drawn; absent: the figure's own name."""

    def problems(self) -> list[str]:
        """A kind that is not there."""
        kind = self.kind or self.name
        return [] if kind in KINDS else [unknown_name_message(kind, KINDS, "kind")]


def write_figure(settings: Path, database: Path, out: Path) -> None:
    """Writes one figure, by the JSON of its settings, as .svg and .png, its numbers as .json."""
    values = atomic_files.read_json(settings)
    figure = validate(FigureSettings, values, str(settings))
    kind = KINDS[figure.kind or figure.name]
    view = sql_views.view_of(f"figure_{figure.kind or figure.name}")
    places = ownership.sibling_outputs_by_suffix(
        out, (".svg", ".png", ".json"), "figure", [settings, database]
    )
    snapshot = result_manifests.snapshot_inputs(
        "figure", [result_manifests.unaltered_manifest_or_itself(database, "database")]
    )
    with connect_database_of_any_version(database) as connection:
        result = select_rows_keeping_nulls(connection, view, figure.selection, str(settings))
        baseline = connection.execute("select baseline from experiment").fetchall()[0][0]
        doubts = number_marks.read_doubts_by_method(connection, str(settings))
        named = labels.method_labels(connection)
        note = _sizes_and_seeds_text(connection, result)
    if kind.of_baseline and "methods" not in figure.selection:
        result = [row for row in result if row["method"] == baseline] or result
    signs = {place: number_marks.signs_of_marks(marked) for place, marked in doubts.items()}
    for row in result:
        row["sign"] = signs.get((row.get("scenario"), row.get("model"), row.get("method")), "")
    # A line of a method ends with its sign; a panel of one has it in its title.
    panels = [
        dataclasses.replace(
            p, title=named[p.method] + signs.get((p.scenario, p.model, p.method), "")
        )
        if p.method
        else p
        for p in kind.panels(result)
    ]
    palette: Sequence[str] = drawing.PALETTE
    if kind.lines == "domains":
        panels, palette = _separate_domain_positions(panels), drawing.DOMAINS
    elif kind.lines != OF_MIXTURES:
        panels = _colour_panels(panels, named, baseline)
    data = drawing.draw_figure(
        figure.name, panels, kind.columns, out, palette=palette, labels=named, note=note
    )
    signed = {
        mark for mark, sign in number_marks.SIGNS.items() if any(sign in r["sign"] for r in result)
    }
    empty = [] if panels else [sql_views.EMPTY]
    if empty:
        sql_views.warn_of_empty_output(figure.name, view)
    caption = " ".join([sql_views.caption(view), *empty, *number_marks.notes_of_marks(signed)])
    facts = {"name": figure.name, "caption": caption, "lines": kind.lines, "view": view}
    with atomic_files.atomic_write(places[".json"], "figure") as partial:
        text = json.dumps({**facts, **data}, allow_nan=False)
        partial.write_text(f"{text}\n", encoding="utf-8")
    made = made_from.manifest_beside(out)
    snapshot.write_manifest(made, settings=values, files=[*places.values()], facts={})


def _sizes_and_seeds_text(connection: duckdb.DuckDBPyConnection, result: Sequence[Row]) -> str:
    """Of each scenario and model that is drawn its size, and the least and most seeds of a line."""
    if not result or "seeds" not in result[0]:
        return ""
    seeds: dict[tuple[str, str], list[int]] = {}
    for row in result:
        seeds.setdefault((row["scenario"], row["model"]), []).append(row["seeds"])
    parts = []
    for place, numbers in seeds.items():
        sql = "select parameters from runs where scenario = ? and model = ? limit 1"
        ((size,),) = connection.execute(sql, place).fetchall()
        least = f"{min(numbers)} to " if min(numbers) < max(numbers) else ""
        number = least + output_formats.count_with_noun(max(numbers), "seed")
        parts.append(f"{' / '.join(place)}: {size:,} parameters, {number}")
    return f"{'; '.join(parts)}."


def _colour_panels(
    panels: list[Panel], methods_in_order: Iterable[str], baseline: str
) -> list[Panel]:
    """Panels whose methods have one colour each in all figures; pairs have other colours.

    The baseline is drawn in ink.
    """
    order = list(dict.fromkeys([baseline, *labels.paper_method_labels(), *methods_in_order]))

    def with_method_colour(line: Series) -> Series:
        if line.position < 0:
            return line
        if line.key in order:
            return dataclasses.replace(line, position=order.index(line.key) - 1)
        return dataclasses.replace(line, palette=drawing.DOMAINS)

    return [dataclasses.replace(p, series=[*map(with_method_colour, p.series)]) for p in panels]


def _separate_domain_positions(panels: list[Panel]) -> list[Panel]:
    """Domains of several scenarios, which each count theirs from 0, with places of their own."""
    place: dict[str, int] = {}
    for series in (s for panel in panels for s in panel.series):
        place.setdefault(series.key, len(place))
    return [
        dataclasses.replace(
            panel, series=[dataclasses.replace(s, position=place[s.key]) for s in panel.series]
        )
        for panel in panels
    ]


OF_PAIRS, OF_MIXTURES = "pairs of domains", "mixtures"


class FigureKind(NamedTuple):
    """How the rows of a figure's view, which has its name and its caption, become panels."""

    panels: Callable[[list[Row]], list[Panel]]
    """From the view's rows to panels."""
    columns: int
    """Panels in a row."""
    lines: str
    """What its lines stand for, in the plural: the page's buttons are named so."""
    of_baseline: bool = False
    """Shows the baseline's runs alone unless methods are selected."""


KINDS: Mapping[str, FigureKind] = {
    "losses": FigureKind(figure_panels.domain_loss_panels, 3, "methods"),
    "differences": FigureKind(figure_panels.difference_panels, 3, "methods"),
    "weights": FigureKind(figure_panels.weight_panels, 3, "domains"),
    "similarities": FigureKind(figure_panels.similarity_panels, 3, OF_PAIRS, of_baseline=True),
    "gradients": FigureKind(figure_panels.gradient_panels, 3, "domains"),
    "lengths": FigureKind(figure_panels.document_length_panels, 3, "domains"),
    "figure1": FigureKind(figure_panels.panels_of_layout_rows, 2, "methods"),
    "figure2": FigureKind(figure_panels.panels_of_layout_rows, 3, "methods and pairs of domains"),
    "figure3": FigureKind(figure_panels.paper_example_1_panels, 2, OF_MIXTURES),
    "figure4": FigureKind(figure_panels.panels_of_layout_rows, 2, "methods"),
    "figure5": FigureKind(figure_panels.panels_of_layout_rows, 3, OF_PAIRS),
    "figure6": FigureKind(figure_panels.panels_of_layout_rows, 3, OF_PAIRS),
    "figure7": FigureKind(figure_panels.panels_of_layout_rows, 1, "methods"),
    "figure8": FigureKind(figure_panels.panels_of_layout_rows, 3, "methods"),
}
