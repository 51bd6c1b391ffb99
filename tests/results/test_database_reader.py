import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from made_up import write_output
from played import fresh, insert

from pike_mixing.errors import InputError
from pipeline.results import report, result_manifests, sql_views
from pipeline.results.advice import advise
from pipeline.results.database import build_database
from pipeline.results.database_reader import (
    connect,
    connect_database_of_any_version,
    frame,
    given_or_default_database,
    select_rows_keeping_nulls,
)
from pipeline.results.number_marks import read_doubts_by_method
from pipeline.results.query import answer_query, describe_claims
from pipeline.results.why import explain_artifact
from pipeline.runtime import atomic_files, made_from


@pytest.fixture
def connection(made):
    connection = connect(made / "pike.duckdb")
    yield connection
    connection.close()


GUESSES = {"uniform guess", "unigram counts", "entropy floor"}


@pytest.mark.parametrize(
    ("view", "selection", "column", "values"),
    [
        ("table_costs", {"scenarios": ["languages"]}, "scenario", {"languages"}),
        # Rows of no method stay when methods are selected.
        ("table_perplexity", {"methods": ["pike"]}, "row_label", {"pike", *GUESSES}),
        # Any column of the view can be selected.
        ("table_gradients", {"quantity": ["variance"]}, "quantity", {"variance"}),
        # A method without rows in the view is no mistake.
        ("table_gradients", {"methods": ["mix"]}, "method", set()),
    ],
)
def test_selected_rows_remain_in_the_order_of_the_view(connection, view, selection, column, values):
    found = select_rows_keeping_nulls(connection, view, selection, "x")
    assert {row[column] for row in found} == values
    assert found == [
        row for row in select_rows_keeping_nulls(connection, view, {}, "x") if row in found
    ]


def test_rows_of_a_table_that_a_selection_leaves_out_are_named(connection, caplog):
    methods = ["mix", "pike", "balanced-pike", "round-robin"]
    select_rows_keeping_nulls(connection, "table_costs", {"methods": methods}, "x")
    assert "leaves out" not in caplog.text
    select_rows_keeping_nulls(connection, "table_costs", {"methods": methods[:2]}, "x.json")
    told = "x.json.selection.methods leaves out rows of table_costs: "
    (message,) = [one.message for one in caplog.records]
    assert message.startswith(told)
    left, _, remedy = message.removeprefix(told).partition("; ")
    assert set(left.split(", ")) == {*methods[2:]}
    assert remedy.endswith("table_costs.sql give it no method (`null as method`)")


@pytest.mark.parametrize(
    ("view", "selection", "message"),
    [
        ("table_costs", {"methods": ["pik"]}, "x.selection.methods: 'pik' is unknown: did you"),
        ("table_costs", {"method_name": ["pike"]}, "x.selection: 'method_name' is unknown"),
        ("table_costs", {"methods": "pike"}, "'pike' is not a list"),
        ("table_cost", {}, "x.query: 'table_cost' is unknown: did you mean 'table_costs'"),
        ("table_costs", {"seeds": [0]}, "over all runs of the database"),
    ],
)
def test_mistakes_are_named_where_they_were_made(connection, view, selection, message):
    with pytest.raises(InputError, match=message):
        select_rows_keeping_nulls(connection, view, selection, "x")


def test_seeds_may_be_selected_where_the_database_has_no_others(connection):
    assert select_rows_keeping_nulls(connection, "table_costs", {"seeds": [0, 1, 2]}, "x")


WHOLE, RESTORED = "results/pike.duckdb", "restored/pike.duckdb"
PART, OTHER = "restored/databases/table-table2.duckdb", "restored/databases/table-table1.duckdb"


@pytest.mark.parametrize(
    ("in_turn", "asked"),
    [
        ([], WHOLE),
        ([RESTORED, WHOLE], WHOLE),
        ([WHOLE, RESTORED], RESTORED),
        # What `pike restore --only` has just made.
        ([PART, OTHER], OTHER),
        ([WHOLE, PART], PART),
        # All runs of a folder say more than some of them.
        ([RESTORED, PART], RESTORED),
        ([RESTORED, WHOLE, PART], RESTORED),
    ],
)
def test_the_database_that_was_made_last_is_asked(tmp_path, monkeypatch, in_turn, asked):
    monkeypatch.chdir(tmp_path)
    for time, name in enumerate(in_turn):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
        os.utime(name, (time, time))
    assert given_or_default_database(None) == Path(asked)
    # The one that is named is asked, whatever else there is.
    assert given_or_default_database(Path(WHOLE)) == Path(WHOLE)


def test_nobody_is_told_to_delete_a_file(tmp_path):
    (tmp_path / "passwd").write_text("root:x:0:0\n" * 1000)
    with pytest.raises(InputError, match=r"passwd cannot be opened \(.*\): check the path$"):
        connect(tmp_path / "passwd")


def test_a_database_that_another_process_writes_is_waited_for(tmp_path):
    code = (
        "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); "
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "pike.duckdb"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match=r"lock.*: wait until that process has closed it$"):
            connect(tmp_path / "pike.duckdb")
        holder.stdin.close()


def answers(database, out):
    """Every reader of a database, by name: a call that makes or returns something."""
    settings = database.parent / "settings"
    return {
        "query": lambda: answer_query("select 1", database),
        "why": lambda: explain_artifact("run/real/tiny/mix/seed0", database),
        "advise": lambda: advise(database),
        "frames": lambda: connect_database_of_any_version(database).close(),
        "table": lambda: write_output("table", "perplexity", database, out),
        "figure": lambda: write_output("figure", "losses", database, out),
        "report": lambda: report.write_report(
            settings / "experiment.json", database, out / "tables", out / "figures", out / "i.html"
        ),
    }


def test_a_log_of_somebodys_changes_is_named_and_goes_with_its_database(small, tmp_path):
    database = small.parents[1] / "pike.duckdb"
    build_database(small, database)
    code = (
        "import duckdb, os, signal, sys; own = duckdb.connect(sys.argv[1]); "
        "own.execute('create view mine as select method from runs'); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, database], check=False)
    log = database.with_name("pike.duckdb.wal")
    assert log.exists()
    for name, answer in answers(database, tmp_path / "out").items():
        with pytest.raises(InputError, match=r"pike\.duckdb\.wal holds changes.*`rm .*wal`$"):
            answer()
        assert not list((tmp_path / "out").rglob("*.manifest.json")), name
    build_database(small, database)
    assert not log.exists()
    with pytest.raises(InputError, match="mine"):
        answer_query("from mine", database)


def test_every_reader_says_that_queries_changed_since_its_database_was_built(
    small, tmp_path, monkeypatch, caplog
):
    """The code, the queries and the paper's numbers each have a part of the fingerprint."""
    database = small.parents[1] / "pike.duckdb"
    build_database(small, database)
    monkeypatch.chdir(database.parent)
    every = answers(database, tmp_path / "out")
    for answer in every.values():
        answer()
    assert "is older than" not in caplog.text
    path = database.with_name("pike.manifest.json")
    made = atomic_files.read_json(path)
    code, sql, paper = made["code"]["fingerprint"].split("-")
    changed = {
        "pipeline/results/sql": f"{code}-0-{paper}",
        "the code of pipeline.results.database": f"0-{sql}-{paper}",
        "pipeline/paper": f"{code}-{sql}-0",
    }
    for part, fingerprint in changed.items():
        atomic_files.write_json(path, made | {"code": made["code"] | {"fingerprint": fingerprint}})
        for name, answer in every.items():
            caplog.clear()
            answer()
            told = f"pike.duckdb is older than {part}, and its answers are the old ones: `snakemake"
            assert told in caplog.text, name
    atomic_files.write_json(path, made)
    # One of a table that was built later answers with today's queries.
    newer = database.parent / "databases" / "table-costs.duckdb"
    newer.parent.mkdir()
    shutil.copy(database, newer)
    os.utime(newer, ns=(database.stat().st_mtime_ns + 10**9,) * 2)
    old = made | {"code": made["code"] | {"fingerprint": fingerprint}}
    atomic_files.write_json(path, old)
    for content, is_named in ((made, True), (old, False)):
        atomic_files.write_json(newer.with_name("table-costs.manifest.json"), content)
        caplog.clear()
        every["query"]()
        assert (f"newer is --database {newer}" in caplog.text) == is_named


@pytest.mark.parametrize("view", ["doubtful_runs", "claims"])
def test_a_view_that_an_older_database_lacks_is_told_as_such(tmp_path, view):
    database = tmp_path / "pike.duckdb"
    with fresh(path=database) as connection:
        insert(connection, "experiment", name="e", baseline="mix", config="{}")
        connection.execute(f"drop view {view}")
    asked = {
        "doubtful_runs": [advise, lambda d: read_doubts_by_method(connect(d), "x")],
        "claims": [describe_claims, lambda d: answer_query("from Claims", d)],
    }[view]
    for ask in (
        *asked,
        lambda d: frame(view, d),
        lambda d: select_rows_keeping_nulls(connect(d), view, {}, "x"),
    ):
        with pytest.raises(InputError, match="made by another version: make it anew with `snakem"):
            ask(database)


def test_the_first_line_counts_the_runs_that_served_others(tmp_path, caplog):
    asked = {"scenarios": ["s"], "models": ["m"], "methods": ["mix", "pike"], "seeds": [1, 2]}
    path = tmp_path / "pike.duckdb"
    with fresh(path=path) as connection:
        insert(
            connection, "experiment", name="e", baseline="mix", config=json.dumps({"runs": [asked]})
        )
        for method, seed in (("mix", 1), ("pike", 1), ("pike", 2), ("pike", 100), ("proxy", 1)):
            names = {"scenario": "s", "model": "m", "method": method, "seed": seed}
            insert(connection, "runs", run=f"s/m/{method}/seed{seed}", **names)
    caplog.set_level("INFO")
    answer_query("select 1", path)
    end = "experiment e: 3 runs, and 2 that chose settings for them\n"
    assert f"Answer from {path}, {end}" in caplog.text
    with pytest.raises(InputError, match=rf"is a folder: give its database, {path}$"):
        answer_query("select 1", tmp_path)


def test_a_database_of_some_runs_names_the_one_of_all(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    part = Path("restored/databases/table-table2.duckdb")
    part.parent.mkdir(parents=True)
    with fresh(path=part) as connection:
        insert(connection, "experiment", name="e", baseline="mix", config="{}")
    atomic_files.write_json(
        Path("restored/databases/table-table2.manifest.json"),
        {"stage": "database", "inputs": {"../../recorded/manifest.json": "0"}, "files": {}},
    )
    whole = "restored/pike.duckdb, once `pike restore recorded --out restored` has built it"
    caplog.set_level("INFO")
    monkeypatch.setattr(result_manifests, "known_alteration", lambda *_: None)
    monkeypatch.setattr(result_manifests, "outdated_code_parts", lambda *_: [])
    monkeypatch.setattr(made_from, "differences_from_today_if_finished", lambda *_: [])
    describe_claims(None)
    assert f"{part}, experiment e: 0 of its runs; for all, ask {whole}" in caplog.text
    # Where to ask for all is said once.
    assert "claims about other runs than those are `not run` here\n" in caplog.text
    assert caplog.text.count("ask ") == 1
    Path("restored/pike.duckdb").touch()
    caplog.clear()
    describe_claims(part)
    assert caplog.text.count("ask restored/pike.duckdb\n") == 1
    with duckdb.connect(part) as connection:
        connection.execute("drop view audit; drop view table_claims; drop view claims")
    caplog.clear()
    for question in (lambda: answer_query("from audit", part), lambda: describe_claims(part)):
        with pytest.raises(InputError, match=r"this is not among it: ask restored/pike\.duckdb$"):
            question()
    assert caplog.text == ""


def test_a_restored_database_names_what_restores_the_tables_of_a_changed_query(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sql_views.SQL, tmp_path / "sql")
    monkeypatch.setattr(sql_views, "SQL", tmp_path / "sql")
    whole = Path("restored/pike.duckdb")
    whole.parent.mkdir()
    fresh("table2", path=whole).close()
    atomic_files.write_json(
        Path("restored/pike.manifest.json"), {"inputs": {"../recorded/manifest.json": "0"}}
    )
    for name in ("tables/table1.md", "tables/table2.md", "tables/table3.md", "tables/own.md"):
        (whole.parent / name).parent.mkdir(exist_ok=True)
        (whole.parent / name).touch()
    for path in (tmp_path / "sql").rglob("*.sql"):
        os.utime(path, (1, 1))
    monkeypatch.setattr(result_manifests, "known_alteration", lambda *_: None)
    monkeypatch.setattr(
        result_manifests, "outdated_code_parts", lambda *_: ["pipeline/results/sql"]
    )
    monkeypatch.setattr(made_from, "differences_from_today_if_finished", lambda *_: [])
    again = "`pike restore recorded --out restored` builds it again"
    for changed, hint in (
        ("schema", ""),
        ("table2", ", `pike restore recorded --out restored --only table2` only what the changed"),
        (
            "paper/score_table_cells",
            ", `pike restore recorded --out restored --only table1 table2` only",
        ),
    ):
        os.utime(tmp_path / f"sql/{changed}.sql")
        caplog.clear()
        answer_query("select 1", whole)
        assert f"{again}{hint or chr(10)}" in caplog.text


def test_another_database_of_the_same_size_is_told(small, tmp_path, caplog):
    database = small.parents[1] / "pike.duckdb"
    build_database(small, database)
    every = answers(database, tmp_path / "out")
    for name in ("query", "why", "advise", "table"):
        every[name]()
    assert "was changed" not in caplog.text
    experiment = atomic_files.read_json(small) | {"experiment": "elsewhere"}
    atomic_files.write_json(small.with_name("other.json"), experiment)
    build_database(small.with_name("other.json"), tmp_path / "other.duckdb")
    assert (tmp_path / "other.duckdb").stat().st_size == database.stat().st_size
    shutil.copy(tmp_path / "other.duckdb", database)
    for name in ("query", "why", "advise"):
        caplog.clear()
        every[name]()
        assert "pike.duckdb was changed" in caplog.text, name
    for name in ("table", "figure", "report"):
        with pytest.raises(InputError, match=r"pike\.duckdb was changed.*make it with `snakemake"):
            every[name]()
