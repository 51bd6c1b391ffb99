"""Tables and figures as the report's pages show them, read from their files."""

import base64
import re
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from pipeline.results import display, labels, provenance, result_manifests, views
from pipeline.runtime import atomic_files, output_formats


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
    """A figure's facts and its `picture`, the SVG in the base64 of a page's `<img>`.

    Raises:
        InputError: its manifest does not vouch for it.
    """
    result_manifests.refuse_altered(path, "figure")
    facts: dict[str, Any] = atomic_files.read_json(path.with_suffix(".json"))
    return {**facts, "picture": base64.b64encode(path.read_bytes()).decode("ascii")}
