"""Tables and pages say the same of the recorded runs: no two give a difference to Mix another
sign."""

import csv
import itertools
import re

import duckdb
import pytest
from played import ask
from repository import ROOT

from benchmarks import claims
from pipeline.results import archive, article, headline, number_marks, query, report
from pipeline.runtime import atomic_files

pytestmark = pytest.mark.slow

OF_PAPER = ("table1", "table2", "table9", "table10", "table13", "table14")
SHOWN = (*OF_PAPER, "perplexity", "accuracy")
LOSS, SIGNS = ("loss",), {-1, 0, 1}
LOSSES = (
    "select scenario, model, method, nll_difference from method_differences where against = 'mix'"
)
CLAIMS = ROOT / "docs/claims.md"


@pytest.fixture(scope="module")
def restored(made_once):
    """The tables of scores, the report and its database, of what is recorded."""

    def fill(out):
        archive.restore_results_and_summarise(ROOT / "recorded", out=out, only=SHOWN)
        own = atomic_files.read_json(ROOT / "recorded/settings/databases/requested.json")
        settings, empty = out / "requested.json", out / "empty"
        atomic_files.write_json(settings, own | {"tables": {}, "figures": {}})
        empty.mkdir()
        report.write_report(settings, requested(out), empty, empty, out / "report/index.html")

    return made_once("restored", fill)


def requested(restored):
    return restored / "databases" / "requested.duckdb"


def statements(restored):
    """What each place says: place, (measure, scenario, model, method) and the signs it allows."""
    for table in SHOWN:
        text = (restored / f"tables/{table}.csv").read_text(encoding="utf-8")
        yield from of_table(table, list(csv.DictReader(text.splitlines())))
    # Of these the page of results, the picture and the report are made.
    for *place, difference in ask(requested(restored), LOSSES):
        yield "database", (LOSS, *place), signs_of(difference)
    for place, allowed in of_claims(CLAIMS.read_text(encoding="utf-8")):
        yield "claims", place, allowed


def of_claims(text):
    row = (
        r"\| (-?[\d.e+-]+) \[[^|]*\] % [^|]*\| .*\| ([\w-]+) / (\w+)(?:, (.)-shot)?: "
        r"([\w-]+) (over|under) ([\w-]+) \|$"
    )
    for number, *place, shots, one, word, other in re.findall(row, text, re.MULTILINE):
        if "mix" in (one, other):
            measure = ("accuracy", "mean", shots) if shots else ("perplexity", "mean")
            turned = (word == "under") != (one == "mix")
            difference = -float(number) if turned else float(number)
            yield (measure, *place, other if one == "mix" else one), signs_of(difference)


def of_table(table, rows):
    """Statements of a table: its differences, and how its means lie to that of Mix."""
    cells = {}
    for row in rows:
        method = row["runs"].split(" ")[0].split("/")[-2] if row["runs"] else ""
        measure = measured(table, row["section"], row["column"])
        if measure and method and row["value"]:
            key = row["section"], row["column"], row["scenario"], row["model"]
            cells.setdefault(key, {})[method] = measure, float(row["value"]), row["other_sign"]
    for (_, column, scenario, model), by_method in cells.items():
        for method, (measure, value, marked) in by_method.items():
            if "against" in column:
                yield table, (measure, scenario, model, method), signs_of(value)
            elif "mix" in by_method and method != "mix":
                shown = signs_of(value - by_method["mix"][1])
                said = SIGNS - shown if marked == "1" else shown
                yield table, (measure, scenario, model, method), said


def measured(table, section, column):
    """What a column measures; None where it is no measure that several pages have."""
    name = re.sub(r" \(.*\)$|, .-shot", "", column)
    name = name.partition(" as ")[0].removeprefix("mean perplexity").removeprefix("mean accuracy")
    if section.startswith("As printed") or column in ("seeds", "paired seeds", "p"):
        return None
    if table == "accuracy" and "formulation pmi, normalisation pmi" not in section:
        return None
    if column.endswith("(%)") or "(points)" in column:
        shots = re.search(r"(.)-shot", column if table in OF_PAPER else section)[1]
        return ("accuracy", "mean" if name.startswith("mean") else name or "mean", shots)
    if "(nats)" in column:
        return LOSS
    return ("perplexity", name or "mean")


def signs_of(value):
    return {(value > 0) - (value < 0)}


def test_no_two_places_give_a_difference_to_mix_another_sign(restored):
    said = {}
    for page, place, allowed in statements(restored):
        said.setdefault(place, {}).setdefault(page, []).append(allowed)
    # Each says something of what another says, too.
    shared = {page for pages in said.values() if len(pages) > 1 for page in pages}
    assert shared == {*SHOWN, "database", "claims"}
    for place, pages in said.items():
        assert set.intersection(*itertools.chain(*pages.values())), (place, pages)


def test_the_pages_of_the_deciding_experiment_are_made_from_its_records(restored, tmp_path):
    (tmp_path / "results").mkdir()
    headline.write_headline_page_and_figure(requested(restored), tmp_path)
    for name in ("results.md", "results/headline-light.svg", "results/headline-dark.svg"):
        written = (tmp_path / name).read_text(encoding="utf-8")
        assert written == (ROOT / "docs" / name).read_text(encoding="utf-8"), name
    # A sign is explained only if a row has it.
    head, _, rows = (tmp_path / "results.md").read_text(encoding="utf-8").partition("\n| | ")
    assert [s for s in number_marks.SIGNS.values() if f"{s}:" in head and s not in rows] == []
    page = claims.page(requested(restored))
    assert page == CLAIMS.read_text(encoding="utf-8")
    # The page, the command and the README count the same, the page in the command's words.
    counts = set(re.findall(r"^- \*\*(\d+ [a-z ]+)\*\*: ", page, re.MULTILINE))
    told = query.describe_claims(requested(restored))
    assert set(re.findall(r"^\d+ [a-z ]+$", told, re.MULTILINE)) == counts
    of = {verdict: int(n) for n, _, verdict in (one.partition(" ") for one in counts)}
    assert sum(of.values()) == 46
    words = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    said = rf"{words[of['supported']]} [^.]* at our sizes and {words[of['contradicted']]} "
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(said, readme)
    assert "two other methods are 0.1 to 0.2 nats worse" in readme
    worse = (
        "select nll_difference from method_differences where against = 'mix' "
        "and method in ('adatask', 'glam')"
    )
    found = [round(difference, 1) for (difference,) in ask(requested(restored), worse)]
    assert (min(found), max(found)) == (0.1, 0.2)


def test_the_report_has_the_differences_of_its_database(restored):
    page = (restored / "report/index.html").read_text(encoding="utf-8")
    for *place, difference in ask(requested(restored), LOSSES):
        assert f'#made-{"-".join(place)}">{difference:+.3f}' in page, place


def test_both_errors_of_a_number_are_those_of_the_page_that_explains_it(restored):
    page = (ROOT / "docs/paper-map.md").read_text(encoding="utf-8")
    (sql,) = re.findall(r'pike query "(select count\(\*\) as seeds.*)"', page)
    with duckdb.connect(restored / "databases/table-table2.duckdb", read_only=True) as connection:
        ((seeds, *numbers),) = connection.execute(sql).fetchall()
    mean, of_seeds, of_questions, both = (f"{number:.1f}" for number in numbers)
    assert f"{mean} ± {both} %, over {seeds} seeds" in page
    assert f"The {seeds} seeds alone give ± {of_seeds}:" in page
    assert f"= {of_questions}." in page
    assert f"√({of_seeds}² + {of_questions}²) = {both}," in page
    table = (restored / "tables/table2.md").read_text(encoding="utf-8")
    assert f"{mean} ± {both}" in re.search(r"^\| PiKE \(uniform\).*", table, re.MULTILINE)[0]
    assert "over seeds and over the documents or items that all seeds share" in table


def test_our_rows_stand_beside_the_papers_whose_place_they_take(restored, tmp_path):
    article.write_article(
        ["table13"], restored / "tables", restored / "figures", tmp_path / "a.html"
    )
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    groups = [re.findall(r'<p class="part">(.*?)</p>', part) for part in
              text.split('<div class="blocks">')[1:]]  # fmt: skip
    assert len(groups) == 6
    for ours, theirs in groups:
        role = ours.partition("in the place of ")[2]
        assert theirs.partition(": ")[2].startswith(f"{role}, "), (ours, theirs)
