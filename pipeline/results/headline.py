"""The main figure and its numbers as a page of the documentation: `make headline`."""

import sys
from pathlib import Path

import jinja2

from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pipeline.results import decisions, marks, picture, provenance
from pipeline.results.provenance import counted
from pipeline.results.selection import Row, ours

COLOURS = {
    "light": {"ink": "#22252b", "soft": "#5a606a", "better": "#0a6b4a", "worse": "#a33a12"},
    "dark": {"ink": "#e6e4df", "soft": "#a8adb6", "better": "#4fc79a", "worse": "#f08a5d"},
}
LINES = 8
"""Of the figure, in all scenarios together."""
FRAME = """\
# Results

<!-- Made by `make headline` from `workflow/configs/decide.yaml`: change nothing by hand. -->

Mean validation loss after the last step minus that of {against}, in nats per token, with the 95%
interval of this comparison alone, paired by seed and document; below zero is better. *Shown* is
what a paired test over {least} seeds or more finds after Holm's correction for its table. {notes}

![Differences to {against}](results/headline-light.svg)

{tables}

{runs}. `pike advise` says what follows, `pike query "from method_differences"` has these numbers,
`pike why run/...` what a run was made from; the report (`make run`) has those of fewer seeds too.
"""


def write(database: Path, docs: Path) -> None:
    """Writes `results.md` and, in the folder `results`, the figure for light and dark pages.

    Raises:
        InputError: there is no database, or it is somebody else's.
    """
    with ours(database) as connection:
        doubts, places = marks.doubts(connection, "headline"), decisions.of(connection)
        ((runs, seeds),) = connection.execute(
            "select count(*), count(distinct seed) from runs"
        ).fetchall()
    whole = picture.picture(places, doubts, most=10_000)
    shown = whole["blocks"] or whole["untested"]
    few = picture.picture(shown, doubts, most=LINES // len(shown))
    loader = jinja2.FileSystemLoader(provenance.REPORT)
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("headline.svg")
    for name, colours in COLOURS.items():
        blocks = few["blocks"] or few["untested"]
        drawn = template.render(
            blocks=blocks, limit=few["limit"], counted=counted, least=LEAST_SEEDS, **colours
        )
        (docs / "results" / f"headline-{name}.svg").write_text(drawn + "\n", encoding="utf-8")
    page = FRAME.format(
        against=shown[0]["against"],
        least=LEAST_SEEDS,
        notes=" ".join(whole["notes"]),
        tables="\n\n".join(map(_table, shown)),
        runs=f"{counted(runs, 'training run')}, up to {counted(seeds, 'seed')}",
    )
    (docs / "results.md").write_text(page, encoding="utf-8")


def _table(block: Row) -> str:
    lines = [
        f"**{block['title']}** ({block['scenario']}, {block['size']}, {block['tokens']}). "
        f"{block['text'][0]}",
        "",
        f"| | against {block['against']} | seeds with a lower loss | shown |",
        "| --- | ---: | ---: | --- |",
        *(
            f"| {row['label']} | {decisions.difference(row, row['signs'])} "
            f"| {row['seeds_better']} of {row['seeds']} | {row['verdict']} |"
            for row in block["lines"]
        ),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
