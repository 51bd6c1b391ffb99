import html.parser
import json
import re
import shutil
import subprocess

import pytest
from made_up import build

from pike_mixing.errors import InputError
from pipeline.results import database, report
from pipeline.runtime import atomic_files

pytestmark = pytest.mark.slow

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(html.parser.HTMLParser):
    """Collects what tests ask of a page, and checks that its elements nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.labels = [], [], [], []
        self.toggles, self.keys, self.data = set(), set(), ""
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
        self.toggles |= {values["data-toggle"]} if "data-toggle" in values else set()
        self.keys |= {values["data-key"]} if "data-key" in values else set()

    def handle_endtag(self, tag):
        if tag not in VOID:
            opened, _ = self.open.pop()
            assert opened == tag

    def handle_data(self, data):
        if self.open and self.open[-1][1].get("id") == "data":
            self.data += data


@pytest.fixture(scope="module")
def text(shown):
    return (shown / "report/index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_elements_nest_and_ids_are_unique(page):
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))


def test_the_page_needs_no_network(page, text):
    assert page.links
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert "@import" not in text
    assert not re.search(r"url\(\s*['\"]?(?!#)", text)


def test_links_inside_the_page_lead_somewhere(page):
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_every_line_of_the_data_is_in_the_page(page):
    figures = json.loads(page.data)
    series = [s for f in figures.values() for p in f["panels"] for s in p["series"]]
    assert len(series) > 50
    assert {s["id"] for s in series} <= set(page.ids)
    assert {s["key"] for s in series} == page.keys == page.toggles


def test_data_cannot_end_its_own_element(page, text):
    inside = text.split('id="data">')[1].split("</script>")[0]
    assert "<" not in inside
    assert json.loads(inside) == json.loads(page.data)


def test_a_newcomer_finds_verdicts_tables_plots_and_provenance(text):
    for words in (
        "What this is",
        "Verdicts at a glance",
        "has the lowest mean validation loss",
        "Every batch holds every domain in equal parts",
        "entropy floor",
        "revision of noise",
        "sentencepiece 0.2.3",
        "Nothing is out of date",
        "zeta1 0.05",
    ):
        assert words in text, words
    # What a template prints of a method that it took for a value.
    assert "built-in method" not in text


def test_accuracies_are_compared_by_the_paired_test(text):
    section = text.split('<section id="scenario-real"')[1].split("</section>")[0]
    assert "Accuracy against mix" in section
    assert "formulation cf, normalisation pmi, 0-shot, 60 items of 30 documents" in section
    assert re.search(r'<th scope="row">pike†‡</th><td>[+-]\d+\.\d</td><td>[+-].* to ', section)
    assert "no difference shown" in section
    assert "a\nfair coin would split" in section


def test_equal_inputs_give_equal_bytes(shown, tmp_path, text):
    report.write(
        shown / "settings/experiment.json",
        shown / "pike.duckdb",
        shown / "tables",
        shown / "figures",
        tmp_path / "index.html",
    )
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == text


def test_alarms_are_listed_by_run_with_what_they_mean(text):
    section = text.split('<section id="alarms">')[1].split("</section>")[0]
    lines = re.findall(r"<li><code>(.*?)</code>, step (\d+), ([a-z-]+): (.*)</li>", section)
    assert len(lines) == 8
    assert lines[:3] == [
        (
            "real/tiny/pike/seed0",
            "19",
            "effective-domains",
            "the mixture has collapsed; lower &lt;zeta1&gt;",
        ),
        ("real/tiny/pike/seed0", "29", "no-rows", "code had no row in the last 10 steps"),
        (
            "real/tiny/pike/seed1",
            "19",
            "effective-domains",
            "the mixture has collapsed; lower &lt;zeta1&gt;",
        ),
    ]


def test_alarms_sign_their_method_wherever_it_is_compared(text):
    section = text.split('<section id="scenario-real"')[1].split("</section>")[0]
    # The two lists of differences, and the note behind the first; a table's cells.
    assert section.count('<th scope="row">pike†‡</th>') == 2
    assert '<th scope="row">round-robin</th>' in section
    assert re.search(r'<p class="note">†: in one of its runs the weights collapsed', section)
    assert re.search(r'<span class="error">± \d+\.\d+</span>†‡</td>', section)


def test_runs_without_alarms_say_so(tmp_path):
    quiet = build(tmp_path, seeds=(0,), scenarios=("real",), methods=("mix",))
    database.build(quiet, tmp_path / "x.duckdb")
    empty = tmp_path / "empty"
    empty.mkdir()
    report.write(quiet, tmp_path / "x.duckdb", empty, empty, tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    section = text.split('<section id="alarms">')[1].split("</section>")[0]
    assert "<p>None.</p>" in section
    assert "<li>" not in section


def test_stale_runs_are_flagged_and_names_are_escaped(small, tmp_path):
    experiment = atomic_files.read_json(small)
    experiment["experiment"] = "a <b> & c"
    experiment["fingerprints"]["real/tiny/pike/seed0"] = "another"
    atomic_files.write_json(small, experiment)
    database.build(small, tmp_path / "x.duckdb")
    empty = tmp_path / "empty"
    empty.mkdir()
    report.write(small, tmp_path / "x.duckdb", empty, empty, tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Some of this is out of date" in text
    assert "<code>run/real/tiny/pike/seed0</code>: code changed" in text
    assert "a &lt;b&gt; &amp; c" in text
    assert "no error bar over seeds" in text
    assert Page(text).open == []


def test_a_missing_table_is_named_with_what_makes_it(small, tmp_path):
    experiment = atomic_files.read_json(small)
    experiment["tables"] = {"perplexity": {}}
    atomic_files.write_json(small, experiment)
    database.build(small, tmp_path / "x.duckdb")
    with pytest.raises(InputError, match=r"make it with `snakemake .*perplexity\.md`"):
        report.write(
            small, tmp_path / "x.duckdb", tmp_path / "t", tmp_path / "f", tmp_path / "r.html"
        )


PROBE = """
<script>
addEventListener("load", () => {
  const found = { errors: window.failures, panels: 0, off: 0, tip: "", again: "" };
  found.panels = [...document.querySelectorAll("[data-panel]")]
    .filter((svg) => svg.getBoundingClientRect().height > 50 && svg.querySelector("path")).length;
  const figure = document.querySelector('[data-figure="losses"]');
  const button = figure.querySelector('[data-toggle="pike"]');
  button.click();
  found.off = [...figure.querySelectorAll('[data-key="pike"]')]
    .filter((g) => getComputedStyle(g).display === "none").length;
  found.pressed = button.getAttribute("aria-pressed");
  const svg = figure.querySelector("[data-panel]");
  const box = svg.getBoundingClientRect();
  const place = { clientX: box.right - 5, clientY: box.top + 40 };
  svg.dispatchEvent(new PointerEvent("pointermove", place));
  found.tip = document.getElementById("tip").textContent;
  svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
  found.again = document.getElementById("tip").textContent;
  found.wide = document.documentElement.scrollWidth;
  document.title = JSON.stringify(found);
});
</script>
"""


@pytest.mark.workflow
@pytest.mark.parametrize("width", [500, 1440])
def test_a_browser_draws_the_page_without_errors(text, tmp_path, width):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    watch = "<script>window.failures = []; onerror = (m) => { failures.push(m); };</script>"
    probed = text.replace("<head>", "<head>" + watch).replace("</body>", PROBE + "</body>")
    (tmp_path / "index.html").write_text(probed, encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        "--virtual-time-budget=3000",
        "--dump-dom",
    ]
    profile, size = f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},2000"
    done = subprocess.run(
        [browser, *options, profile, size, (tmp_path / "index.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    found = json.loads(html.unescape(re.search(r"<title>(.*?)</title>", done.stdout)[1]))
    assert found["errors"] == []
    assert found["panels"] == len(re.findall("data-panel=", text))
    assert found["pressed"] == "false"
    assert found["off"] > 0
    assert "step 40" in found["tip"]
    assert "pike" not in found["tip"]
    assert "step 20" in found["again"]
    # Tables scroll in boxes of their own; the page itself never does.
    assert found["wide"] <= width


def test_every_number_of_a_run_leads_to_how_it_was_made(page, text):
    anchors = {link[1:] for link in page.links if link.startswith("#made-")}
    assert anchors
    assert anchors == {name for name in page.ids if name.startswith("made-")}
    # A cell, its row's name, and the place itself: weights, text, code and the command for more.
    place = text[text.index('<details id="made-real-tiny-pike"') :]
    place = place[: place.index("</details>")]
    for told in ("Final weights", "step 40", "pike why run/real/tiny/pike/seed0", "corpus/"):
        assert told in place
    assert re.search(r'<td[^>]*><a href="#made-real-tiny-pike" tabindex="-1">', text)


@pytest.mark.parametrize(
    ("name", "title"), [("table1", "Table 1"), ("figure12", "Figure 12"), ("costs", "Costs")]
)
def test_names_become_titles(name, title):
    assert report._titled(name) == title


def test_the_papers_own_come_apart_from_ours():
    made = [{"name": name} for name in ("table1", "costs", "figure3", "table_of_ours", "claims")]
    ours, paper = report._sorted(made)
    assert [one["name"] for one in ours] == ["costs", "table_of_ours", "claims"]
    assert [one["name"] for one in paper] == ["table1", "figure3"]


def test_a_figure_that_was_changed_gets_no_place_in_the_page(shown, tmp_path):
    for suffix in (".svg", ".json"):
        shutil.copy(shown / "figures" / f"losses{suffix}", tmp_path)
    path = tmp_path / "losses.svg"
    assert report.read_figure(tmp_path, "losses")["panels"]
    drawn = path.read_text(encoding="utf-8")
    path.write_text(drawn.replace("</svg>", "<script>alert(1)</script></svg>"), encoding="utf-8")
    with pytest.raises(InputError, match=r"losses\.svg was changed since it was drawn: make it"):
        report.read_figure(tmp_path, "losses")
    path.write_text(drawn, encoding="utf-8")
    atomic_files.write_json(tmp_path / "losses.json", {"name": "losses"})
    with pytest.raises(InputError, match=r"losses\.json is not whole"):
        report.read_figure(tmp_path, "losses")
