"""The main picture: each method's loss against the baseline's, on one axis for all scenarios."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2

from pike_mixing.comparison.mean_difference import LEAST_SEEDS, LEVEL
from pipeline.results import advice, labels, number_marks, report_facts
from pipeline.results.database_reader import Row, open_explaining_missing_views, query_rows
from pipeline.runtime.output_formats import count_with_noun

ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0)
"""First digits of an axis' ends."""


def headline_picture_facts(
    decisions: Sequence[Row],
    doubts: number_marks.Doubts,
    unfolded_per_place: int = advice.MOST_LINES,
) -> dict[str, Any]:
    """A block of lines for each place: its decision's rows, the lowest loss first.

    Returns:
        `limit`, the axis' end in nats; `blocks`, places with seeds enough for a verdict;
        `untested`, the others; `notes` on signs. A block's `lines` are shown at once, `more` fold.
    """
    every = [row for place in decisions for row in place["rows"]]
    limit = _nats_limit_without_outliers(
        [row for row in every if row["seeds"] >= LEAST_SEEDS] or every
    )
    blocks, untested = list[Row](), list[Row]()
    for place in decisions:
        lines = [_line_geometry(row, limit) for row in place["rows"]]
        for line in lines:
            line["marks"] = doubts.get((line["scenario"], line["model"], line["method"]), {})
            line["signs"] = number_marks.signs_of_marks(line["marks"])
        several = [line for line in lines if line["seeds"] >= LEAST_SEEDS]
        first = (several or lines)[:unfolded_per_place]
        more = [line for line in lines if line not in first]
        (blocks if several else untested).append({**place, "lines": first, "more": more})
    return {
        "limit": limit,
        "blocks": blocks,
        "untested": untested,
        "notes": _notes_of_lines(
            line for block in (*blocks, *untested) for line in (*block["lines"], *block["more"])
        ),
    }


def _notes_of_lines(lines: Iterable[Row]) -> list[str]:
    """What the signs of these lines mean, with the lines that have them."""
    return number_marks.notes_with_counts(
        {f"{line['label']} in {line['scenario']}/{line['model']}": line["marks"] for line in lines}
    )


def _nats_limit_without_outliers(rows: Sequence[Row]) -> float:
    """A round number of nats that holds every interval below zero, and most of the others.

    It reaches to twice the far end that a third of all lie within, so that hopeless methods do not
    squeeze the others.
    """
    ends = sorted(max(abs(row["nll_low"]), abs(row["nll_high"])) for row in rows)
    if not ends:
        return 1.0
    least = max(2 * ends[len(ends) // 3], -min(row["nll_low"] for row in rows), 1e-3)
    power = 10.0 ** math.floor(math.log10(least))
    return next(digit * power for digit in ROUND if digit * power >= least * (1 - 1e-9))


def _line_geometry(row: Row, limit: float) -> Row:
    """A row with its places in percent of the axis; what lies outside says on which side."""

    def axis_percent_of_nats(value: float) -> float:
        return round(50 + 50 * max(-1.0, min(1.0, value / limit)), 2)

    cut = "right" if row["nll_high"] > limit else "left" if row["nll_low"] < -limit else ""
    return {
        **row,
        "x": axis_percent_of_nats(row["nll_difference"]),
        "x_low": axis_percent_of_nats(row["nll_low"]),
        "x_high": axis_percent_of_nats(row["nll_high"]),
        "cut": cut,
        "made": report_facts.run_group_anchor(
            "/".join((row["scenario"], row["model"], row["method"]))
        ),
    }


COLOURS = {
    "light": {"ink": "#22252b", "soft": "#5a606a", "better": "#0a6b4a", "worse": "#a33a12"},
    "dark": {"ink": "#e6e4df", "soft": "#a8adb6", "better": "#4fc79a", "worse": "#f08a5d"},
}
LINES = 12
"""Of the figure, in all scenarios together."""
FRAME = """\
# Results

<!-- Made by `make headline` from `workflow/configs/decide.yaml`: change nothing by hand. -->

`make restore` builds these numbers from our recorded runs, without training. The experiment is
`workflow/configs/decide.yaml`: {runs}, models of {sizes} parameters.
`restored/pike.duckdb` has more runs, which were used only to choose PiKE's coefficients and
DoReMi's weights.
Every method is compared with {against}, which takes equal shares of all domains. {summary}

{findings}

*Better* and *worse* are what a paired test over {least} seeds or more finds at the level of
{level:.0%}. Holm's correction is made for each table below by itself. The models are small: these
runs cannot say whether the same holds for larger ones.

![Differences to {against}](results/headline-light.svg)

## The record

Each number is the mean validation loss after the last step minus that of {against}, in nats per
token: below zero is better. In parentheses: the 95% interval (paired by seed and document, not
corrected for the number of comparisons) and the number of seeds. *estimates 4*: an update of the
weights takes the mean of 4 estimates. *every 60*: there are 60 steps between updates. *zeta1* and
*zeta2* are PiKE's coefficients.{notes}

{tables}

After `make restore`, `.venv/bin/pike query "from method_differences" --database
restored/pike.duckdb` prints these numbers, and `.venv/bin/pike advise restored/pike.duckdb` what
follows from them. The report (`restored/report/index.html`) shows methods with fewer seeds, too.
[Check one number](paper-map.md#check-one-number-of-the-paper) leads from a table to its runs.
"""


def write_headline_page_and_figure(database: Path, docs: Path) -> None:
    """Writes `results.md` and, in the folder `results`, the figure for light and dark pages."""
    with open_explaining_missing_views(database) as connection:
        doubts = number_marks.read_doubts_by_method(connection, "headline")
        places = advice.read_decisions(connection)
        (facts,) = query_rows(
            connection,
            "select count(*) as runs, count(distinct seed) as seeds, min(parameters) as least, "
            "max(parameters) as most from runs",
        )
    whole = headline_picture_facts(places, doubts, unfolded_per_place=10_000)
    shown = whole["blocks"] or whole["untested"]
    # Without methods that are another one with settings of their own, by their labels.
    plain = [[row for row in place["rows"] if ", " not in row["label"]] for place in shown]
    fewer = [{**p, "rows": rows or p["rows"]} for p, rows in zip(shown, plain, strict=True)]
    few = headline_picture_facts(fewer, doubts, unfolded_per_place=max(4, LINES // len(shown)))
    better = sum(any(row["verdict"] == "better" for row in place["lines"]) for place in shown)
    where = (
        f"of the {count_with_noun(len(shown), 'experiment')} below "
        "(each is a scenario with a model size)"
    )
    loader = jinja2.FileSystemLoader(report_facts.REPORT)
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("headline.svg")
    for name, colours in COLOURS.items():
        blocks = few["blocks"] or few["untested"]
        drawn = template.render(
            blocks=blocks, limit=few["limit"], counted=count_with_noun, least=LEAST_SEEDS, **colours
        )
        (docs / "results" / f"headline-{name}.svg").write_text(drawn + "\n", encoding="utf-8")
    page = FRAME.format(
        against=shown[0]["against"],
        least=LEAST_SEEDS,
        level=LEVEL,
        summary=f"In {better} {where} a method is shown to be better:"
        if better
        else f"In none {where} is a method shown to be better:",
        findings="\n".join(map(_finding_sentence, shown)),
        notes="".join(
            f" {note}" for note in _notes_of_lines(line for b in shown for line in b["lines"])
        ),
        tables="\n\n".join(map(_headline_table, shown)),
        runs=f"{count_with_noun(facts['runs'], 'training run')}, up to "
        f"{count_with_noun(facts['seeds'], 'seed')}",
        sizes=" to ".join(
            dict.fromkeys(labels.amount_in_words(facts[key]) for key in ("least", "most"))
        ),
    )
    (docs / "results.md").write_text(page, encoding="utf-8")


FINDINGS = {
    "better": "{names} {is_} better than {against}, by {amounts} nats",
    "worse": "{names} {is_} worse than {against}, by {amounts} nats",
    "": "For {names} no difference to {against} is shown: {intervals} between {low:+.3f} "
    "and {high:+.3f} nats",
}
"""By verdict, the last of all others; in the order of the page."""


def _finding_sentence(block: Row) -> str:
    """What a place shows: which methods are better or worse, by how much, at which size."""
    shown: dict[str, list[Row]] = {verdict: [] for verdict in FINDINGS}
    for row in block["lines"]:
        shown[row["verdict"] if row["verdict"] in shown else ""].append(row)
    sentences, decided = list[str](), set[str]()
    for verdict, rows in shown.items():
        # Several settings of a method are one name, unless they are better or worse.
        labels = [row["label"] if verdict else row["label"].partition(", ")[0] for row in rows]
        names = [name for name in dict.fromkeys(labels) if name not in decided]
        decided.update(names)
        if not names:
            continue
        counts = Counter(labels)
        spoken = [f"{n} ({counts[n]} settings)" if counts[n] > 1 else n for n in names]
        sizes = sorted({f"{abs(row['nll_difference']):.3f}" for row in rows})
        sentences.append(
            FINDINGS[verdict].format(
                names=" and ".join(filter(None, [", ".join(spoken[:-1]), spoken[-1]])),
                is_="is" if len(names) == 1 else "are",
                against=block["against"],
                amounts=" to ".join(dict.fromkeys((sizes[0], sizes[-1]))),
                intervals="the interval lies" if len(rows) == 1 else "all intervals lie",
                low=min(row["nll_low"] for row in rows),
                high=max(row["nll_high"] for row in rows),
            )
        )
    seeds = sorted({row["seeds"] for row in block["lines"]})
    number = f"{seeds[0]} to " * (len(seeds) > 1) + count_with_noun(seeds[-1], "seed")
    size = f"{block['size']}, {block['tokens']}, {number}"
    return f"- **{block['title']}** ({size}). {'. '.join(sentences)}."


def _headline_table(block: Row) -> str:
    lines = [
        f"**{block['title']}** ({block['scenario']}, {block['size']}, {block['tokens']}). "
        f"Advice: {block['text'][0][0].lower()}{block['text'][0][1:]}",
        "",
        f"| | against {block['against']} | seeds with a lower loss | shown |",
        "| --- | ---: | ---: | --- |",
        *(
            f"| {row['label']} | {advice.difference_text(row, row['signs'])} "
            f"| {row['seeds_better']} of {row['seeds']} | {row['verdict']} |"
            for row in block["lines"]
        ),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    write_headline_page_and_figure(*map(Path, sys.argv[1:]))
