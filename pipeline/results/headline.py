"""The main figure and its numbers as a page of the documentation: `make headline`."""

import sys
from pathlib import Path
from typing import Any

import jinja2

from pipeline.results import experiment, marks, provenance, report
from pipeline.results.provenance import counted
from pipeline.results.selection import connect_ours

COLOURS = {
    "light": {"ink": "#22252b", "soft": "#5a606a", "below": "#0a6b4a", "above": "#a33a12"},
    "dark": {"ink": "#e6e4df", "soft": "#a8adb6", "below": "#4fc79a", "above": "#f08a5d"},
}
FRAME = """\
# Results

<!-- Made by `make headline` from the default experiment: change nothing by hand. -->

Mean validation loss after the last step minus that of {baseline}, in nats per token, with 95%
intervals, paired by seed and document; below zero is better. With one seed an interval is over
documents alone. {notes}

![Differences to {baseline}](results/headline-light.svg)

{table}

{runs}. `pike query "from method_differences"` has these numbers, `pike why run/...` what a run was
made from; the report (`make run`) shows each run, loss and weight.
"""


def write(settings: Path, database: Path, docs: Path) -> None:
    """Writes `results.md` and, in the folder `results`, the figure for light and dark pages.

    Args:
        settings: The experiment's settings, those of the database.
        database: The experiment's database.
        docs: Folder of the documentation.

    Raises:
        InputError: there is no database, or it is somebody else's.
    """
    named = experiment.read(settings)
    connection = connect_ours(database)
    try:
        doubts = marks.doubts(connection, "headline")
        shown = report.picture(report.differences(connection), doubts, named.methods())
        ((runs, seeds),) = connection.execute(
            "select count(*), count(distinct seed) from runs"
        ).fetchall()
    finally:
        connection.close()
    # Whatever fits no axis, such as training on one domain, would need most of the rows.
    shown["rows"] = [row for row in shown["rows"] if any(c and not c["cut"] for c in row["cells"])]
    loader = jinja2.FileSystemLoader(provenance.REPORT)
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("headline.svg")
    for name, colours in COLOURS.items():
        picture = template.render(baseline=named.baseline, **shown, **colours)
        (docs / "results" / f"headline-{name}.svg").write_text(picture + "\n", encoding="utf-8")
    page = FRAME.format(
        baseline=named.baseline,
        notes=" ".join(shown["notes"]),
        table=_table(shown),
        runs=f"{counted(runs, 'run')} (those that serve others too), up to "
        f"{counted(seeds, 'seed')}",
    )
    (docs / "results.md").write_text(page, encoding="utf-8")


def _table(shown: dict[str, Any]) -> str:
    columns = [f"{c['scenario']} / {c['model']}" for c in shown["columns"]]
    lines = [["", *columns], ["---", *["---:"] * len(columns)]]
    lines += [[row["method"], *map(_cell, row["cells"])] for row in shown["rows"]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return ""
    ends = f"{cell['nll_low']:+.3f} to {cell['nll_high']:+.3f}, {counted(cell['seeds'], 'seed')}"
    return f"{cell['nll_difference']:+.3f}{cell['signs']} ({ends})"


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
