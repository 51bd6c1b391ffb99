"""Two databases beside each other."""

import csv
import io
import json
import shutil

import duckdb
import pytest
from made_up import build

from pike_mixing.errors import InputError
from pipeline.results import database
from pipeline.results.compare_databases import compare

pytestmark = pytest.mark.slow

RUN = "real/tiny/pike/seed0"


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A database of two runs. Not to be written to."""
    folder = tmp_path_factory.mktemp("first")
    settings = build(folder, seeds=(0,), scenarios=("real",), methods=("mix", "pike"))
    database.build(settings, folder / "first.duckdb")
    return folder / "first.duckdb"


@pytest.fixture
def changed(first, tmp_path):
    """A function that copies the database and changes the copy by statements."""

    def change(*statements):
        copy = tmp_path / "second.duckdb"
        shutil.copy(first, copy)
        connection = duckdb.connect(str(copy))
        for statement in statements:
            connection.execute(statement)
        connection.close()
        return copy

    return change


def rows(first, second, **wanted):
    """Rows of the comparison whose columns have the wanted values."""
    found = json.loads(compare(first, second, "json"))
    return [row for row in found if all(row[key] == value for key, value in wanted.items())]


def test_a_database_equals_its_copy(first, changed):
    told = compare(first, changed())
    assert "runs in both: 2" in told
    assert "equal settings and data" in told
    # Three domains and their mean, three tasks, of two runs.
    assert "numbers that are equal: 14 of 14" in told
    assert "significant differences: 0 of 14" in told


def test_runs_that_one_lacks_are_named(first, changed):
    second = changed(
        f"delete from runs where run = '{RUN}'", f"delete from choices where run = '{RUN}'"
    )
    verdicts = {row["name"]: row["verdict"] for row in rows(first, second, kind="run")}
    assert verdicts == {"real/tiny/mix/seed0": "in both", RUN: "first only"}
    told = compare(second, first)
    assert f"runs in the second only: 1\n  {RUN}\n" in told


def test_settings_and_facts_that_differ_are_told_once(first, changed):
    second = changed(
        "update runs set settings = replace(settings::text, '\"steps\":40', '\"steps\":80')::json, "
        "device = 'cuda'"
    )
    found = rows(first, second, kind="setting")
    assert [(r["name"], r["quantity"], r["first"], r["second"]) for r in found] == [
        ("real/tiny/mix/seed0", "training.steps", "40", "80"),
        (RUN, "training.steps", "40", "80"),
    ]
    told = compare(first, second)
    assert "  setting training.steps: 40 -> 80 (in 2, the first: real/tiny/mix/seed0)\n" in told
    assert "  fact device: cpu (2 threads) -> cuda (in 2, the first: real/tiny/mix/seed0)\n" in told


def test_losses_are_paired_by_document(first, changed):
    final = f"run = '{RUN}' and step = 40 and domain = 'prose'"
    second = changed(
        # Each document by 0.01 nats a token, the shift that all share, and some of its own.
        "update documents set nll = nll + tokens * (0.01 + 0.0001 * (document::integer % 2)) "
        f"where {final}",
        "update perplexities set nll = nll + 0.01005, perplexity = exp(nll + 0.01005) "
        f"where {final}",
    )
    (row,) = rows(first, second, kind="perplexity", quantity="prose", name="real/tiny/pike")
    assert row["verdict"] == "significant"
    assert row["difference"] == pytest.approx(row["first"] * 0.0101, rel=1e-2)
    # Unpaired, the documents' own errors would hide it.
    assert row["low"] > 0.8 * row["difference"]
    assert rows(first, second, kind="perplexity", quantity="code", verdict="equal")


def test_answers_are_paired_by_item(first, changed):
    chosen = f"run = '{RUN}' and step = 40 and task = 'continue-code'"
    second = changed(
        "update choices set sum_log_likelihood = "
        "[case when c = gold then -1.0 else -3.0 end for c in range(4)], "
        f"unconditional = [0.0, 0.0, 0.0, 0.0] where {chosen}",
        f"update accuracies set value = 100 where {chosen}",
    )
    (row,) = rows(
        first, second, kind="accuracy", name="real/tiny/pike",
        quantity="continue-code, 0-shot, cf, pmi",
    )  # fmt: skip
    assert (row["second"], row["seeds"]) == (100, 1)
    assert row["verdict"] in ("significant", "not significant")
    assert row["p"] is not None
    others = rows(first, second, kind="accuracy", name="real/tiny/mix")
    assert {other["verdict"] for other in others} == {"equal"}


def test_other_text_is_not_paired(first, changed):
    second = changed(
        "update corpora set fingerprint = 'other', tokens = tokens + 1 where source = 'code'"
    )
    assert [r["name"] for r in rows(first, second, kind="corpus")] == ["real/code", "real/code"]
    (code,) = rows(first, second, kind="perplexity", quantity="code", name="real/tiny/pike")
    (prose,) = rows(first, second, kind="perplexity", quantity="prose", name="real/tiny/pike")
    assert (code["verdict"], prose["verdict"]) == ("equal, unpaired", "equal")


def test_csv_has_the_rows_of_json(first, changed):
    second = changed("update runs set device = 'cuda'")
    found = list(csv.DictReader(io.StringIO(compare(first, second, "csv"))))
    listed = json.loads(compare(first, second, "json"))
    assert [row["verdict"] for row in found] == [row["verdict"] for row in listed]
    assert list(found[0]) == list(listed[0])


def test_a_database_of_another_version_is_refused(first, changed):
    second = changed("drop view if exists figure_losses", "alter table accuracies drop shots")
    with pytest.raises(InputError, match=r"second.duckdb lacks accuracies.shots: .*pike database"):
        compare(first, second)


def test_a_missing_database_is_named(first, tmp_path):
    with pytest.raises(InputError, match=r"none.duckdb does not exist"):
        compare(first, tmp_path / "none.duckdb")


def test_both_stay_as_they_are(first, changed):
    second = changed()
    before = second.read_bytes()
    compare(first, second)
    assert second.read_bytes() == before
