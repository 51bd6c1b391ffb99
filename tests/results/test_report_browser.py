"""The report's pages in a browser: drawn, read by keyboard, sorted, dimmed, and accessible."""

import re

import browser
import pytest

from pipeline.planning.records import PAGES

pytestmark = pytest.mark.workflow


SCRIPTS = {
    "drawn": (
        "index",
        """
        const drawn = [...document.querySelectorAll("[data-panel]")]
          .filter((svg) => svg.getBoundingClientRect().height > 50 && svg.querySelector("path"));
        const figure = document.getElementById("figure-losses-all");
        const button = figure.querySelector('[data-toggle="pike"]');
        button.click();
        const svg = figure.querySelector("[data-panel]");
        const box = svg.getBoundingClientRect();
        const told = () => document.getElementById("tip").textContent;
        const place = { clientX: box.right - 5, clientY: box.top + 40 };
        svg.dispatchEvent(new PointerEvent("pointermove", place));
        const tip = told();
        svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
        const off = [...figure.querySelectorAll('[data-key="pike"]')]
          .filter((group) => getComputedStyle(group).display === "none").length;
        const tall = document.documentElement.scrollHeight;
        const top = document.querySelector(".picture").getBoundingClientRect();
        return { drawn: drawn.length, tip, again: told(), off, tall, bottom: top.bottom,
                 pressed: button.getAttribute("aria-pressed") };
        """,
    ),
    "sorted": (
        "tables",
        """
        const table = document.querySelector("#table-perplexity-real table");
        const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
        const heading = table.tHead.rows[0].cells[1];
        const values = () => [...table.tBodies[0].rows].filter((row) => !row.matches(".reference"))
          .map((row) => parseFloat(row.cells[1].textContent));
        heading.querySelector("button").click();
        const sorted = () => heading.getAttribute("aria-sort");
        const [up, first] = [values(), sorted()];
        heading.querySelector("button").click();
        return { up, down: values(), first, second: sorted(), names: names() };
        """,
    ),
    "picked": (
        "tables",
        """
        const pick = document.getElementById("pick");
        pick.value = "round-robin";
        pick.dispatchEvent(new Event("change"));
        const dim = (selector) => [...document.querySelectorAll(selector)]
          .map((one) => one.classList.contains("dim"));
        return {
          row: dim('tr[data-method="round-robin"]'), other: dim('tr[data-method="pike"]'),
          lines: dim('[data-key="pike"]'), baseline: dim('tr[data-method="mix"]'),
          domains: dim('[data-key="easy"]'),
          panel: dim('[data-panel$="--mix"]'), panels: dim('[data-panel$="--pike"]'),
          link: document.querySelector("nav a:last-child").getAttribute("href"),
        };
        """,
    ),
}
"""What readers do on a page, and what they see then: drawn, sorted, picked out."""


@pytest.fixture(scope="module")
def wide(shown, tmp_path_factory):
    """What one dark browser finds on each page, and what each script answers."""
    folder = tmp_path_factory.mktemp("browser")

    def text(page):
        return (shown / f"report/{page}.html").read_text(encoding="utf-8")

    visits = [browser.Visit(text(page), script) for page, script in SCRIPTS.values()]
    visits += [browser.barriers(folder, text(page)) for page in PAGES]
    found = browser.answers(folder, *visits, options=(browser.DARK,))
    return dict(zip([*SCRIPTS, *PAGES], found, strict=True))


@pytest.fixture(scope="module")
def narrow(shown, tmp_path_factory):
    """What a light one of a telephone's width finds."""
    folder = tmp_path_factory.mktemp("browser")
    texts = [(shown / f"report/{page}.html").read_text(encoding="utf-8") for page in PAGES]
    visits = [browser.barriers(folder, text, 360) for text in texts]
    return dict(zip(PAGES, browser.answers(folder, *visits), strict=True))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("looks", "width"), [("narrow", 360), ("wide", 1440)])
def test_axe_finds_no_barrier(request, page, looks, width):
    found = request.getfixturevalue(looks)[page]
    assert found["told"] == []
    assert found["passed"] > 15
    assert found["dark"] == (looks == "wide")
    # Tables scroll in boxes of their own; the page itself never does.
    assert found["wide"] <= width


def test_plots_are_drawn_read_and_hidden(shown, wide):
    found = wide["drawn"]
    text = (shown / "report/index.html").read_text(encoding="utf-8")
    assert found["drawn"] == len(re.findall("<svg [^>]*data-panel=", text))
    assert (found["pressed"], found["off"] > 0) == ("false", True)
    assert "step 40" in found["tip"]
    assert "pike" not in found["tip"].replace("balanced-pike", "")
    assert "step 20" in found["again"]
    # The answer is on the first screen, and the page has six of them at most.
    assert found["bottom"] < 900
    assert found["tall"] <= 6 * 900


def test_headings_sort_their_table_and_references_stay_below(wide):
    found = wide["sorted"]
    assert found["up"] == sorted(found["up"])
    assert found["down"] == found["up"][::-1]
    assert len(set(found["up"])) > 1
    assert (found["first"], found["second"]) == ("ascending", "descending")
    assert found["names"][-1] in ("entropy floor", "unigram counts", "uniform guess")


def test_a_method_is_picked_out_everywhere_and_links_take_it_along(wide):
    found = wide["picked"]
    for kept in ("row", "baseline", "domains", "panel"):
        assert found[kept]
        assert not any(found[kept]), kept
    for dimmed in ("other", "lines", "panels"):
        assert found[dimmed]
        assert all(found[dimmed]), dimmed
    assert found["link"] == "provenance.html?method=round-robin"
