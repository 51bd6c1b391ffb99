import io
import itertools
import json
import logging
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pike_mixing.errors import InputError
from pipeline.results.advice import advise
from pipeline.results.query import (
    _claim_report_lines,
    answer_query,
    describe_claims,
    describe_tables_and_figures,
)
from pipeline.results.why import explain_artifact

NUMBERS = "select * from (values ('a', 1.5, 1), ('bcd', null, 22)) as t (name, x, n) order by n"


@pytest.mark.parametrize(
    ("sql", "format", "text"),
    [
        (NUMBERS, "table", "name    x   n\n----  ---  --\na     1.5   1\nbcd        22\n(2 rows)"),
        ("select run from runs where false", "table", "run\n---\n(0 rows)"),
        ("select repeat('x', 100) as y", "table", f"y\n{'-' * 60}\n{'x' * 57}...\n(1 row)"),
        (NUMBERS, "csv", "name,x,n\na,1.5,1\nbcd,,22"),
        # Without a configuration: the word names no table here.
        ("select 'stale' as x -- stale", "csv", "x\nstale"),
        ("select count(*) > 0 as x from runs join runs as r using (run)", "csv", "x\nTrue"),
        ("from (pivot runs on seed using count(*)) select count(*) > 0 as x", "csv", "x\nTrue"),
        ("select 1 as a;", "csv", "a\n1"),
        ("select 1 as a, 2 as a, 3 as b", "csv", "a,a,b\n1,2,3"),
    ],
)
def test_tables_are_aligned_and_csv_holds_all_values(made, sql, format, text):
    assert answer_query(sql, made / "pike.duckdb", format) == text


def test_json_holds_all_values_and_no_nan(made):
    assert json.loads(answer_query(NUMBERS, made / "pike.duckdb", "json")) == [
        {"name": "a", "x": 1.5, "n": 1},
        {"name": "bcd", "x": None, "n": 22},
    ]
    text = answer_query("select 'nan'::double as x, [1, 2] as l", made / "pike.duckdb", "json")
    assert json.loads(text) == [{"x": None, "l": [1, 2]}]


def test_the_questions_asked_most_have_commands(made, tmp_path, monkeypatch, caplog):
    """Claims and tables; where results/ has none, those of `make restore`."""
    # Other tests write tables beside the database.
    (tmp_path / "restored").mkdir()
    for path in made.glob("pike.*"):
        (tmp_path / "restored" / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)
    every = json.loads(answer_query("from claims order by position", None, "json"))
    assert json.loads(describe_claims(None, "json")) == every
    advise(None)
    explain_artifact("table/claims", None)
    # Whoever has several is told first which one answers.
    said = [one.message for one in caplog.records if one.message.startswith("Answer from ")]
    source = "Answer from restored/pike.duckdb, experiment miniature: 24 runs"
    assert said == [source] * 4
    assert caplog.records[0].message == source
    lines = describe_claims(made / "pike.duckdb").splitlines()
    first = every[0]
    assert lines[0] == f"{len(every)} not run"
    assert lines[1].startswith(f"{first['claim']}: {first['verdict']}")
    # Certainty stands beside the verdict where there was a test; what is exact needs none.
    for p, told in ((0.0441, " (p = 0.044)"), (0.0, ""), (None, "")):
        (_, line, *_) = _claim_report_lines([first | {"ours": None, "ours_low": None, "p_holm": p}])
        assert line == f"{first['claim']}: {first['verdict']}{told}"
    assert " ".join(lines[2].split()) in first["statement"]
    assert lines[-1].endswith(": docs/claims.md")
    # What was decided stands first, each verdict under its number of claims.
    verdicts = ("not run", "supported", "too few seeds", "contradicted", "supported")
    mixed = [{**first, "claim": f"c{n}", "verdict": one} for n, one in enumerate(verdicts)]
    heads = [line for line in _claim_report_lines(mixed) if not line.startswith(" ")][:-3]
    order = (("2 supported", 1, 4), ("1 contradicted", 3), ("1 too few seeds", 2), ("1 not run", 0))
    wanted = [[head, *(f"c{n}: {head[2:]}" for n in claims)] for head, *claims in order]
    assert heads == [*itertools.chain(*wanted)]
    # What the paper's own tables say stands beside ours: here is no run, so it is all there is.
    assert "contradicted by the paper's own tables: 5" in lines
    (_, *about) = describe_claims(
        made / "pike.duckdb", claim="prior-weights-zero-shot"
    ).splitlines()
    own = "    The paper's own tables contradict it: pike-glam-init is 6.33 % below pike "
    assert f"{own}(glam, 750M, 0-shot)" in about
    assert "    s / m: pike over mix" in _claim_report_lines(
        [first | {"cell": "s / m: pike over mix"}]
    )
    for given, wrong in (
        ({"claim": "Pike-over-doremi"}, "'Pike-over-doremi' is unknown: did you mean 'pike-over-d"),
        ({"database": Path("pike-over-doremi")}, "type `pike claims --claim pike-over-doremi`"),
    ):
        with pytest.raises(InputError, match=wrong):
            describe_claims(**{"database": made / "pike.duckdb", **given})
    assert [*_claim_report_lines([])] == ["This experiment has none of the paper's claims."]
    narrow = answer_query("FROM claims", made / "pike.duckdb").splitlines()
    assert narrow[0].split() == ["claim", "statement", "ours", "verdict", "p_holm"]
    assert "all columns: `pike query 'select * FROM claims'`" in caplog.text
    with pytest.raises(InputError, match="restored has no tables or figures"):
        describe_tables_and_figures(None)
    for name in ("table10", "table2"):
        (tmp_path / "mine/tables").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"mine/tables/{name}.md").touch()
    names = [
        one["name"] for one in json.loads(describe_tables_and_figures(tmp_path / "mine", "json"))
    ]
    assert names == ["table2", "table10"]
    assert "mine/tables/table2.md\n    Table 2 of the paper" in describe_tables_and_figures(
        Path("mine")
    )


def test_parquet_can_be_read_back(made):
    data = answer_query("select run, steps from runs", made / "pike.duckdb", "parquet")
    assert pq.read_table(io.BytesIO(data))["steps"].to_pylist() == [40] * 24


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select * from perplexitie", "perplexities"),
        ("from perplexity", r"pike\.duckdb has no perplexity: did you mean table_perplexity\?"),
        ("from gradients", "has no gradients: did you mean table_gradients or figure_gradients"),
        ("r/pike.duckdb", "no statement: .* --database r/pike.duckdb`"),
    ],
)
@pytest.mark.parametrize("format", ["table", "parquet"])
def test_mistakes_are_explained(made, sql, message, format):
    with pytest.raises(InputError, match=message) as error:
        answer_query(sql, made / "pike.duckdb", format)
    assert "show tables" in str(error.value)


@pytest.mark.parametrize("sql", ["", " ", ";", "-- from runs", "/* from runs */;"])
@pytest.mark.parametrize("format", ["table", "parquet"])
def test_a_text_without_a_statement_is_refused(made, sql, format):
    with pytest.raises(InputError, match="holds no statement: ask for instance 'from runs'"):
        answer_query(sql, made / "pike.duckdb", format)


TWICE = "columns that have one name: a: name them apart"


@pytest.mark.parametrize(
    ("sql", "format", "message"),
    [
        ("select 1; select 2", "table", "there are 2 statements: ask one at a time"),
        ("select 1 as a, 2 as a, 3 as b", "json", TWICE),
        ("select 1 as a, 2 as a, 3 as b", "parquet", TWICE),
        ("select interval 1 month", "parquet", "Unhandled type for Arrow to Parquet"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(made, sql, format, message):
    with pytest.raises(InputError, match=message):
        answer_query(sql, made / "pike.duckdb", format)


def test_a_time_with_a_zone_is_shown_or_answered_with_a_way_out(made, monkeypatch):
    # None in sys.modules is how Python itself marks a module that cannot be imported.
    monkeypatch.setitem(sys.modules, "pytz", None)
    with pytest.raises(InputError, match="is shown after ::timestamp or ::text behind it"):
        answer_query("select now()", made / "pike.duckdb")
    assert (
        answer_query("select now()::timestamp is null as x", made / "pike.duckdb", "csv")
        == "x\nFalse"
    )


def test_a_missing_database_says_how_to_make_it(tmp_path):
    with pytest.raises(
        InputError,
        match=r"does not exist: `make run CONFIG=FILE` makes .* under `results`; `make restore`",
    ):
        answer_query("select 1", tmp_path / "pike.duckdb")
    with pytest.raises(InputError, match="is no file: `make run CONFIG=FILE` makes"):
        answer_query("select 1", tmp_path)
    (tmp_path / "pike.duckdb").touch()
    with pytest.raises(InputError, match=r"is a folder: give its database, .*/pike\.duckdb$"):
        answer_query("select 1", tmp_path)


def test_where_some_runs_alone_are_finished_their_databases_are_named(tmp_path):
    (tmp_path / "databases").mkdir()
    (tmp_path / "databases" / "table-table1.duckdb").touch()
    with pytest.raises(InputError, match=r"--database\): .*databases/table-table1\.duckdb$"):
        answer_query("select 1", tmp_path / "pike.duckdb")
