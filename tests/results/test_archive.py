"""Recorded results: the same bytes again, without runs and without torch; damage is named."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import edits
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up import seal

from pike_mixing.errors import InputError
from pipeline import cli
from pipeline.planning import verify
from pipeline.results import archive, sql_views
from pipeline.results.record_loader import OF_THEORY
from pipeline.results.why import explain_artifact
from pipeline.runtime import atomic_files

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded(shown, tmp_path_factory):
    out = tmp_path_factory.mktemp("archive") / "recorded"
    assert archive.archive_records_and_summarise(shown, out=out).startswith(f"{out}: ")
    return out


def content(folder, pattern):
    return {path.name: path.read_bytes() for path in sorted(folder.glob(pattern))}


def test_records_in_any_order_give_the_same_bytes_without_runs_or_torch(shown, recorded, tmp_path):
    shuffled, out = tmp_path / "shuffled", tmp_path / "restored"
    shutil.copytree(recorded, shuffled)
    random = np.random.default_rng(0)
    for path in (shuffled / "records").glob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows.take(random.permutation(len(rows))), path)
        seal(path, shuffled / "manifest.json")
    # Runs that lie nowhere, and a process that has no torch.
    code = (
        "import sys; sys.modules['torch'] = None; from pathlib import Path; "
        "from pipeline.results import archive; "
        "archive.restore_results_and_summarise(Path(sys.argv[1]), out=Path(sys.argv[2]))"
    )
    subprocess.run([sys.executable, "-c", code, shuffled, out], check=True)
    for kind, pattern in (("tables", "*.csv"), ("tables", "*.md"), ("tables", "*.tex"),
                          ("figures", "*.svg")):  # fmt: skip
        assert content(out / kind, pattern) == content(shown / kind, pattern) != {}
    pages = content(shown / "report", "*.html")
    assert content(out / "report", "*.html").keys() == pages.keys()
    for page in ("index.html", "tables.html", "paper.html", "methods.html"):
        # Commands name the database that is beside.
        restored = (out / "report" / page).read_bytes()
        assert restored.replace(bytes(out), bytes(shown)) == pages[page]
    databases = [duckdb.connect(str(f / "pike.duckdb"), read_only=True) for f in (shown, out)]
    outputs = "from lineage where artifact ~ '(table|figure)/.*' order by artifact"
    one, other = (d.execute(outputs).fetchall() for d in databases)
    assert one == other != []
    differing = []
    for view in [
        one for one in sql_views.views_in_order() if one.startswith(("table_", "figure_"))
    ]:
        one, other = (repr(d.execute(f"from {view}").fetchall()) for d in databases)
        if one != other:
            differing.append(view)
    assert differing == []


def test_one_table_alone_and_only_what_is_there(recorded, tmp_path):
    place, whence = archive.restore_results_and_summarise(
        recorded, out=tmp_path / "one", only=["costs"]
    ).splitlines()
    assert place == str(tmp_path / "one/tables/costs.md")
    # The command that is named can be typed as it stands.
    asked = cli.parse_arguments(shlex.split(whence.partition(": pike ")[2]))
    assert (asked["command"], asked["given"]) == ("why", "table/costs")
    assert explain_artifact(asked["given"], asked["database"]).startswith("table/costs  [table]")
    assert {p.name for p in (tmp_path / "one/tables").glob("*.md")} == {"costs.md"}
    assert not (tmp_path / "one/report").exists()
    for only, told in (
        ("cost", r"'cost' is unknown.*costs"),
        # A table and a figure of one name.
        ("2", r"known: accuracy, costs, differences, gradients, lengths"),
    ):
        with pytest.raises(InputError, match=told):
            archive.restore_results_and_summarise(recorded, out=tmp_path / "two", only=[only])
    near = rf"{recorded.parent}/record does not exist: did you mean {recorded}\?$"
    with pytest.raises(InputError, match=near):
        archive.restore_results_and_summarise(recorded.parent / "record", out=tmp_path / "two")
    with pytest.raises(InputError, match="zzz does not exist: give what"):
        archive.restore_results_and_summarise(recorded.parent / "zzz", out=tmp_path / "two")
    (tmp_path / "results").mkdir()
    (tmp_path / "results/pike.duckdb").touch()
    for write in (archive.archive_records_and_summarise, archive.write_crate_and_summarise):
        with pytest.raises(InputError, match=rf"not exist: did you mean {tmp_path}/results\?$"):
            write(tmp_path / "result", out=tmp_path / "two")


def test_the_theory_is_restored_as_it_was_recorded(tmp_path):
    connection = duckdb.connect()
    sql_views.create_schema(connection)
    records = Path(__file__).parents[2] / "recorded" / "records"
    # A path is no pattern, which would be of both.
    for name in ("a*#%?", "ab#%c"):
        shutil.copytree(records, tmp_path / name / "records")
    archive._insert_archived_records(tmp_path / "a*#%?", connection, [("theory", "theory", "")])
    for table in OF_THEORY:
        recorded = pq.read_table(records / f"{table}.parquet").to_pylist()
        columns = ", ".join(archive.columns_not_generated(connection, table))
        restored = connection.sql(f"select {columns} from {table}").to_arrow_table()
        assert restored.to_pylist() == recorded != []


def test_damage_is_named_before_anything_is_made(recorded, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(recorded, copy)
    assert f"{copy}: archive, " in verify.verify_results([copy])
    path = copy / "records" / "steps.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match=r"steps\.parquet was changed"):
        archive.restore_results_and_summarise(copy, out=tmp_path / "out")
    with pytest.raises(InputError, match=r"^1 problems .*\n.*steps\.parquet was changed"):
        verify.verify_results([copy])
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="is no archive"):
        archive.restore_results_and_summarise(tmp_path, out=tmp_path / "out")


def changed(name, *place, to):
    """Another value at a place of a file of JSON, which is listed as if it had been recorded so."""

    def spoil(folder):
        content = atomic_files.read_json(folder / name)
        edits.set_at(content, place, to)
        atomic_files.write_json(folder / name, content)
        if name != "manifest.json":
            seal(folder / name, folder / "manifest.json")

    return spoil


def reading(kind, name, database):
    """A table or figure of any name that reads a database of any name, both with their settings."""

    def spoil(folder):
        made = atomic_files.read_json(folder / "manifest.json")
        for place, known in (
            (f"settings/{kind}s/{name}.json", "settings/tables/costs.json"),
            (f"settings/{database}.json", "settings/pike.json"),
        ):
            made["files"][place] = made["files"][known]
            if not (folder / place).exists():
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder / known, folder / place)
        made["reads"].setdefault(kind, {})[name] = database
        atomic_files.write_json(folder / "manifest.json", made)

    return spoil


def rows(change):
    """Changes each row of what the records were made from, or takes it out."""

    def spoil(folder):
        path = folder / "records" / "lineage.parquet"
        before = pq.read_table(path)
        after = [one for row in before.to_pylist() if (one := change(row))]
        pq.write_table(pa.Table.from_pylist(after, schema=before.schema), path)
        seal(path, folder / "manifest.json")

    return spoil


def linked(name):
    """Moves a file or folder elsewhere, and links to it."""

    def spoil(folder):
        elsewhere = folder.parent / "elsewhere"
        shutil.move(folder / name, elsewhere)
        (folder / name).symlink_to(elsewhere)

    return spoil


def replaced(name, make):
    def spoil(folder):
        (folder / name).unlink()
        make(folder / name)

    return spoil


def sparse(path):
    with path.open("wb") as file:
        file.truncate(3 * 10**9)


MADE, RUN, WHOLE = "manifest.json", "real/tiny/mix/seed0", "settings/pike.json"
STEPS, COSTS = "records/steps.parquet", "settings/tables/costs.json"
NAME, DATABASE = "is not a name of lower-case", "is not a database"
SPOILT = {
    "a table above": (reading("table", "../../x", "pike"), NAME),
    "a figure at the root": (reading("figure", "/x", "pike"), NAME),
    "a database above": (reading("table", "costs", "../y"), DATABASE),
    "a database through another": (reading("table", "costs", "databases/../../y"), DATABASE),
    "a report above": (changed(MADE, "report", to="../r"), DATABASE),
    "a report of none": (changed(MADE, "report", to=7), "report: 7 is not a text"),
    "an unknown kind": (changed(MADE, "reads", "evil", to=5), "'evil' is unknown"),
    "settings of an unknown kind": (reading("evil", "x", "pike"), "is not a file of an archive"),
    "a record off the list": (changed(MADE, "files", STEPS, to=edits.GONE), f"list {STEPS}"),
    "a number for facts": (changed(MADE, "files", STEPS, to=5), "5 is not"),
    "a file above": (changed(MADE, "files", "../x.json", to={}), "is not a file of an archive"),
    "too large": (changed(MADE, "files", COSTS, "bytes", to=2**40), "manifest says 1,099"),
    "a linked record": (linked(STEPS), "steps.parquet is a symbolic link"),
    "linked records": (linked("records"), "records is a symbolic link"),
    "linked settings": (linked("settings/tables"), "tables is a symbolic link"),
    "a linked manifest": (linked(MADE), "manifest.json is a symbolic link"),
    "a pipe": (replaced(MADE, os.mkfifo), "is a pipe"),
    "a folder": (replaced(MADE, Path.mkdir), "is a folder"),
    "a huge manifest": (replaced(MADE, sparse), "3,000,000,000 bytes, too many for JSON"),
    "a huge record": (replaced(STEPS, sparse), "has 3,000,000,000 bytes, the manifest says"),
    "nothing of the records' past": (rows(lambda row: None), "has no row of"),
    "a number for a run's facts": (rows(lambda row: row | {"facts": "5"}), "is not whole"),
    "facts that are no JSON": (rows(lambda row: row | {"facts": "{"}), "Malformed JSON"),
    "an input without a row": (
        rows(lambda row: {**row, "inputs": ["run/none"]} if RUN in row["artifact"] else row),
        "has no row of run/none",
    ),
    "another stage": (rows(lambda row: row | {"produced_by": "x"}), "manifest of the stage"),
    "a table of another name": (changed(COSTS, "name", to="perplexity"), "is of 'perplexity'"),
    "a table's name above": (changed(COSTS, "name", to="../x"), NAME),
    "a shown table above": (changed(WHOLE, "tables", to={"../x": {}}), NAME),
    "a corpus above": (changed(WHOLE, "corpora", "../x", to="x"), NAME),
    "no corpora": (changed(WHOLE, "corpora", to={}), "no corpus 'real/code'"),
    "another seed": (changed(WHOLE, "runs", RUN, "settings", "seed", to=9), "seed9'"),
    "domains as a text": (changed(WHOLE, "runs", RUN, "settings", "domains", to="x"), "domains"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "says"), SPOILT.values(), ids=SPOILT)
def test_an_archive_of_somebody_is_judged_before_anything_is_made(recorded, tmp_path, spoil, says):
    copy = tmp_path / "above" / "copy"
    shutil.copytree(recorded, copy)
    spoil(copy)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=re.escape(says)) as told:
        archive.restore_results_and_summarise(copy, out=tmp_path / "out")
    assert "\n" not in str(told.value)
    assert sorted(tmp_path.rglob("*")) == before


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("name", [MADE, WHOLE, COSTS])
def test_no_edit_of_an_archive_ends_in_a_traceback(recorded, tmp_path, name, data):
    copy = tmp_path / "copy"
    if not copy.exists():
        shutil.copytree(recorded, copy)
    text = (recorded / name).read_text(encoding="utf-8")
    try:
        (copy / name).write_text(data.draw(edits.edited(json.loads(text))), encoding="utf-8")
        if name != MADE:
            seal(copy / name, copy / MADE)
        with pytest.raises(InputError):  # The last of what is judged: whether the table is known.
            archive.restore_results_and_summarise(copy, out=tmp_path / "out", only=["none"])
    finally:
        for one in (name, MADE):
            shutil.copy(recorded / one, copy / one)
    assert not (tmp_path / "out").exists()


def test_no_link_is_followed_out_of_what_is_restored_or_into_it(recorded, tmp_path):
    (tmp_path / "crate").mkdir()
    (tmp_path / "crate" / "recorded").symlink_to(recorded)
    with pytest.raises(InputError, match=r"crate/recorded is a symbolic link"):
        archive.restore_results_and_summarise(tmp_path / "crate", out=tmp_path / "out")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tables").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"out/tables is a symbolic link"):
        archive.restore_results_and_summarise(recorded, out=tmp_path / "out")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_may_have_a_quote_in_its_name(shown, recorded, tmp_path):
    out = tmp_path / "it's" / "mine"
    archive.archive_records_and_summarise(shown, out=out)
    assert content(out / "records", "*") == content(recorded / "records", "*")


def test_results_that_are_not_finished_are_not_recorded(shown, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(shown, results)
    (results / "report" / "index.manifest.json").unlink()
    with pytest.raises(InputError, match="finish the experiment with `make run`"):
        archive.archive_records_and_summarise(results, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
