"""Links and paths of the documentation exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "results" / "README.md"]
FOLDERS = "|".join(
    ("benchmarks", "docs", "examples", "pike_mixing", "pipeline", "tests", "workflow")
)


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_paths_exist(page):
    text = page.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if not path.startswith("http"):
            target = page.parent / path if path else page
            assert target.exists(), path
            assert not anchor or anchor in anchors(target), f"{path}#{anchor}"
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path
