"""A database that replaces another takes over what is the same, and is what a new one would be."""

import copy
from collections import Counter

import duckdb
import pytest
from made_up import build, seal
from played import ask
from test_database import rewrite

import benchmarks.growth
from pike_mixing.errors import InputError
from pipeline.results import database, growth, measured
from pipeline.runtime import atomic_files

RUN = "real/tiny/pike/seed1"


def without(experiment, *runs):
    result = copy.deepcopy(experiment)
    for run in runs:
        del result["runs"][run]
    return result


def rows(path, kind="BASE TABLE"):
    """The rows of all base tables in any order, or of all views as they order them."""
    sql = "select table_name from information_schema.tables where table_type = ?"
    with duckdb.connect(str(path), read_only=True) as connection:
        names = connection.execute(sql, [kind]).fetchall()
        found = {name: connection.execute(f"from {name}").fetchall() for (name,) in names}
    return {n: Counter(map(repr, own)) if kind != "VIEW" else own for n, own in found.items()}


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Settings of three methods in two scenarios, two seeds; what was read of each database."""
    settings = build(tmp_path, methods=("mix", "round-robin", "pike"))
    read = []

    def listed(contents, connection, made):
        read.append({name for name, *_ in made})
        load(contents, connection, made)

    load = database.load
    monkeypatch.setattr(database, "load", listed)
    return settings, atomic_files.read_json(settings), read


def grown(settings, before, after, folder):
    """The database of `after` where it replaces that of `before`, and one made anew."""
    for name, experiment in (("grown", before), ("grown", after), ("new", after)):
        atomic_files.write_json(settings, experiment)
        database.build(settings, folder / f"{name}.duckdb")
    return rows(folder / "grown.duckdb"), rows(folder / "new.duckdb")


def test_a_run_that_is_added_is_all_that_is_read(two, tmp_path):
    settings, experiment, read = two
    result, expected = grown(settings, without(experiment, RUN), experiment, tmp_path)
    assert result == expected
    views = [rows(tmp_path / f"{name}.duckdb", "VIEW") for name in ("grown", "new")]
    assert views[0] == views[1]
    assert read[1] == {f"{kind}/{RUN}" for kind in ("run", "evaluation", "probe")}


def test_tests_are_made_again_where_a_run_was_added_and_nowhere_else(two, tmp_path):
    settings, experiment, _ = two
    out = tmp_path / "x.duckdb"
    atomic_files.write_json(settings, without(experiment, RUN))
    database.build(settings, out)
    for table in growth.TESTS:
        with duckdb.connect(str(out)) as connection:
            connection.execute(f"update {table} set seeds = 77")
    seal(out, out.with_suffix(".manifest.json"))
    atomic_files.write_json(settings, experiment)
    database.build(settings, out)
    for table in growth.TESTS:
        found = ask(out, f"select distinct scenario, seeds = 77 from {table} order by all")
        assert found == [("languages", True), ("real", False)]


def of_config(**changes):
    """Sections of the configuration, in the place of what is there."""
    return lambda experiment: experiment | {"config": experiment["config"] | changes}


def unevaluated(experiment):
    experiment["runs"][RUN] |= {"evaluations": False}
    return experiment


WITH_ORACLE = {"oracle": "round-robin"}
CHANGES = {
    "a run less": lambda experiment: without(experiment, RUN),
    "one scenario": lambda experiment: without(
        experiment, *(run for run in experiment["runs"] if run.startswith("real/"))
    ),
    "a run without evaluations": unevaluated,
    "another baseline": lambda experiment: experiment | {"baseline": "pike"},
    "an oracle": lambda experiment: experiment | WITH_ORACLE,
    "a target": of_config(
        scenarios={"real": {"target": {"code": 3.0, "prose": 1.0}}, "languages": {}}
    ),
    "two methods are asked for": of_config(runs=[{"methods": ["mix", "pike"]}]),
    "others are asked for": of_config(runs=[{"methods": ["another"]}]),
    # Claims compare its methods then.
    "a part in the paper": of_config(
        paper={"scenarios": {"real": "glam"}, "models": {"tiny": "gpt2-large"}}
    ),
    "a task of chance": of_config(sources={"code": {"kind": "synthetic", "order": 0}}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_grew_is_what_would_be_made_anew(two, tmp_path, change):
    settings, experiment, read = two
    changed = change(copy.deepcopy(experiment))
    result, expected = grown(settings, experiment, changed, tmp_path)
    assert result == expected
    assert read[1] == set()


def test_an_oracle_joins_all_scenarios(two, tmp_path):
    settings, experiment, _ = two
    experiment |= WITH_ORACLE
    result, expected = grown(settings, without(experiment, RUN), experiment, tmp_path)
    assert result == expected
    assert any(row.startswith("(None") for row in result["loss_tests"])


def test_records_that_were_made_again_are_read_again(two, tmp_path):
    settings, _, read = two
    database.build(settings, tmp_path / "x.duckdb")
    place = tmp_path / "results/runs" / RUN / "evaluations/step40/documents.parquet"
    sql = "select * replace (nll + 9 as nll) from read_parquet(?)"
    with duckdb.connect() as connection:
        worse = connection.sql(sql, params=[str(place)]).to_arrow_table()
    rewrite(place, worse)
    for name in ("x", "new"):
        database.build(settings, tmp_path / f"{name}.duckdb")
    assert read[1] == {f"evaluation/{RUN}"}
    assert rows(tmp_path / "x.duckdb") == rows(tmp_path / "new.duckdb")


def of_other(part, key, value):
    """The manifest says that other code or another package made the database."""

    def spoil(out):
        place = out.with_suffix(".manifest.json")
        content = atomic_files.read_json(place)
        content[part][key] = value
        atomic_files.write_json(place, content)

    return spoil


def edited(out):
    with duckdb.connect(str(out)) as connection:
        connection.execute("update documents set nll = 0")


def without_manifest(out):
    out.with_suffix(".manifest.json").unlink()


OF_OTHER_CODE = of_other("code", "fingerprint", "0" * 16)
OF_OTHER_PACKAGES = of_other("versions", "duckdb", "0.1")


@pytest.mark.parametrize("spoil", [OF_OTHER_CODE, OF_OTHER_PACKAGES, edited, without_manifest])
def test_what_another_code_or_hand_made_is_not_taken_over(two, tmp_path, spoil):
    settings, _, read = two
    out = tmp_path / "x.duckdb"
    database.build(settings, out)
    before = rows(out)
    spoil(out)
    database.build(settings, out)
    assert read[0] == read[1]
    assert rows(out) == before


def test_a_record_that_is_gone_is_missed_though_it_is_not_read(two, tmp_path):
    settings, _, _ = two
    database.build(settings, tmp_path / "x.duckdb")
    place = tmp_path / "results/runs" / RUN / "steps.parquet"
    place.write_bytes(place.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"steps\.parquet has .* the manifest says"):
        database.build(settings, tmp_path / "x.duckdb")
    place.unlink()
    with pytest.raises(InputError, match=r"steps\.parquet is missing"):
        database.build(settings, tmp_path / "x.duckdb")


@pytest.mark.slow
def test_the_benchmark_of_growth_ends(tmp_path, monkeypatch):
    settings = build(tmp_path, seeds=(0, 1, 2), scenarios=("real",), methods=("mix", "pike"))
    asked = settings.parent / "tables" / "perplexity.json"
    atomic_files.write_json(asked, {"name": "perplexity", "selection": {}})
    out = tmp_path / "growth.json"
    words = ["--results", str(tmp_path / "results"), "--runs", "5", "--rounds", "1"]
    monkeypatch.setattr("sys.argv", ["growth", "--out", str(out), *words])
    benchmarks.growth.main()
    found = atomic_files.read_json(out)["median"]
    assert found["whole"] > 0
    assert {"one less of the largest and that added", "whole in quarters"} <= set(found)


def test_two_losses_of_one_document_are_refused(two, tmp_path):
    settings, _, _ = two
    database.build(settings, tmp_path / "x.duckdb")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("insert into documents from documents limit 1")
        with pytest.raises(InputError, match="two losses of one document"):
            measured.read_losses(connection, "real", "tiny")
