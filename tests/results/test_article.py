"""The page of the paper's tables and figures: all, once, in its order, without another file."""

import csv
import html
import re
import subprocess
from pathlib import Path

import pytest
from made_up import write_output
from repository import ROOT
from test_report import Page

from pike_mixing.errors import InputError
from pipeline.planning.manifest_places import OF_PAPER
from pipeline.results import article, report_parts, sql_views

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def printed(made, tmp_path_factory):
    """A folder with the page of all 22, made from invented runs."""
    folder = tmp_path_factory.mktemp("article")
    for name in OF_PAPER:
        write_output(name.rstrip("0123456789"), name, made / "pike.duckdb", folder)
    out = folder / "article" / "index.html"
    article.write_article(OF_PAPER[::-1], folder / "tables", folder / "figures", out)
    return folder


def test_the_order_is_that_of_the_papers_labels():
    with (ROOT / "pipeline/paper/labels.csv").open(encoding="utf-8", newline="") as lines:
        labels = [(row["kind"], row["label"]) for row in csv.DictReader(lines)]
    # Tables 9 and 10 bear two labels each.
    again = [label for _, label in labels if label.startswith("tab:partial_") and "shots" in label]
    kinds = [kind for kind, label in labels if kind in ("table", "figure") and label not in again]
    assert [name.rstrip("0123456789") for name in OF_PAPER] == kinds
    for kind, count in (("table", 14), ("figure", 8)):
        numbers = [int(name.removeprefix(kind)) for name in OF_PAPER if name.startswith(kind)]
        assert numbers == [*range(1, count + 1)]


def test_each_is_there_once_in_order_with_its_caption_and_no_other_file(printed):
    text = (printed / "article/index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert (page.open, len(page.ids)) == ([], len({*page.ids}))
    assert re.findall(r'<figure id="(\w+)">', text) == list(OF_PAPER)
    assert text.count("<img ") == 8
    for link in page.links:
        assert link.startswith("data:") or link.removeprefix("#") in page.ids, link
    assert not re.search(r"@import|url\(|<script|<link rel=\"(?!icon)", text)
    for name in OF_PAPER:
        caption = html.escape(sql_views.caption(sql_views.view_of(name)), quote=False)
        head = f"<strong>{report_parts.title_of(name)}</strong>. "
        assert head + caption in text.replace("&#34;", '"').replace("&#39;", "'"), name
    assert "Not in this configuration" not in text
    # What the paper prints stands beside ours, where nothing of ours was run, too.
    assert text.count('<p class="part">As printed') >= 14


def test_what_is_not_shown_is_named_and_nothing_else_is_taken(printed, tmp_path):
    folders = printed / "tables", printed / "figures"
    article.write_article(["table8", "figure3"], *folders, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert re.findall(r'<figure id="(\w+)">', text) == ["figure3", "table8"]
    missing = re.search(r"Not in this configuration: (.*)\.</p>", text)[1].split(", ")
    assert len(missing) == 20
    with pytest.raises(InputError, match="'costs' is no table or figure of the paper"):
        article.write_article(["costs"], *folders, tmp_path / "b.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"table1\.manifest\.json does not exist"):
        article.write_article(["table1"], tmp_path / "empty", folders[1], tmp_path / "b.html")


def test_it_is_printed_where_a_browser_is_and_without_one_nothing_fails(tmp_path):
    page, tools = tmp_path / "a page.html", tmp_path / "bin"
    page.write_text("<p>", encoding="utf-8")
    page.with_suffix(".pdf").write_text("of an earlier page", encoding="utf-8")
    tools.mkdir()

    def tried():
        words = ["/bin/sh", ROOT / "workflow/print_pdf.sh", page]
        for tool in ("rm", "mktemp", "realpath"):
            (tools / tool).unlink(missing_ok=True)
            (tools / tool).symlink_to(Path("/bin") / tool)
        done = subprocess.run(words, env={"PATH": str(tools)}, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, page.with_suffix(".pdf").exists()

    code, told, is_there = tried()
    assert (code, is_there) == (0, False)
    assert "no PDF, since neither chromium nor google-chrome is installed" in told
    browser = tools / "chromium"
    for script, expected in (
        ('for w; do case $w in --print-to-pdf=*) echo x > "${w#*=}";; esac; done', (0, True)),
        ("echo out of memory >&2; exit 3", (1, False)),
        ("echo nothing", (1, False)),
    ):
        browser.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        browser.chmod(0o755)
        code, told, is_there = tried()
        assert (code, is_there) == expected, told
    assert "nothing" in told
