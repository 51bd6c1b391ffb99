"""The report's pages in a browser: drawn, sorted and accessible."""

import browser
import pytest

from pipeline.planning.manifest_places import PAGES

pytestmark = pytest.mark.workflow


SCRIPTS = {
    "drawn": (
        "index",
        """
        const tall = document.documentElement.scrollHeight;
        const top = document.querySelector(".picture").getBoundingClientRect();
        const drawn = [...document.querySelectorAll("img")].map((image) => image.naturalWidth);
        return { drawn, tall, bottom: top.bottom };
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
}
"""What readers do on a page, and what they see then."""


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


def test_the_answer_is_on_the_first_screen_and_plots_are_drawn(wide):
    found = wide["drawn"]
    assert found["drawn"]
    assert min(found["drawn"]) > 500
    assert found["bottom"] < 900
    assert found["tall"] <= 6 * 900


def test_headings_sort_their_table_and_references_stay_below(wide):
    found = wide["sorted"]
    assert found["up"] == sorted(found["up"])
    assert found["down"] == found["up"][::-1]
    assert len(set(found["up"])) > 1
    assert (found["first"], found["second"]) == ("ascending", "descending")
    assert found["names"][-1] in ("entropy floor", "unigram counts", "uniform guess")
