"""The whole experiment, from sources to the report, by one command."""

import json

import pytest

from pike_mixing.errors import InputError
from pipeline.planning import cross_checks, planner
from pipeline.planning.plan import STANDALONE
from pipeline.results import figures, tables
from pipeline.runtime import atomic_files

pytestmark = pytest.mark.workflow

METHODS = ("mix", "mostly-easy", "pike", "balanced")


def test_the_copy_uses_its_own_code(whole):
    done = whole.run("pipeline.__main__", "query", "--help")
    assert done.returncode == 0
    code = "import pipeline; print(pipeline.__file__)"
    whole.path("where.py").write_text(code, encoding="utf-8")
    assert whole.run("where").stdout.strip() == str(whole.path("pipeline/__init__.py"))


def test_everything_that_was_asked_for_is_there(whole):
    tables = ("perplexity", "accuracy", "gradients", "costs")
    figures = ("losses", "weights", "similarities", "gradients")
    expected = [
        "results/pike.duckdb",
        "results/report/index.html",
        *(
            f"results/tables/{name}{suffix}"
            for name in tables
            for suffix in (".md", ".csv", ".tex")
        ),
        *(f"results/figures/{name}{suffix}" for name in figures for suffix in (".svg", ".png")),
        *(whole.manifest(method) for method in METHODS),
    ]
    assert [name for name in expected if not whole.path(name).stat().st_size] == []


def test_the_database_holds_every_run_and_answers(whole):
    done = whole.pike("query", "--format", "json", "select run, steps from runs order by run")
    assert done.returncode == 0, done.stdout
    runs = [{"run": f"words/tiny/{method}/seed0", "steps": 12} for method in sorted(METHODS)]
    assert json.loads(done.stdout) == runs


def test_nothing_is_out_of_date_after_one_run(whole):
    done = whole.pike("query", "--format", "json", "select * from stale")
    assert json.loads(done.stdout) == []


def test_why_leads_from_a_table_to_the_text(whole):
    done = whole.pike("why", "table/perplexity")
    assert done.returncode == 0, done.stdout
    for name in ("run/words/tiny/pike/seed0", "corpus/letters/notes", "source/notes"):
        assert name in done.stdout


@pytest.mark.parametrize(
    ("section", "write", "suffix"),
    [("tables", tables.write, ".md"), ("figures", figures.write, ".svg")],
)
def test_a_plan_refuses_what_is_empty_and_nothing_else(whole, tmp_path, section, write, suffix):
    """Every table and figure that there is, from the database of the tiny experiment."""
    kind, settings = section[:-1], tmp_path / "settings.json"
    config = planner.read(whole.path("config.yaml")) | {"tables": {}, "figures": {}}
    refused, empty = set(), set()
    every = {q.stem.removeprefix(f"{kind}_") for q in cross_checks.QUERIES.glob(f"{kind}*.sql")}
    # The database of an experiment that does not show the theory has none of it.
    for name in every.difference(STANDALONE[kind]):
        atomic_files.write_json(settings, {"name": name, "selection": {}})
        try:
            planner.plan(config | {section: {name: {}}}, "config.yaml")
        except InputError as error:
            refused |= {name} if f"{section}.{name} would be empty: " in str(error) else set()
        try:
            write(settings, whole.path("results/pike.duckdb"), tmp_path / f"{name}{suffix}")
        except InputError as error:
            if "is empty: no selected run" in str(error):
                empty.add(name)
    assert refused == empty != set()
