"""Pages, tables and the report say the same of the recorded runs: no two give a difference to Mix
another sign."""

import csv
import json
import re

import duckdb
import pytest
from repository import ROOT

from benchmarks import claims
from pipeline.results import archive, article, headline, labels, number_marks, query, report
from pipeline.results.why import explain_artifact
from pipeline.runtime import atomic_files

pytestmark = pytest.mark.slow

OF_PAPER = ("table1", "table2", "table9", "table10", "table13", "table14")
PAGES = {name: ROOT / place for name, place in {
    "README": "README.md", "picture": "docs/results/headline-light.svg",
    "results": "docs/results.md", "claims": "docs/claims.md", "compare": "docs/compare.md",
}.items()}  # fmt: skip
LOSS, SIGNS = ("loss",), {-1, 0, 1}


@pytest.fixture(scope="module")
def restored(made_once):
    """The tables of scores, the report and its database, of what is recorded."""

    def fill(out):
        archive.restore_results_and_summarise(
            ROOT / "recorded", out=out, only=[*OF_PAPER, "perplexity", "accuracy"]
        )
        recorded = ROOT / "recorded" / "settings" / "databases" / "requested.json"
        settings, empty = json.loads(recorded.read_text(encoding="utf-8")), out / "empty"
        empty.mkdir()
        atomic_files.write_json(out / "requested.json", {**settings, "tables": {}, "figures": {}})
        page = out / "report" / "index.html"
        report.write_report(out / "requested.json", requested(out), empty, empty, page)

    return made_once("restored", fill)


def requested(restored):
    return restored / "databases" / "requested.duckdb"


@pytest.fixture(scope="module")
def pages(restored):
    """Text of each page by its name."""
    found = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
    found["report"] = (restored / "report/index.html").read_text(encoding="utf-8")
    for name in (*OF_PAPER, "perplexity", "accuracy"):
        found[name] = (restored / f"tables/{name}.csv").read_text(encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def names(restored):
    """Methods by label, and scenario and model by a scenario's name and a size in words."""
    with duckdb.connect(str(requested(restored)), read_only=True) as connection:
        known = labels.method_labels(connection)
        sizes = connection.execute("select distinct scenario, model, parameters from runs")
        places = {(s, labels.amount_in_words(n)): (s, m) for s, m, n in sizes.fetchall()}
    spoken = {label.replace("\N{NO-BREAK SPACE}", " "): name for name, label in known.items()}
    assert len(spoken) == len(known)
    return spoken, places


def statements(pages, names):
    """What each page says: place, (measure, scenario, model, method) and the signs it allows."""
    for table in (*OF_PAPER, "perplexity", "accuracy"):
        yield from of_table(table, list(csv.DictReader(pages[table].splitlines())))
    for page, of in OF_PAGES.items():
        for place, allowed in of(pages[page], *names):
            yield page, place, allowed
    listed = [place for place, _ in of_results(pages["results"], *names)]
    assert "two other methods are 0.1 to 0.2 nats worse" in pages["README"]
    for method in (names[0]["AdaTask"], names[0]["GLaM"]):
        yield from (("README", place, {1}) for place in listed if place[-1] == method)


def of_results(text, spoken, places):
    for line in text.splitlines():
        if head := re.match(r"\*\*.*\*\* \(([\w-]+), ([\w. ]+) parameters", line):
            where = places[head[1], head[2]]
        elif row := re.match(r"\| (.+?) \| ([+-][\d.]+)\S* \(", line):
            yield (LOSS, *where, spoken[row[1]]), rounded(row[2])


def of_picture(text, spoken, places):
    """A block's scenario is that of its title and size: a title alone may be that of two."""
    known = {name: scenario for name, scenario in TITLES.items() if name in text}
    label = ""
    for part in re.findall(r"<text[^>]*>([^<]*)</text>", text):
        if size := re.match(r"([\w. ]+) parameters: ", part):
            where = places[known[label], size[1]]
        elif number := re.match(r"([+-][\d.]+)\S* \(", part):
            yield (LOSS, *where, spoken[label]), rounded(number[1])
        elif part not in "▸◂":
            label = part.replace("\N{NO-BREAK SPACE}", " ")


def of_report(text, spoken, places):
    place = r'<article class="place" id="place-([\w-]+)-(\w+)"(.*?)</article>'
    row = r'#method-([\w-]+)".*?<a href="provenance[^>]*>([+-][\d.]+)'
    for scenario, model, block in re.findall(place, text, re.DOTALL):
        for method, number in re.findall(row, block):
            yield (LOSS, scenario, model, method), rounded(number)


def of_claims(text, spoken, places):
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


def of_compare(text, spoken, places):
    for block in re.findall(r"```text\n(A: .*?)```", text, re.DOTALL):
        sides = re.findall(r"^[AB]: ([\w-]+)/(\w+)/([\w-]+)/seed", block, re.MULTILINE)
        mean = r"^mean of .*?\)(?: +[\d.-]+){2} +(-?[\d.]+) "
        assert sides[1][2] == "mix"
        yield (LOSS, *sides[0]), rounded(re.search(mean, block, re.MULTILINE)[1])


OF_PAGES = {
    "results": of_results, "picture": of_picture, "report": of_report, "claims": of_claims,
    "compare": of_compare,
}  # fmt: skip
TITLES = {
    "Six domains": "installed",
    "Two synthetic languages": "symbols-two",
    "Three synthetic languages": "symbols",
    "The three languages for twelve times the steps": "symbols-long",
}


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


def rounded(text):
    """What a number of three digits or four allows: of nothing but zeros, any sign."""
    return signs_of(float(text)) if float(text) else SIGNS


def contradictions(pages, names):
    """Places that no sign satisfies on all pages, with what the pages say."""
    said = {}
    for page, place, allowed in statements(pages, names):
        said.setdefault(place, []).append((page, allowed))
    return {p: some for p, some in said.items() if not set.intersection(*(a for _, a in some))}


def test_no_two_pages_give_a_difference_to_mix_another_sign(pages, names):
    every = list(statements(pages, names))
    assert {page for page, *_ in every} == {*pages}
    shared = {}
    for page, place, _ in every:
        shared.setdefault(place, set()).add(page)
    # Each page shares a number with another.
    assert {page for some in shared.values() if len(some) > 1 for page in some} == {*pages}
    assert contradictions(pages, names) == {}


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
    assert page == PAGES["claims"].read_text(encoding="utf-8")
    # The page, the command and the README count the same, the page in the command's words.
    counts = set(re.findall(r"^- \*\*(\d+ [a-z ]+)\*\*: ", page, re.MULTILINE))
    told = query.describe_claims(requested(restored))
    assert set(re.findall(r"^\d+ [a-z ]+$", told, re.MULTILINE)) == counts
    of = {verdict: int(n) for n, _, verdict in (one.partition(" ") for one in counts)}
    assert sum(of.values()) == 46
    words = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    said = rf"{words[of['supported']]} [^.]* at our sizes and {words[of['contradicted']]} "
    assert re.search(said, PAGES["README"].read_text(encoding="utf-8"))


def test_a_row_of_the_papers_table_leads_to_its_runs(restored):
    """Its database has not the runs that chose PiKE's coefficients: they are files to it."""
    database = restored / "databases" / "table-table2.duckdb"
    for row in ("pike", "PiKE (uniform)"):
        told = explain_artifact("table/table2", database, row=row)
        runs = set(re.findall(r"^ +run/(\S+)  \[", told, re.MULTILINE))
        assert runs == {f"installed/nano/pike/seed{seed}" for seed in range(180, 196)}
    assert "file/runs/installed/nano/pike-high/seed100/manifest.json  [given]" in told


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


def test_a_note_stands_only_where_its_sign_does(restored):
    def notes(name):
        text = (restored / f"tables/{name}.md").read_text(encoding="utf-8")
        ours, _, rest = text.partition("## As printed")
        return {word: (f"\n{word}" in rest, sign in ours) for word, sign in SIGNED.items()}

    # Table 1's only bold is the paper's; the paper's Table 13 underlines nothing, ours does.
    assert notes("table1")["Bold:"] == (False, False)
    assert notes("table2")["Bold:"] == (True, True)
    for name in OF_PAPER:
        assert all(noted == there for noted, there in notes(name).values()), name


SIGNED = {"Bold:": "**", "Underlined: PiKE": "<u>", "≠:": "≠", "§:": "§"}


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
