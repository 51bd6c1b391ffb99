"""Recorded results: the same bytes again, without runs and without torch; damage is named."""

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from made_up import seal
from played import ask

from pike_mixing.errors import InputError
from pipeline.planning import verify
from pipeline.results import archive, views
from pipeline.results.record_loader import OF_THEORY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded(shown, tmp_path_factory):
    out = tmp_path_factory.mktemp("archive") / "recorded"
    assert archive.record(shown, out=out).startswith(f"{out}: ")
    return out


def content(folder, pattern):
    return {path.name: path.read_bytes() for path in sorted(folder.glob(pattern))}


def test_tables_and_figures_have_the_same_bytes_and_the_report_is_there(shown, recorded, tmp_path):
    out = tmp_path / "restored"
    # Runs that lie nowhere, and a process that has no torch.
    code = (
        "import sys; sys.modules['torch'] = None; from pathlib import Path; "
        "from pipeline.results import archive; "
        "archive.restore(Path(sys.argv[1]), out=Path(sys.argv[2]))"
    )
    subprocess.run([sys.executable, "-c", code, recorded, out], check=True)
    for kind, pattern in (("tables", "*.csv"), ("tables", "*.md"), ("tables", "*.tex"),
                          ("figures", "*.svg")):  # fmt: skip
        assert content(out / kind, pattern) == content(shown / kind, pattern) != {}
    pages = content(shown / "report", "*.html")
    assert content(out / "report", "*.html").keys() == pages.keys()
    for page in ("index.html", "tables.html", "paper.html", "methods.html"):
        # Commands name the database that is beside.
        restored = (out / "report" / page).read_bytes()
        assert restored.replace(bytes(out), bytes(shown)) == pages[page]


def test_the_order_of_rows_in_the_records_changes_no_byte(shown, recorded, tmp_path):
    shuffled, out = tmp_path / "shuffled", tmp_path / "restored"
    shutil.copytree(recorded, shuffled)
    random = np.random.default_rng(0)
    for path in (shuffled / "records").glob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows.take(random.permutation(len(rows))), path)
        seal(path, shuffled / "manifest.json")
    archive.restore(shuffled, out=out)
    for kind, pattern in (("tables", "*.csv"), ("figures", "*.svg")):
        assert content(out / kind, pattern) == content(shown / kind, pattern) != {}
    index = (out / "report/index.html").read_bytes().replace(bytes(out), bytes(shown))
    assert index == (shown / "report/index.html").read_bytes()
    databases = [duckdb.connect(str(f / "pike.duckdb"), read_only=True) for f in (shown, out)]
    outputs = "from lineage where artifact ~ '(table|figure)/.*' order by artifact"
    one, other = (d.execute(outputs).fetchall() for d in databases)
    assert one == other != []
    differing = []
    for view in views.ordered():
        one, other = (repr(d.execute(f"from {view}").fetchall()) for d in databases)
        if one != other:
            differing.append(view)
    assert differing == []


def test_one_table_alone_and_only_what_is_there(recorded, tmp_path):
    assert archive.restore(recorded, out=tmp_path / "one", only=["costs"]).endswith("costs")
    assert {p.name for p in (tmp_path / "one/tables").glob("*.md")} == {"costs.md"}
    assert not (tmp_path / "one/report").exists()
    with pytest.raises(InputError, match=r"'cost' is unknown.*costs"):
        archive.restore(recorded, out=tmp_path / "two", only=["cost"])


def test_the_theory_is_restored_as_it_was_recorded():
    folder, connection = Path(__file__).parents[2] / "recorded", duckdb.connect()
    connection.execute(views.schema())
    archive._load(folder, connection, [("theory", "theory", "")])
    for table in OF_THEORY:
        recorded = pq.read_table(folder / "records" / f"{table}.parquet").to_pylist()
        assert archive._table(connection, table).to_pylist() == recorded != []


def test_damage_is_named_before_anything_is_made(recorded, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(recorded, copy)
    assert f"{copy}: archive, " in verify.verify([copy])
    path = copy / "records" / "steps.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match=r"steps\.parquet was changed"):
        archive.restore(copy, out=tmp_path / "out")
    with pytest.raises(InputError, match=r"^1 problems .*\n.*steps\.parquet was changed"):
        verify.verify([copy])
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="is no archive"):
        archive.restore(tmp_path, out=tmp_path / "out")


def test_a_folder_may_have_a_quote_in_its_name(shown, recorded, tmp_path):
    out = tmp_path / "it's" / "mine"
    archive.record(shown, out=out)
    assert content(out / "records", "*") == content(recorded / "records", "*")


def test_results_that_are_not_finished_are_not_recorded(shown, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(shown, results)
    (results / "report" / "index.manifest.json").unlink()
    with pytest.raises(InputError, match="finish the experiment with `make run`"):
        archive.record(results, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_duckdb_reads_the_records_over_http(shown, recorded):
    connection = duckdb.connect()
    try:
        connection.execute("load httpfs")
    except duckdb.Error:
        pytest.skip(f"no httpfs for DuckDB {duckdb.__version__}: `install httpfs` takes a network")
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(recorded))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}/records/perplexities.parquet"
        found = connection.execute("select count(*) from read_parquet(?)", [place]).fetchone()
        server.shutdown()
    assert [found] == ask(shown / "pike.duckdb", "select count(*) from perplexities")


def test_the_manifest_lists_every_file(recorded):
    listed = json.loads((recorded / "manifest.json").read_text(encoding="utf-8"))
    files = {p.relative_to(recorded).as_posix() for p in recorded.rglob("*") if p.is_file()}
    assert set(listed["files"]) == {f for f in files if not f.startswith(".")} - {"manifest.json"}
