"""The whole experiment, from sources to the report, by one command."""

import pytest
from conftest import METHODS

from pipeline.planning import cross_checks
from pipeline.planning.plan import STANDALONE
from pipeline.results import figures, sql_views, tables
from pipeline.runtime import atomic_files


def test_the_database_holds_every_run_and_nothing_is_out_of_date(whole):
    runs = [{"run": f"words/tiny/{method}/seed0", "steps": 12} for method in sorted(METHODS)]
    assert whole.answer("select run, steps from runs order by run") == runs
    assert whole.answer("select * from stale") == []


@pytest.mark.parametrize(
    ("section", "write", "suffix"),
    [("tables", tables.write_table, ".md"), ("figures", figures.write_figure, ".svg")],
)
def test_every_output_is_made_and_an_empty_one_says_so(whole, tmp_path, section, write, suffix):
    """Every table and figure that there is, from the database of the tiny experiment."""
    kind, settings, made = section[:-1], tmp_path / "settings.json", {".md": ".md", ".svg": ".json"}
    every = {
        q.stem.removeprefix(f"{kind}_") for q in cross_checks.QUERY_FOLDER.glob(f"{kind}*.sql")
    }
    empty = set()
    # The database of an experiment that does not show the theory has none of it.
    for name in every.difference(STANDALONE[kind]):
        atomic_files.write_json(settings, {"name": name, "selection": {}})
        write(settings, whole.path("results/pike.duckdb"), tmp_path / f"{name}{suffix}")
        text = (tmp_path / name).with_suffix(made[suffix]).read_text(encoding="utf-8")
        empty |= {name} if sql_views.EMPTY in text else set()
    assert set() != empty != every
