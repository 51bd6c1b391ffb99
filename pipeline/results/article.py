"""The paper's tables and figures with our numbers: one page in the paper's order, for print."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline.planning.manifest_places import OF_PAPER
from pipeline.results import number_marks, report_parts, result_manifests
from pipeline.runtime import atomic_files, made_from
from pipeline.runtime.code_fingerprint import PACKAGE

ROLE = "in the place of "
"""Behind this the label of a block of ours names the paper's block whose place it takes."""
SAID_IN = {
    "figure1": ("fig:the-main-plots",),
    "figure2": ("sec: building_blocks_1",),
    "figure3": ("fig: ExampleAdaptiveMixingVsStatic",),
    "figure4": ("sec: building_blocks_1",),
    "figure5": ("app: gradient_conflicts",),
    "figure6": ("app: gradient_conflicts",),
    "figure7": ("sec: building_blocks_2",),
}
"""Where the paper says what a figure shows; its numbers are not printed."""


def write_article(output_names: Sequence[str], tables: Path, figures: Path, out: Path) -> None:
    """Writes the page, which needs no other file.

    `output_names` are names of the paper's tables and figures, in any order, whose files in the
    folders `tables` and `figures` must be what their manifests vouch for.
    """
    if foreign := [name for name in output_names if name not in OF_PAPER]:
        raise InputError(f"{foreign[0]!r} is no table or figure of the paper: name table1, figure1")
    shown = [name for name in OF_PAPER if name in output_names]
    read = [
        tables / f"{name}.csv" if name.startswith("table") else figures / f"{name}.svg"
        for name in shown
    ]
    snapshot = result_manifests.snapshot_inputs("article", map(made_from.manifest_beside, read))
    with atomic_files.atomic_write(out, "article", [tables, figures]) as partial:
        text = (
            report_parts.load_templates()
            .get_template("article.html")
            .render(
                items=[
                    _table_beside_paper(path)
                    if path.suffix == ".csv"
                    else _figure_with_paper_statements(path)
                    for path in read
                ],
                missing=[name for name in OF_PAPER if name not in shown],
                # The pages of the report show a configuration's own names by these.
                labels={},
            )
        )
        partial.write_text(text, encoding="utf-8")
    made = made_from.manifest_beside(out)
    snapshot.write_manifest(made, settings={"shown": shown}, files=[out], facts={})


def _table_beside_paper(path: Path) -> dict[str, Any]:
    """A table, whose blocks stand beside those of the paper whose place they take."""
    result = report_parts.read_table(path)
    printed, groups = [], []
    for block in result["blocks"]:
        # Nothing on this page leads to another.
        block["lines"] = [{**line, "made": ""} for line in block["lines"]]
        if block["label"].startswith(number_marks.PRINTED):
            printed.append(block)
        else:
            groups.append(
                [{**block, "label": f"{block['scenario']} / {block['label']}".strip(" /")}]
            )
    for group in groups:
        role = group[0]["label"].partition(ROLE)[2]
        theirs = [b for b in printed if role and b["label"].partition(": ")[2].startswith(role)]
        group += theirs[:1]
        printed = [block for block in printed if block not in group]
    # What the paper prints of nothing that we ran stands at the end.
    groups = [*groups[:-1], [*groups[-1], *printed]] if groups else [printed]
    return {**result, "kind": "table", "groups": groups}


def _figure_with_paper_statements(path: Path) -> dict[str, Any]:
    """A figure as a picture within the page, and what the paper says of it."""
    with (PACKAGE / "paper" / "claims.csv").open(encoding="utf-8", newline="") as lines:
        places = SAID_IN.get(path.stem, ())
        said = [row["statement"] for row in csv.DictReader(lines) if row["place"] in places]
    return {
        **report_parts.read_figure(path),
        "name": path.stem,
        "kind": "figure",
        "said": said,
    }
