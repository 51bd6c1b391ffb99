import shutil

import documented
import duckdb
import pyarrow.parquet as pq
import pytest
from made_up import seal
from played import ask

from pike_mixing.errors import InputError
from pipeline.results import database
from pipeline.results.database_reader import open_explaining_missing_views
from pipeline.runtime import atomic_files


def rewrite(path, table):
    """Replaces a record and its entry in the manifest."""
    pq.write_table(table, path)
    seal(path, manifest_of(path))


def manifest_of(record):
    places = (folder / atomic_files.MANIFEST for folder in record.parents)
    return next(place for place in places if place.exists())


def test_base_tables_keep_the_columns_of_the_contract(made):
    promised = {
        "runs": "run scenario model method seed steps tokens parameters settings code_commit "
        "code_fingerprint data_fingerprint device wall_seconds tokens_per_second resumes",
        "steps": "run step tokens loss learning_rate gradient_norm seconds",
        "domain_losses": "run step domain loss",
        "weights": "run step domain weight count",
        "gradient_statistics": "run step domain squared_norm variance loss rows seconds",
        "coefficients": "run step domain coefficient",
        "alarms": "run step kind domain message",
        "perplexities": "run step domain nll perplexity bits_per_byte tokens stderr",
        "accuracies": "run step task shots formulation metric value stderr examples",
        "accuracy_tests": "scenario model task shots formulation metric method against difference "
        "stderr low high p p_holm seeds examples",
        "speedups": "scenario model quantity method against target tokens ratio low high seeds",
        "similarities": "run step domain_a domain_b cosine ratio",
        "timings": "run phase seconds share",
        "paper": "paper_table scenario model params method metric task shots value bold underlined",
        "lineage": "artifact path sha256 produced_by inputs settings code_fingerprint",
    }
    for table, columns in promised.items():
        found = ask(
            made / "pike.duckdb",
            f"select column_name from information_schema.columns where table_name = '{table}'",
        )
        assert {(name,) for name in columns.split()} <= set(found), table


def test_every_record_arrives(made):
    # 2 scenarios x 4 methods x 3 seeds; 40 steps; 5 checkpoints; 3 domains; 24 documents each.
    # Two methods of PiKE's kind, three firings; PiKE alone has two alarms.
    counts = {
        "runs": 24,
        "steps": 24 * 40,
        "weights": 24 * 40 * 3,
        "coefficients": 2 * 2 * 3 * 3 * 3,
        "alarms": 2 * 3 * 2,
        "perplexities": 24 * 5 * 3,
        "documents": 24 * 5 * 3 * 24,
        "choices": 24 * 5 * 3 * 20,
        "similarities": 24 * 5 * 3,
    }
    for table, count in counts.items():
        assert ask(made / "pike.duckdb", f"select count(*) from {table}") == [(count,)], table
    split = "where source = 'code' and split = 'train'"
    for columns, rows in (
        ("tokens, pieces, entropy_nats from corpora", [(900_000, 190, 4.5)]),
        ("at_least, documents from document_lengths", [(512, 700), (1024, 200)]),
    ):
        sql = f"select distinct {columns} {split} order by 1"
        assert ask(made / "pike.duckdb", sql) == rows


def test_every_method_is_tested_against_the_baseline(made):
    found = ask(
        made / "pike.duckdb",
        "select scenario, count(distinct method), count(distinct task), count(*), "
        "count(*) filter (p_holm < p), min(seeds) from accuracy_tests group by all order by all",
    )
    # Three methods; three tasks and their mean; three seeds.
    assert found == [("languages", 3, 4, 12, 0, 3), ("real", 3, 4, 12, 0, 3)]
    found = ask(
        made / "pike.duckdb",
        "select quantity, count(*) from speedups where scenario = 'real' group by all order by all",
    )
    assert found == [("accuracy", 3), ("loss", 3)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select step from perplexities where run = 'real/tiny/mix/seed0' and domain = 'prose'",
         [0, 5, 10, 20, 40]),
        ("select scenario from scenarios order by position", ["real", "languages"]),
        ("select method from methods where position = 0", ["mix"]),
        ("select domain from domains where scenario = 'real' order by position",
         ["code", "prose", "headers"]),
    ],
)  # fmt: skip
def test_order_is_that_of_steps_and_of_the_experiment(made, sql, expected):
    assert [value for (value,) in ask(made / "pike.duckdb", sql)] == expected


def test_columns_lie_in_any_order_and_an_old_database_stays_when_a_new_one_fails(small, tmp_path):
    out, run = tmp_path / "x.duckdb", tmp_path / "results/runs/real/tiny/mix/seed0"
    experiment = atomic_files.read_json(small)
    experiment["config"]["methods"] = {"mix": {}, "random": {}, "pike": {}}
    atomic_files.write_json(small, experiment)
    table = pq.read_table(run / "timings.parquet")
    other = table.select(["share", "seconds", "phase"]).append_column("x", table["share"])
    rewrite(run / "timings.parquet", other)
    database.build_database(small, out)
    assert ask(out, "select phase, share from timings limit 1") == [("batches", 0.1)]
    # Methods without runs keep their place.
    assert ask(out, "select method from methods where position = 2") == [("pike",)]
    before = out.read_bytes()
    (run / "steps.parquet").unlink()
    with pytest.raises(InputError):
        database.build_database(small, out)
    assert out.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir() if "part" in p.name] == []


@pytest.mark.parametrize(
    ("record", "stage"),
    [
        ("steps.parquet", "pike pretrain"),
        ("evaluations/step40/documents.parquet", "pike evaluate"),
        ("evaluations/manifest.json", "pike evaluate"),
        ("probes/manifest.json", "pike probe"),
    ],
)
def test_a_missing_record_is_named_with_what_makes_it(small, tmp_path, record, stage):
    path = tmp_path / "results/runs/real/tiny/mix/seed0" / record
    path.unlink()
    with pytest.raises(InputError) as error:
        database.build_database(small, tmp_path / "x.duckdb")
    assert str(path) in str(error.value)
    assert f"run `{stage}` for real/tiny/mix/seed0" in str(error.value)


def relisted(path, content):
    """Puts other bytes in a record's place, which its manifest lists as if they were its own."""
    path.write_bytes(content)
    seal(path, manifest_of(path))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "the manifest says"),
        (lambda path: path.write_bytes(b"X" + path.read_bytes()[1:]), "SHA-256"),
        (lambda path: relisted(path, b"PAR1 is how it begins"), "not a whole record of weights"),
        (
            lambda path: rewrite(path, pq.read_table(path).drop_columns(["count"])),
            "not a whole record of weights .*count",
        ),
    ],
    ids=["truncated", "altered", "no Parquet", "a column less"],
)
def test_a_damaged_record_is_refused(small, tmp_path, spoil, reason):
    path = tmp_path / "results/runs/real/tiny/mix/seed0/weights.parquet"
    spoil(path)
    with pytest.raises(InputError, match=reason) as error:
        database.build_database(small, tmp_path / "x.duckdb")
    assert str(path) in str(error.value)


def test_runs_without_evaluations_or_probes_need_none(small, tmp_path):
    experiment = atomic_files.read_json(small)
    for run in experiment["runs"].values():
        run |= {"evaluations": False, "probes": False}
    atomic_files.write_json(small, experiment)
    for part in ("evaluations", "probes"):
        for folder in (tmp_path / "results/runs").rglob(part):
            atomic_files.remove_path(folder)
    database.build_database(small, tmp_path / "x.duckdb")
    assert ask(tmp_path / "x.duckdb", "select count(*) from perplexities") == [(0,)]


def test_an_experiment_without_runs_has_no_database(small, tmp_path):
    atomic_files.write_json(small, atomic_files.read_json(small) | {"runs": {}})
    with pytest.raises(InputError, match="nothing to put in a database"):
        database.build_database(small, tmp_path / "x.duckdb")


def test_the_pages_query_compares_two_databases(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("here", "there"):
        shutil.copy(made / "pike.duckdb", f"{name}.duckdb")
    own = "run = 'real/tiny/mix/seed0' and step = 40 and domain = 'code'"
    with duckdb.connect("there.duckdb") as connection:
        connection.execute(f"update perplexities set nll = nll + 1 where {own}")
    (query,) = documented.blocks("docs/running.md", "sql")
    with duckdb.connect() as connection:
        ((*place, here, there),) = connection.execute(query).fetchall()
    assert place == ["real/tiny/mix/seed0", 40, "code"]
    assert there == pytest.approx(here + 1)


@pytest.mark.slow
# One for each kind of tests that a database is filled with, and a figure.
@pytest.mark.parametrize(
    "view", ["table_accuracy", "table_speedups", "table_claims", "table_board", "figure_weights"]
)
def test_a_database_of_some_views_answers_as_the_whole_one(made, tmp_path, view):
    settings = atomic_files.read_json(made / "settings" / "experiment.json")
    own, part = tmp_path / "settings.json", tmp_path / "databases" / "part.duckdb"
    atomic_files.write_json(own, {**settings, "views": [view]})
    part.parent.mkdir()
    database.build_database(own, part)
    for name in (view, "doubtful_runs", "curve_runs"):
        assert ask(part, f"from {name}") == ask(made / "pike.duckdb", f"from {name}"), name
    with (
        pytest.raises(InputError, match=r"is not among it: ask .*pike\.duckdb"),
        open_explaining_missing_views(part) as some,
    ):
        some.execute("from table_gradients")


def test_views_that_are_not_there_are_named(made, tmp_path):
    settings = atomic_files.read_json(made / "settings" / "experiment.json")
    atomic_files.write_json(tmp_path / "s.json", {**settings, "views": ["table_accurracy"]})
    with pytest.raises(InputError, match=r"'table_accurracy' is unknown.*table_accuracy"):
        database.build_database(tmp_path / "s.json", tmp_path / "part.duckdb")
