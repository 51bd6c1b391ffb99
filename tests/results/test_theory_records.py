"""The theory's records in the database: loaded, audited, traced; damaged ones are named."""

import duckdb
import pyarrow.parquet as pq
import pytest
from made_up import write_output

from pipeline.results import database, database_reader, record_loader, why
from pipeline.runtime import atomic_files
from pipeline.theory import stage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "theory"
    stage.write_theory_records(out, stage.TheorySizes(paths=20, draws=20, seeds=2))
    return out


def settings(root, theory):
    empty = {key: {} for key in ("config", "runs", "corpora", "sources", "tokenizers")}
    shown = {name: {"name": name, "selection": {}} for name in ("audit", "theory")}
    values = {"experiment": "e", "results": str(root), "theory": str(theory)}
    path = root / "settings.json"
    atomic_files.write_json(path, {**values, **empty, "tables": shown})
    return path


@pytest.fixture(scope="module")
def built(folder):
    database.build_database(settings(folder.parent, folder), folder.parent / "pike.duckdb")
    return folder.parent / "pike.duckdb"


@pytest.fixture
def opened(built):
    with duckdb.connect(str(built), read_only=True) as connection:
        yield connection


def test_every_record_is_a_table_with_its_rows(opened, folder):
    written = {f"theory_{path.stem}" for path in folder.glob("*.parquet")}
    assert written == set(record_loader.OF_THEORY)
    for table in record_loader.OF_THEORY:
        file = folder / f"{table.removeprefix('theory_')}.parquet"
        columns = ", ".join(pq.read_schema(file).names)
        found = opened.execute(f"select {columns} from {table}").fetchall()
        assert found == opened.execute(f"select {columns} from '{file}'").fetchall() != []


def test_errata_stand_in_the_audit(opened):
    where = "kind = 'theory' and place = 'thm:DescentMainBody'"
    sql = f"select stated, recomputed, comment from audit where {where}"
    ((stated, recomputed, comment),) = opened.execute(sql).fetchall()
    assert (stated, recomputed) == ("0.0625", "0.125")
    assert comment.startswith("false as stated: ")


def test_a_table_stands_on_the_theory_and_the_audit_on_the_paper_alone(built):
    assert "theory/manifest.json" in why.explain_artifact("table/theory", built)
    assert len(why.explain_artifact("table/audit", built).splitlines()) == 2


def test_figure_3_is_drawn_from_the_theory_alone(built, tmp_path):
    place = write_output("figure", "figure3", built, tmp_path)
    data = atomic_files.read_json(place.with_suffix(".json"))
    loss, share = data["panels"]
    assert [loss["title"], share["title"]] == ["expected loss", "share of task 1"]
    lines = {series["key"]: series for series in loss["series"]}
    assert list(lines)[:3] == ["adaptive", "static 0.1", "static 0.3"]
    # (9 + 1) / 2 at first; one step of a half each: (0.95^2 10 + 2 * 0.01 (1/2 + 9/2) / 16) / 2.
    assert lines["static 0.5"]["x"][:2] == [0, 1]
    assert lines["static 0.5"]["y"][:2] == pytest.approx([5, 4.515625], abs=1e-4)
    low, high = (lines["adaptive"][n] for n in ("low", "high"))
    assert all(one <= other for one, other in zip(low, high, strict=True))
    assert {series["y"][0] for series in share["series"][1:]} >= {0.1, 0.5, 0.9}


def test_the_table_of_the_theory_says_what_was_checked(built, tmp_path):
    text = write_output("table", "theory", built, tmp_path).read_text(encoding="utf-8")
    assert "| noise in one task alone | 1 | 0.061" in text
    # All 24 steps on orthogonal losses meet the bound: nothing lies above it, all is granted.
    assert "| orthogonal | 24 | 16 | 0 | 0 | 1.000 |" in text
    with database_reader.connect(built) as connection:
        cells = "select row_label, column_label, value from table_theory"
        found = connection.execute(cells).fetchall()
    bounds = {row: value for row, column, value in found if column == "bound"}
    # 2 * 18 * 0.2 / 0.01, and 2 * 18 (0.1 + 4 * 0.4) / 0.01.
    assert bounds["equal tasks, conceptual PiKE"] == pytest.approx(720)
    assert bounds["equal tasks, uniform"] == pytest.approx(6120)
    above = {row: value for row, column, value in found if column == "above the printed bound"}
    assert above["two equal losses"] > 0
    assert above["orthogonal"] == 0
