import html
import html.parser
import re
import shutil
from pathlib import Path

import documented
import pandas as pd
import pytest
from made_up import build
from played import ask

from pike_mixing.errors import InputError
from pipeline import cli
from pipeline.planning.manifest_places import PAGES
from pipeline.results import database, number_marks, report, report_parts
from pipeline.runtime import atomic_files, made_from

pytestmark = pytest.mark.slow

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(html.parser.HTMLParser):
    """Collects what tests ask of a page, and checks that its elements nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag not in VOID:
            self.open.append((tag, values))
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] for name in ("href", "src", "action") if name in values]

    def handle_endtag(self, tag):
        if tag not in VOID:
            opened, _ = self.open.pop()
            assert opened == tag


def written(settings, folder, page="index"):
    """A page of an experiment without tables and figures, whose database is made."""
    database.build_database(settings, folder / "x.duckdb")
    empty = folder / "empty"
    empty.mkdir()
    report.write_report(settings, folder / "x.duckdb", empty, empty, folder / "index.html")
    return (folder / f"{page}.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def texts(shown):
    """The pages by name."""
    return {page: (shown / f"report/{page}.html").read_text(encoding="utf-8") for page in PAGES}


@pytest.fixture(scope="module")
def pages(texts):
    return {page: Page(text) for page, text in texts.items()}


def test_pages_are_sound_need_no_network_and_their_links_lead_somewhere(pages, texts, shown):
    for page in pages.values():
        assert page.open == []
        assert len(page.ids) == len(set(page.ids))
        for link in page.links:
            path, _, anchor = link.partition("#")
            if link.startswith("data:"):
                continue
            assert not path or (shown / "report" / path).is_file(), link
            if anchor:
                target = pages[Path(path).stem] if path else page
                assert anchor in target.ids, link
    for text in texts.values():
        assert "@import" not in text
        assert not re.search(r"url\(\s*['\"]?(?!#)", text)


def test_a_newcomer_finds_verdicts_tables_plots_and_provenance(texts):
    assert "24 training runs, 4 methods" in texts["index"]
    for page, words in (
        ("index", "Keep equal shares (Mix)."),
        ("tables", "is shown to have a lower validation loss."),
        ("index", "How to read this"),
        ("index", 'id="figure-losses"'),
        # Of a picture, for those who do not see it.
        ("index", "real / tiny: 131,000 parameters, 3 seeds"),
        ("tables", 'id="figure-weights"'),
        ("tables", 'id="table-perplexity-real"'),
        ("methods", "Every batch holds every domain in equal parts"),
        ("finders", "<h1>How good the finders are</h1>"),
        ("methods", "zeta1 0.05"),
        ("provenance", "revision of noise"),
    ):
        assert words in texts[page], words
    # What a template prints of a method that it took for a value.
    assert not any("built-in method" in text for text in texts.values())


def test_a_report_without_the_docs_says_which_page_is_not_here(monkeypatch, tmp_path):
    monkeypatch.setattr(report_parts, "FINDERS", tmp_path / "finders.md")
    assert "docs/finders.md of the repository, which is not installed here" in (
        report_parts.read_mixture_finders_page()
    )


def test_the_first_page_is_small_and_its_picture_has_every_method_and_scenario(texts, shown):
    assert len(texts["index"].encode()) < 400_000
    picture = texts["index"].split('<section id="verdicts">')[1].split("</section>")[0]
    places = re.findall(r'<article class="place" id="([^"]+)"', picture)
    assert places == ["place-real-tiny", "place-languages-tiny"]
    methods = re.findall(r'#method-([^"]+)"', picture)
    assert methods == ["pike", "balanced-pike", "round-robin"] * 2
    assert "<td></td>" not in picture
    # A doubt about the text stands beside the decision, not in what is folded.
    assert "Warning: The validation text of " in re.sub(r"(?s)<details>.*?</details>", "", picture)
    # Differences are the database's, and lead to how they were made.
    row = r'<a href="provenance.html#made-(\w+)-tiny-([\w-]+)">([+-]\d\.\d{3})'
    sql = "select scenario, method, nll_difference from method_differences where against = 'mix'"
    differences = ask(shown / "pike.duckdb", sql)
    assert sorted(re.findall(row, picture)) == sorted(
        (s, m, f"{d:+.3f}") for s, m, d in differences
    )
    assert re.search(r'title="[a-z ]+, lower in \d of 3 seeds: [-+]\d\.\d{3} to', picture)


def test_every_command_names_the_database_of_the_experiment(texts, shown):
    own = f"--database {shown}/pike.duckdb"
    for line in ("from table_perplexity", "from figure_differences"):
        assert f'<code>.venv/bin/pike query "{line}" {own}</code>' in texts["tables"]
    assert f"<code>.venv/bin/pike why table/perplexity {own}</code>" in texts["tables"]
    found = [c for text in texts.values() for c in re.findall("<code>([^<]*pike .*?)</code>", text)]
    words = [documented.words(html.unescape(command)) for command in found]
    # Each can be typed as it stands, but for the file of a registration.
    assert all(map(cli.parse_arguments, words))
    asking = [one for one in words if one[0] not in ("methods", "registered")]
    assert {one[0] for one in asking} == {"query", "why", "advise"}
    assert [one for one in asking if f"{shown}/pike.duckdb" not in one] == []


def test_accuracies_are_compared_by_the_paired_test(texts):
    section = texts["tables"].split('<section id="scenario-real"')[1].split("</section>")[0]
    assert "Accuracy against mix" in section
    assert "formulation cf, normalisation pmi, 0-shot, 60 items of 30 documents" in section
    assert re.search(r'<th scope="row">PiKE[^<]+</th><td>[+-]\d+\.\d</td><td>[+-].* to ', section)
    assert "too few documents to tell" in section


def test_alarms_are_listed_by_run_with_what_they_mean(texts):
    section = texts["provenance"].split('<section id="alarms">')[1].split("</section>")[0]
    runs = re.findall(r"<summary><code>(.*?)</code>: 2 alarms</summary>", section)
    assert sorted(runs) == [
        f"{scenario}/tiny/pike/seed{seed}"
        for scenario in ("languages", "real")
        for seed in range(3)
    ]
    assert "<code>corpus/languages/noise</code>: 1 alarm</summary>" in section
    assert "<li>validation: little text, &lt;19&gt; documents</li>" in section
    of_real = section.split("real/tiny/pike/seed0")[1]
    assert re.findall(r"<li>step (\d+), ([a-z-]+): (.*)</li>", of_real)[:2] == [
        ("19", "effective-domains", "the mixture has collapsed; lower &lt;zeta1&gt;"),
        ("29", "no-rows", "code had no row in the last 10 steps"),
    ]


def test_alarms_sign_their_method_wherever_it_is_compared(texts):
    picture = texts["index"].split('<section id="verdicts">')[1].split("</section>")[0]
    sign, note = number_marks.SIGNS["collapsed"], number_marks.NOTES["collapsed"]
    assert picture.count(f'class="signs">{sign}</span>') == 2
    assert note in picture
    section = texts["tables"].split('<section id="scenario-real"')[1].split("</section>")[0]
    assert section.count(f'<th scope="row">PiKE{sign}') == 1
    assert '<th scope="row">Round-Robin</th>' in section
    assert f'<p class="note">{note}' in section
    assert re.search(rf'<span class="error">± \d+\.\d+</span>{sign}', section)


def test_runs_without_alarms_or_a_baseline_say_so(tmp_path):
    quiet = build(tmp_path, seeds=(0,), scenarios=("real",), methods=("round-robin",))
    text = written(quiet, tmp_path, "provenance")
    assert "These runs do not tell" in (tmp_path / "index.html").read_text(encoding="utf-8")
    section = text.split('<section id="alarms">')[1].split("</section>")[0]
    assert "<p>None.</p>" in section
    assert "<li>" not in section


def test_predictions_stand_beside_their_outcomes_and_names_are_escaped(tmp_path):
    settings = build(tmp_path, seeds=(0,), methods=("mix", "pike"))
    experiment = atomic_files.read_json(settings) | {"experiment": "a <b> & c"}
    wanted = {"method": "pike", "against": "mix", "board": "no target", "direction": "lower"}
    experiment["config"] |= {
        "runs": [{"methods": ["mix", "pike"], "seeds": [0]}],
        "predictions": {
            "hypotheses": {
                "gains": {**wanted, "expected": -0.02},
                "of-a-target": {**wanted, "board": "target", "expected": -0.3, "margin": 0.005},
            }
        },
    }
    atomic_files.write_json(settings, experiment)
    text = written(settings, tmp_path)
    assert "a &lt;b&gt; &amp; c" in text
    assert "Fewer than 3 seeds, too few for a verdict" in text
    section = text.split('<section id="predictions">')[1].split("</section>")[0]
    first, second = re.findall(r"<tr><th .*</tr>", section)[1:]
    sql = "select difference, half from boards where method = 'pike' and against = 'mix'"
    ((mean, half),) = ask(tmp_path / "x.duckdb", sql)
    for cell in ("-0.020", f"{mean:+.3f}", f"± {half:.3f}", "<td>2</td>"):
        assert cell in first
    assert "<td>too few scenarios</td>" in first
    assert "too few scenarios, margin +0.005" in second
    assert Page(text).open == []


def test_every_method_of_a_table_leads_to_how_its_numbers_were_made(pages, texts):
    made = {name for name in pages["provenance"].ids if name.startswith("made-")}
    links = [link for page in pages.values() for link in page.links]
    assert {link.split("#")[1] for link in links if "#made-" in link} == made
    place = texts["provenance"]
    place = place[place.index('<details id="made-real-tiny-pike"') :]
    place = place[: place.index("</details>")]
    for told in ("Final weights", "step 40", "pike why run/real/tiny/pike/seed0", "corpus/"):
        assert told in place


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("tables/perplexity.csv", ",7", ",77.77"),
        ("figures/losses.svg", "</svg>", "<script>alert(1)</script></svg>"),
        ("figures/losses.json", "losses", "lasses"),
    ],
)
def test_what_was_changed_gets_no_place_in_the_report(shown, tmp_path, name, old, new):
    for kind in ("tables", "figures"):
        shutil.copytree(shown / kind, tmp_path / kind)
    shutil.copy(shown / "pike.duckdb", tmp_path)
    given = (shown / "settings/experiment.json", tmp_path / "pike.duckdb")
    path = tmp_path / name
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text

    def write():
        report.write_report(
            *given, tmp_path / "tables", tmp_path / "figures", tmp_path / "index.html"
        )

    changed = rf"{path.name} (was changed|has .* bytes).*: make it with"
    with pytest.raises(InputError, match=changed):
        write()
    assert not (tmp_path / "index.html").exists()
    path.write_text(text, encoding="utf-8")
    manifest = atomic_files.read_json(made_from.manifest_beside(path))
    atomic_files.write_json(made_from.manifest_beside(path), manifest | {"files": {}})
    with pytest.raises(InputError, match=rf"does not list {path.stem}\.\w+: make it with"):
        write()
    made_from.manifest_beside(path).unlink()
    with pytest.raises(InputError, match=rf"vouches for {path.stem}\.(csv|svg): make it with"):
        write()


def test_a_row_leads_to_the_runs_of_its_one_method():
    rows = [
        {"section": "s / m", "scenario": "s", "row": row, "kind": "method", "column": column,
         "value": "1", "shown": "1", "runs": runs, **dict.fromkeys(number_marks.NOTES, "0")}
        for row, column, runs in (
            ("mix", "one", "s/m/mix/seed0 s/m/mix/seed1"), ("mix", "other", ""),
            ("mean", "one", "s/m/mix/seed0"), ("mean", "other", "s/m/pike/seed0"),
        )
    ]  # fmt: skip
    rows[0]["collapsed"] = "1"
    block = report_parts._section_block(pd.DataFrame(rows))
    assert [line["made"] for line in block["lines"]] == ["made-s-m-mix", ""]
    assert report_parts.table_notes([block]) == [number_marks.NOTES["collapsed"]]


def test_a_table_without_rows_says_so():
    page = report_parts.load_templates().from_string(
        '{% import "macros.html" as m with context %}{{ m.grid(table) }}'
    )
    table = {"name": "leaderboard", "blocks": [], "caption": "Empty. Nothing.",
             "view": "table_leaderboard"}  # fmt: skip
    shown = page.render(table=table, page="tables", files={"tables": "tables"}, labels={},
                        database="x.duckdb")  # fmt: skip
    assert 'id="table-leaderboard-all"' in shown
    assert "Empty." in shown
