"""Parts of the report's pages, read from files: tables, figures, the page of finders."""

import base64
import re
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markdown_it import MarkdownIt
from markupsafe import Markup

from pipeline.results import labels, number_marks, report_facts, result_manifests, sql_views
from pipeline.runtime import atomic_files, output_formats

FINDERS = Path(__file__).parents[2] / "docs" / "finders.md"
FINDERS_ABSENT = """# How good the finders are

This page is docs/finders.md of the repository, which is not installed here.
"""


def load_templates() -> jinja2.Environment:
    """The templates of pages, with their filters and `style`."""
    result = jinja2.Environment(
        loader=jinja2.FileSystemLoader(report_facts.REPORT),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    result.filters |= {
        "counted": output_formats.count_with_noun,
        "titled": title_of,
        "shortened": shorten_hashes,
        "ruled": labels.rule_label,
        "amount": labels.amount_in_words,
        "noted": table_notes,
    }
    result.globals["style"] = Markup(
        (report_facts.REPORT / "style.css").read_text(encoding="utf-8")
    )
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
    """A table's .csv file, for which its manifest must vouch, as the pages show it."""
    result_manifests.refuse_altered_or_unvouched(path, "table")
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    view = sql_views.view_of(f"table_{path.stem}")
    return {
        "name": path.stem,
        "view": view,
        "caption": sql_views.caption(view),
        "blocks": [_section_block(part) for _, part in cells.groupby("section", sort=False)],
    }


def table_notes(blocks: list[dict[str, Any]]) -> list[str]:
    """What the marks of these blocks of a table mean."""
    marks = {
        mark
        for block in blocks
        for line in block["lines"]
        for cell, _ in line["cells"]
        for mark in number_marks.marks_to_explain(
            block["label"], [m for m in number_marks.NOTES if cell[m]]
        )
    }
    return number_marks.notes_of_marks(marks)


def _section_block(cells: pd.DataFrame) -> dict[str, Any]:
    """A section, of which every line has a cell in every column."""
    section, scenario = cells.iloc[0][["section", "scenario"]]
    # Whether a column holds words alone.
    words = (cells.groupby("column", sort=False)["value"].max() == "").to_dict()
    shown = [(_cell_texts_and_marks(one), words[one["column"]]) for one in cells.to_dict("records")]
    lines = []
    for (label, kind), line in cells.assign(shown=shown).groupby(["row", "kind"], sort=False):
        # Cells without a value have no runs; rows over several methods lead to none of them.
        made = {run.rpartition("/")[0] for run in " ".join(line["runs"]).split()}
        place = made.pop() if len(made) == 1 else ""
        lines.append(
            {
                "label": label,
                "kind": kind,
                "made": report_facts.run_group_anchor(place) if place else "",
                "cells": line["shown"].to_list(),
            }
        )
    headers = []
    for header, alone in words.items():
        unit = re.fullmatch(r"(.*) \((.*)\)", header)
        headers.append((*(unit.groups() if unit else (header, "")), alone))
    return {
        "label": section.removeprefix(f"{scenario} / "),
        "scenario": scenario,
        "headers": headers,
        "lines": lines,
    }


def _cell_texts_and_marks(row: dict[str, str]) -> dict[str, Any]:
    value, _, error = row["shown"].partition(" ± ")
    result = [mark for mark in number_marks.NOTES if row[mark] == "1"]
    return {
        "value": value,
        "error": error,
        "signs": number_marks.signs_of_marks(result) if value else "",
        **{mark: mark in result for mark in number_marks.NOTES},
    }


def read_figure(path: Path) -> dict[str, Any]:
    """A figure's facts and its `picture`: its SVG, for which its manifest must vouch, in base64."""
    result_manifests.refuse_altered_or_unvouched(path, "figure")
    facts: dict[str, Any] = atomic_files.read_json(path.with_suffix(".json"))
    return {**facts, "picture": base64.b64encode(path.read_bytes()).decode("ascii")}


def read_mixture_finders_page() -> Markup:
    """`docs/finders.md` as a page: wide tables scroll, links into docs/ are words.

    A row of a table is a line. Where the package is installed without docs/, the page says so.
    """
    text = FINDERS.read_text(encoding="utf-8") if FINDERS.is_file() else FINDERS_ABSENT
    text = re.sub(r"\[([^]]*)\]\([^)\s]*\.md[^)\s]*\)", r"\1 (docs)", text)
    html = MarkdownIt("commonmark").enable("table").render(text)
    html = re.sub(
        r"<h2>([^<]*)</h2>((?:(?!<h2>).)*?)<table>",
        r'<h2>\1</h2>\2<div class="scroll" role="region" tabindex="0" aria-label="\1"><table>',
        html,
        flags=re.DOTALL,
    ).replace("</table>", "</table></div>")
    html = html.replace("<pre>", '<pre tabindex="0">')
    html = re.sub(r"<tr>\n<td>(.*?)</td>", r'<tr>\n<th scope="row">\1</th>', html)
    return Markup(re.sub(r"(?<=<tr>)\n|(?<=</t[hd]>)\n", "", html))
