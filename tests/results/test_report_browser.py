"""The report's pages in a browser: drawn, read by keyboard, sorted, dimmed, and accessible."""

import re

import browser
import pytest

from pipeline.planning.records import PAGES

pytestmark = pytest.mark.workflow


@pytest.fixture
def seen(shown, tmp_path):
    """What a script answers inside a page of the report."""

    def look(page, script):
        text = (shown / f"report/{page}.html").read_text(encoding="utf-8")
        return browser.answer(tmp_path, text, script, name=page)

    return look


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "options"), [(360, ()), (1440, (browser.DARK,))])
def test_axe_finds_no_barrier(shown, tmp_path, page, width, options):
    text = (shown / f"report/{page}.html").read_text(encoding="utf-8")
    found = browser.barriers(tmp_path, text, name=page, width=width, options=options)
    assert found["told"] == []
    assert found["passed"] > 15
    assert found["dark"] == bool(options)
    # Tables scroll in boxes of their own; the page itself never does.
    assert found["wide"] <= width


def test_plots_are_drawn_read_and_hidden(shown, seen):
    found = seen(
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
    )
    text = (shown / "report/index.html").read_text(encoding="utf-8")
    assert found["drawn"] == len(re.findall("<svg [^>]*data-panel=", text))
    assert (found["pressed"], found["off"] > 0) == ("false", True)
    assert "step 40" in found["tip"]
    assert "pike" not in found["tip"].replace("balanced-pike", "")
    assert "step 20" in found["again"]
    # The answer is on the first screen, and the page has six of them at most.
    assert found["bottom"] < 900
    assert found["tall"] <= 6 * 900


def test_headings_sort_their_table_and_references_stay_below(seen):
    found = seen(
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
    )
    assert found["up"] == sorted(found["up"])
    assert found["down"] == found["up"][::-1]
    assert len(set(found["up"])) > 1
    assert (found["first"], found["second"]) == ("ascending", "descending")
    assert found["names"][-1] in ("entropy floor", "unigram counts", "uniform guess")


def test_a_method_is_picked_out_everywhere_and_links_take_it_along(seen):
    found = seen(
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
    )
    for kept in ("row", "baseline", "domains", "panel"):
        assert found[kept]
        assert not any(found[kept]), kept
    for dimmed in ("other", "lines", "panels"):
        assert found[dimmed]
        assert all(found[dimmed]), dimmed
    assert found["link"] == "provenance.html?method=round-robin"
