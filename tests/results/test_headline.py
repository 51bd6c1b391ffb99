import re
from xml.etree import ElementTree

import pytest
from played import ask

from pipeline.results import headline, number_marks

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def docs(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    (folder / "results").mkdir()
    headline.write_headline_page_and_figure(made / "pike.duckdb", folder)
    return folder


def test_the_page_has_the_databases_numbers(made, docs):
    text = (docs / "results.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines.count("| | against Mix | seeds with a lower loss | shown |") == 2
    columns = "nll_difference, nll_low, nll_high, seeds_better"
    found = ask(
        made / "pike.duckdb", f"select {columns} from method_differences where against = 'mix'"
    )
    assert len(found) == 6
    for difference, low, high, lower in found:
        ends = f"({low:+.3f} to {high:+.3f}, 3 seeds) | {lower} of 3 |"
        number = re.escape(f"{difference:+.3f}") + "[^ ]* " + re.escape(ends)
        assert any(re.search(number, line) for line in lines), ends
    first = {line.split(" | ")[0] for line in lines[2:5]}
    assert first == {"| PiKE", "| Balanced-PiKE", "| Round-Robin"}
    assert number_marks.NOTES["collapsed"] in text
    assert "24 training runs, up to 3 seeds" in text
    # First what they show, in words: each method once, with the ends of its row.
    size = "(131 thousand parameters, 7.68 thousand tokens, 3 seeds)"
    for finding in (
        f"- **real** {size}. PiKE is better than Mix, by 0.024 nats. Round-Robin is worse than "
        "Mix, by 0.102 nats. For Balanced-PiKE no difference to Mix is shown: the interval lies "
        "between -0.012 and +0.025 nats.",
        f"- **languages** {size}. For PiKE, Balanced-PiKE and Round-Robin no difference to Mix is "
        "shown: all intervals lie between -0.062 and +0.169 nats.",
    ):
        assert finding in text.partition("## The record")[0]


def test_the_figure_shows_every_number_in_light_and_dark(docs):
    numbers = set()
    for name, colours in headline.COLOURS.items():
        text = (docs / f"results/headline-{name}.svg").read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        numbers |= {e.text for e in root.iter() if re.match(r"[+-]\d\.\d{3}", e.text or "")}
        assert root.get("fill") == colours["ink"]
    assert len(numbers) >= 6
