"""Databases, tables, figures and a report of a made-up experiment."""

from pathlib import Path

import pytest
from made_up import OWN_FIGURES, build, write_output
from played import NAMES, PRINTED, fresh, insert, play

from pipeline.results import database, report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Whatever waits for a made-up experiment's database is slow."""
    for item in items:
        here = item.path.parent == Path(__file__).parent
        if here and {"made", "shown", "small", "two"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def created():
    connection = fresh()
    insert(connection, "experiment", name="e", baseline="mix", config="{}")
    insert(connection, "defaults", kind="paper", settings='{"headline": "cf"}')
    yield connection
    connection.close()


@pytest.fixture
def empty(created):
    """A database with all tables and views, and no run; what a test inserts is undone."""
    created.execute("begin")
    yield created
    created.execute("rollback")


@pytest.fixture
def paper(empty):
    """The paper's names and some of its numbers; `symbols` plays three languages, `nano` large."""
    empty.executemany("insert into paper_names values (?, ?, ?, ?)", NAMES)
    for table, scenario, method, metric, task, shots, value in PRINTED:
        insert(
            empty, "paper", paper_table=table, scenario=scenario, model="gpt2-large", params="1B",
            method=method, metric=metric, task=task, shots=shots, value=value, bold=value == 9.49,
            underlined=False,
        )  # fmt: skip
    tasks = {"easy": "en", "continuation-easy": "hellaswag_en", "code": "books"}
    play(
        empty,
        scenario=[("symbols", "mc4-en-hi-de"), ("text", "glam")],
        model=[("nano", "gpt2-large")],
        task=[*tasks.items(), ("continuation-code", "arc_easy")],
        method=["mix", "round-robin", "random", "pike", "glam", "single-hi"],
    )
    return empty


@pytest.fixture
def small(tmp_path):
    """Settings of a small experiment whose records may be spoilt."""
    return build(tmp_path, seeds=(0,), scenarios=("real",), methods=("mix", "pike"))


@pytest.fixture(scope="session")
def made(made_once):
    """A results folder with its database. Not to be written to."""

    def fill(root):
        database.build_database(build(root), root / "results" / "pike.duckdb")

    return made_once("made", fill) / "results"


@pytest.fixture(scope="session")
def shown(made, made_once):
    """The same with tables, figures (of two methods, to save time) and the report too."""

    def fill(_):
        for name in ("perplexity", "accuracy", "gradients", "costs"):
            write_output("table", name, made / "pike.duckdb", made)
        for name in OWN_FIGURES:
            two = {"methods": ["mix", "pike"]}
            write_output("figure", name, made / "pike.duckdb", made, selection=two)
        report.write_report(
            made / "settings" / "experiment.json",
            made / "pike.duckdb",
            made / "tables",
            made / "figures",
            made / "report" / "index.html",
        )

    made_once("shown", fill)
    return made
