"""Tables and figures as the report's pages show them, read from their files."""

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import pandas as pd
from markupsafe import Markup

from pipeline.results import display, labels, provenance, result_manifests, views
from pipeline.results.drawing import INK
from pipeline.runtime import atomic_files, output_formats

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"

PLACES = {"d", "x", "y", "width", "height", "transform", "viewBox"}
"""Attributes that hold numbers of points."""

ElementTree.register_namespace("", SVG)


def cut_panels(svg: str, data: Mapping[str, Any]) -> dict[str, str]:
    """Cuts the SVG of `draw_figure` into one `<svg>` per panel, by the id that its data has.

    Text and axes take the page's text colour and font. Groups of series get `data-key`, their
    entry in the legend; ids other than those of panels and series are made unique or dropped.
    """
    root = ElementTree.fromstring(svg)
    by_id = {element.get("id"): element for element in root.iter() if element.get("id")}
    cut = {}
    for panel in data["panels"]:
        group = copy.deepcopy(by_id[panel["id"]])
        _copy_referenced_elements(group, panel, by_id)
        picture = ElementTree.Element(
            f"{{{SVG}}}svg",
            {
                "viewBox": " ".join(f"{v:.2f}" for v in panel["box"]),
                "data-panel": panel["id"],
                "role": "img",
                "tabindex": "0",
                "aria-label": _alternative_text(panel),
            },
        )
        picture.append(group)
        cut[panel["id"]] = _compact_svg(picture)
    return cut


def _alternative_text(panel: Mapping[str, Any]) -> str:
    """What the panel shows, for those who do not see it: each line's last value."""
    ends = (
        f"{line['key']} {line['y'][-1]:.4g}"
        for line in panel["series"]
        if line["y"][-1] is not None
    )
    at = f"; at the end: {', '.join(ends)}"
    return f"{panel['title']}: {panel['y_label']} by {panel['x_label']}{at}"


def _compact_svg(picture: ElementTree.Element) -> str:
    """The picture as text, a third as long: without what a page says once for all panels.

    A page gives text its font, size and colour; a tenth of a point is less than eyes can see.
    """
    for parent in picture.iter():
        parent.text = parent.text if parent.tag.endswith("}text") else None
        children = [inner for child in parent for inner in _unwrap_group(child)]
        parent[:] = children
        for child in children:
            child.tail = None
        for name in PLACES & parent.attrib.keys():
            parent.set(name, re.sub(r"-?\d+\.\d{2,}", _round_to_tenth, parent.attrib[name]))
    text = ElementTree.tostring(picture, encoding="unicode").replace(INK, "currentColor")
    # The path that a tick uses has its line already; the frame behind the axes is empty.
    text = re.sub(r'(<use [^>]*?) style="fill: c\w+; stroke: c\w+; stroke-width: 0.8"', r"\1", text)
    text = re.sub(r'<path d="[^"]*" style="fill: none" />', "", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"| stroke-linecap: butt;?', "", text)
    text = re.sub(r"(?:font-family|stroke-linejoin): [^;\"]*;? ?", "", text)
    text = re.sub(r'font-size: 8.5px; |; fill: currentColor(?=" x=)', "", text)
    return re.sub(r"\s+", " ", text).replace(' "', '"').replace("> <", "><").replace(" />", "/>")


def _round_to_tenth(match: re.Match[str]) -> str:
    return f"{float(match[0]):.1f}".removesuffix(".0")


def _unwrap_group(element: ElementTree.Element) -> list[ElementTree.Element]:
    """The element, or what is in it where it is a group that says nothing."""
    if element.tag != f"{{{SVG}}}g" or element.attrib:
        return [element]
    return [inner for child in element for inner in _unwrap_group(child)]


def _copy_referenced_elements(
    group: ElementTree.Element,
    panel: Mapping[str, Any],
    by_id: Mapping[str | None, ElementTree.Element],
) -> None:
    """Gives the panel its own copies of what it refers to, under ids that no other panel has."""
    keys = {}
    for series in panel["series"]:
        keys[series["id"]] = keys[f"{series['id']}--range"] = series["key"]
    inside = {element.get("id") for element in group.iter()} - {None}
    needed = _referenced_ids(group)
    defs = ElementTree.Element(f"{{{SVG}}}defs")
    defs.extend(copy.deepcopy(by_id[name]) for name in sorted(needed - inside))
    group.insert(0, defs)
    for element in group.iter():
        name = element.get("id")
        if name in keys:
            element.set("data-key", keys[name])
        elif name in needed:
            element.set("id", f"{panel['id']}--{name}")
        elif name is not None and name != panel["id"]:
            del element.attrib["id"]
        if HREF in element.attrib:
            element.set("href", f"#{panel['id']}--{element.attrib.pop(HREF)[1:]}")
        clip = element.get("clip-path")
        if clip is not None:
            element.set("clip-path", clip.replace("(#", f"(#{panel['id']}--"))


def _referenced_ids(group: ElementTree.Element) -> set[str]:
    """Ids that elements of the group point to."""
    result = set()
    for element in group.iter():
        if HREF in element.attrib:
            result.add(element.attrib[HREF][1:])
        result.update(re.findall(r"url\(#([^)]+)\)", element.get("clip-path", "")))
    return result


def load_templates() -> jinja2.Environment:
    """The templates of pages, with their filters and `style`."""
    result = jinja2.Environment(
        loader=jinja2.FileSystemLoader(provenance.REPORT),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    result.filters |= {
        "counted": output_formats.count_of,
        "titled": title_of,
        "shortened": shorten_hashes,
    }
    result.filters |= {
        "ruled": labels.rule_label,
        "amount": labels.format_amount,
        "noted": table_notes,
    }
    result.globals["style"] = Markup((provenance.REPORT / "style.css").read_text(encoding="utf-8"))
    return result


def title_of(name: str) -> str:
    """A table's or figure's name as a title: Table 1, Perplexity."""
    return re.sub(r"(?<=[a-z])(?=\d)", " ", name).capitalize()


def shorten_hashes(text: str) -> str:
    """A text whose checksums and commits have twelve digits."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b", r"\1", text)


def split_own_and_paper(
    artifacts: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Our own tables or figures, and those of the paper, each in the experiment's order."""
    paper = [one for one in artifacts if re.fullmatch(r"(table|figure)\d+", one["name"])]
    return [one for one in artifacts if one not in paper], paper


def read_table(path: Path) -> dict[str, Any]:
    """A table's .csv file as the pages show it.

    Raises:
        InputError: its manifest does not vouch for it.
    """
    result_manifests.refuse_altered(path, "table")
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    view = views.view_of(f"table_{path.stem}")
    return {
        "name": path.stem,
        "view": view,
        "caption": views.caption(view),
        "blocks": [_section_block(part) for _, part in cells.groupby("section", sort=False)],
    }


def table_notes(blocks: list[dict[str, Any]]) -> list[str]:
    """What the marks of these blocks of a table mean."""
    marks = {
        mark
        for block in blocks
        for line in block["lines"]
        for cell, _ in line["cells"]
        for mark in display.explained_marks(block["label"], [m for m in display.NOTES if cell[m]])
    }
    return display.notes_of_marks(marks)


def _section_block(cells: pd.DataFrame) -> dict[str, Any]:
    """A section, of which every line has a cell in every column."""
    section, scenario = cells.iloc[0][["section", "scenario"]]
    # Whether a column holds words alone.
    words = (cells.groupby("column", sort=False)["value"].max() == "").to_dict()
    shown = [(_cell_facts(one), words[one["column"]]) for one in cells.to_dict("records")]
    lines = []
    for (label, kind), line in cells.assign(shown=shown).groupby(["row", "kind"], sort=False):
        # Cells without a value have no runs; rows over several methods lead to none of them.
        made = {run.rpartition("/")[0] for run in " ".join(line["runs"]).split()}
        place = made.pop() if len(made) == 1 else ""
        lines.append(
            {
                "label": label,
                "kind": kind,
                "made": provenance.origin_anchor(place) if place else "",
                "method": place.rpartition("/")[2],
                "cells": line["shown"].to_list(),
            }
        )
    return {
        "label": section.removeprefix(f"{scenario} / "),
        "scenario": scenario,
        "headers": [(*_split_header_unit(header), alone) for header, alone in words.items()],
        "lines": lines,
    }


def _split_header_unit(text: str) -> tuple[str, str]:
    """A column's name and its unit."""
    match = re.fullmatch(r"(.*) \((.*)\)", text)
    return (match[1], match[2]) if match else (text, "")


def _cell_facts(row: dict[str, str]) -> dict[str, Any]:
    value, _, error = row["shown"].partition(" ± ")
    result = [mark for mark in display.NOTES if row[mark] == "1"]
    return {
        "value": value,
        "error": error,
        "signs": display.signs_of_marks(result) if value else "",
        **{mark: mark in result for mark in display.NOTES},
    }


def read_figure(path: Path) -> dict[str, Any]:
    """A figure's data with the SVG of each panel, which becomes a part of the page.

    Raises:
        InputError: its manifest does not vouch for it.
    """
    result_manifests.refuse_altered(path, "figure")
    data: dict[str, Any] = atomic_files.read_json(path.with_suffix(".json"))
    pieces = cut_panels(path.read_text(encoding="utf-8"), data)
    data["panels"] = [{**panel, "svg": Markup(pieces[panel["id"]])} for panel in data["panels"]]
    return data


def keep_shown_legend(figure: dict[str, Any]) -> dict[str, Any]:
    """The figure with the legend's entries that its panels show."""
    shown = {series["key"] for panel in figure["panels"] for series in panel["series"]}
    colours = (
        {**entry, "colour": "currentColor" if entry["colour"] == INK else entry["colour"]}
        for entry in figure["legend"]
        if entry["key"] in shown
    )
    return {**figure, "legend": list(colours)}


def figure_script_data(figure: dict[str, Any]) -> dict[str, Any]:
    """What the pages' script needs of a figure to show its values: four digits of each."""
    return {
        "colours": {entry["key"]: entry["colour"] for entry in figure["legend"]},
        "labels": {entry["key"]: entry["label"] for entry in figure["legend"]},
        "panels": [
            {name: panel[name] for name in ("id", "title", "method", "x_label", "axes", "x_limits")}
            | {"series": [_series_points(series) for series in panel["series"]]}
            for panel in figure["panels"]
        ],
    }


def _series_points(series: dict[str, Any]) -> dict[str, Any]:
    y = [None if v is None else float(f"{v:.4g}") for v in series["y"]]
    return {"key": series["key"], "x": series["x"], "y": y}
