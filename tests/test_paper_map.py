"""docs/paper-map.md has a row for whatever the paper labels."""

import csv
import re
from pathlib import Path

from pipeline.runtime.code_fingerprint import PACKAGE

MAP = (PACKAGE.parent / "docs" / "paper-map.md").read_text(encoding="utf-8")


def labels():
    with (PACKAGE / "paper" / "labels.csv").open(encoding="utf-8", newline="") as lines:
        return [(row["kind"], row["label"]) for row in csv.DictReader(lines)]


def test_every_label_of_the_paper_has_a_row():
    rows = [line for line in MAP.splitlines() if line.startswith("|")]
    mapped = {label for row in rows for label in re.findall(r"`([^`]+)`", row)}
    missing = [label for _, label in labels() if label not in mapped]
    assert missing == []


def test_the_labels_are_those_of_eight_figures_and_three_algorithms():
    kinds = [kind for kind, _ in labels()]
    assert (kinds.count("figure"), kinds.count("algorithm")) == (8, 3)
    # Tables 9 and 10 bear two labels each.
    assert kinds.count("table") == 16


def test_every_table_and_figure_has_a_row_of_its_own_with_its_query():
    for kind, count in (("Table", 14), ("Figure", 8)):
        for number in range(1, count + 1):
            found = [line for line in MAP.splitlines() if line.startswith(f"| {kind} {number}, ")]
            assert len(found) == 1, f"{kind} {number}"
            query = Path(f"{kind.lower()}{number}.sql")
            assert f"`{query}`" in found[0]
            assert (PACKAGE / "results" / "sql" / query).is_file()


def test_what_the_map_names_is_there():
    root = PACKAGE.parent
    rows = [line.split(" | ") for line in MAP.splitlines() if line.startswith("| ")]
    named = [(name, cell) for row in rows for cell in row for name in modules(cell)]
    assert len(named) > 60
    for name, cell in named:
        test = name.rpartition("/")[2].startswith("test_")
        places = [root / "tests"] if test else [PACKAGE, root / "pike_mixing", root]
        files = [place / name for place in places if (place / name).is_file()]
        assert files, name
        for function in re.findall(rf"((?:`\w+`, )*`\w+`) in `{name}`", cell):
            source = files[0].read_text(encoding="utf-8")
            for one in re.findall(r"\w+", function):
                assert re.search(rf"^(def|class) {one}\b", source, re.MULTILINE), (name, one)


def test_each_deviation_is_declared_in_a_decision():
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| \[(\d{4})\][^|]+ \|$", MAP, re.MULTILINE)
    assert len(rows) == 6
    decisions = (PACKAGE.parent / "docs/decisions.md").read_text(encoding="utf-8")
    for item, number in rows:
        (text,) = re.findall(rf"^## {number} .*?\n\n(.*?)$", decisions, re.MULTILINE)
        assert text.startswith("Deviation from the paper"), item


def modules(cell):
    return re.findall(r"`([\w/]+\.py)`", cell)
