"""A configuration in two files."""

import pytest

from pike_mixing.errors import InputError
from pipeline.planning import planner


def test_sections_come_from_the_file_that_is_included(tmp_path):
    (tmp_path / "outputs.yaml").write_text("tables: {costs: {}}\npaper: {comparable: false}\n")
    (tmp_path / "mine.yaml").write_text("results: mine\ninclude: outputs.yaml\n")
    assert planner.read(tmp_path / "mine.yaml") == {
        "results": "mine",
        "tables": {"costs": {}},
        "paper": {"comparable": False},
    }


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("none.yaml", "include: .*none.yaml does not exist: give its path from"),
        ("[outputs.yaml]", r"include: \['outputs.yaml'\] is no path"),
        ("mine.yaml", "mine.yaml: include, results: stands in the configuration that includes"),
        ("outputs.yaml", "outputs.yaml: results: stands in the configuration that includes this"),
    ],
)
def test_what_cannot_be_included_is_refused(tmp_path, include, message):
    (tmp_path / "outputs.yaml").write_text("results: theirs\n")
    (tmp_path / "mine.yaml").write_text(f"results: mine\ninclude: {include}\n")
    with pytest.raises(InputError, match=message):
        planner.read(tmp_path / "mine.yaml")
