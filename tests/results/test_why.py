import json
import shlex

import duckdb
import played
import pytest

from pike_mixing.errors import InputError
from pipeline import cli
from pipeline.results.query import answer_query
from pipeline.results.why import explain_artifact
from pipeline.runtime import atomic_files


def test_a_checkpoint_leads_to_revisions_and_code(made):
    text = explain_artifact("checkpoint/real/tiny/pike/seed0/step40", made / "pike.duckdb")
    lines = text.splitlines()
    depth = {line.split()[0]: len(line) - len(line.lstrip()) for line in lines if "[" in line}
    assert depth["checkpoint/real/tiny/pike/seed0/step40"] == 0
    assert depth["run/real/tiny/pike/seed0"] == 2
    assert depth["corpus/real/prose"] == 4
    assert depth["source/code"] == 6
    assert "revision revision of prose, which is a long story, licence PSF-2.0" in text
    manifest = atomic_files.read_json(made / "runs/real/tiny/pike/seed0/manifest.json")
    assert f"weights_sha256 {manifest['weights_sha256'][:16]}, data" in text
    assert f"[pretrain, code {manifest['code']['fingerprint']}" in text
    assert "\n      rule pike, every 10, first 10, zeta1 0.05, zeta2 0.005\n" in text


def test_a_table_leads_to_every_source_and_unfolds_each_once(made):
    text = explain_artifact("table/perplexity", made / "pike.duckdb")
    assert text.startswith("table/perplexity  [table]\n    tables/perplexity.md\n")
    for source in ("code", "prose", "headers", "easy", "hard", "noise"):
        assert f"revision of {source}" in text
        assert text.count(f"source/{source}  [") == 1
    assert "tokenizer/real  (above)" in text
    # Of many that lead to the same text one of each scenario; both have 12 runs.
    assert text.count("\n  evaluation/") == 2
    assert "\n  and 22 more of evaluation/: `pike why evaluation/" in text


def test_programs_get_each_artifact_of_the_chain_once(made):
    chain = json.loads(explain_artifact("table/perplexity", made / "pike.duckdb", "json"))
    names = [one["artifact"] for one in chain]
    assert len(set(names)) == len(names)
    assert names[0] == "table/perplexity"
    assert {source for one in chain for source in one["inputs"]} == set(names[1:])
    (source,) = [one for one in chain if one["artifact"] == "source/prose"]
    assert source["facts"]["revision"].startswith("revision of prose")
    assert source["out_of_date"] == []


def test_a_row_of_a_table_leads_to_each_of_its_runs(made):
    database = made / "pike.duckdb"
    lines = explain_artifact("table/perplexity", database, row="pike").splitlines()
    head = lines.index("table/perplexity, row pike  [table]")
    cells = json.loads(
        answer_query("from table_perplexity where method = 'pike' order by all", database, "json")
    )
    # Each number as the table prints it, and the query that has them, stand above the chain.
    for cell in cells:
        if cell["unit"] == "ppl":
            number = f"{cell['value']:.{cell['decimals']}f} ± {cell['error']:.{cell['decimals']}f}"
            assert f"    {cell['column_label']}: {number} ppl" in "\n".join(lines[:head])
    asked = f"`pike query 'from table_perplexity' --database {database}` has the numbers"
    assert lines[head - 1].startswith(asked)
    # The command that prints what the numbers are means of can be typed as it stands.
    question = cli.parse_arguments(shlex.split(lines[head - 2][:-1].partition("`pike ")[2]))
    values = json.loads(answer_query(question["given"], question["database"], "json"))
    code = [one["perplexity"] for one in values if one["domain"] == "code"]
    (mean,) = [cell["value"] for cell in cells if cell["column_label"] == "code"]
    assert sum(code) / len(code) == pytest.approx(mean)
    runs = [
        f"{scenario}/tiny/pike/seed{seed}"
        for scenario in ("real", "languages")
        for seed in range(3)
    ]
    shown = {line.split()[0] for line in lines if line.strip().startswith(("run/", "evaluation/"))}
    assert shown == {f"{kind}/{run}" for kind in ("run", "evaluation") for run in runs}


def test_a_row_of_the_papers_tables_has_the_values_that_it_is_the_mean_of(tmp_path):
    database = tmp_path / "restored/databases/one.duckdb"
    database.parent.mkdir(parents=True)
    runs = ["s/m/pike/seed0", "s/m/pike/seed1"]
    with played.fresh("claims", path=database) as connection:
        cells = (
            f"select 'pike' as method, 's' as section, 'PiKE' as row_label, 1 as decimals, '%' as "
            f"unit, 'mean' as column_label, 35.0 as value, 2.5 as error, {runs} as runs, "
            "[30.0, 40.0] as run_values"
        )
        connection.execute(f"create view table2 as {cells}")
        for place, name in enumerate(runs):
            played.run(connection, "pike", seed=place)
            made = {"path": f"runs/{name}/manifest.json", "produced_by": "pretrain", "inputs": []}
            played.insert(connection, "lineage", artifact=f"run/{name}", **made)
        inputs = [f"run/{name}" for name in runs]
        made = {"path": "tables/table2.md", "produced_by": "table", "inputs": inputs}
        played.insert(connection, "lineage", artifact="table/table2", **made)
    lines = explain_artifact("table/table2", database, row="pike").splitlines()
    assert lines[1] == "    mean: 35.0 ± 2.5 %, over 2 runs"
    for name, value in zip(runs, ("30.0", "40.0"), strict=True):
        place = lines.index(f"  run/{name}  [pretrain]")
        assert lines[place + 1 : place + 3] == [
            f"      mean: {value} %",
            f"      runs/{name}/manifest.json",
        ]
    assert "restored" not in lines[-1]
    # Whoever looks for the files of runs among restored results is told that they are not there.
    manifest = {"inputs": {"../recorded/manifest.json": "0"}}
    atomic_files.write_json(tmp_path / "restored/pike.manifest.json", manifest)
    (*_, last) = explain_artifact("table/table2", database, row="pike").splitlines()
    assert last.startswith(f"{tmp_path}/restored was restored: it has no files of runs")


@pytest.mark.parametrize(
    ("artifact", "row", "message"),
    [
        ("table/perplexity", "pik", "--row: 'pik' is unknown: did you mean 'pike'"),
        ("claim/mix-over-others", None, "is a claim, .*`pike claims --claim mix-over-others`"),
        ("mix-over-others", None, "is a claim, .*`pike claims --claim mix-over-others`"),
        ("table/perplexity", "uniform guess", "no run of this database stands behind 'uniform"),
        ("figure/losses", "pike", "--row is for a table, and figure/losses is a figure"),
    ],
)
def test_what_leads_to_no_run_is_named(made, artifact, row, message):
    with pytest.raises(InputError, match=message):
        explain_artifact(artifact, made / "pike.duckdb", row=row)


def test_a_database_of_somebody_elses_is_refused(tmp_path):
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table lineage as select 'table/x' as artifact")
    with pytest.raises(InputError, match=r"other\.duckdb holds no experiment: give one that"):
        explain_artifact("table/x", path)


@pytest.mark.parametrize(
    ("artifact", "near"),
    [
        ("table/perplexities", "table/perplexity"),
        ("TABLE/PERPLEXITY", "near it: table/perplexity;"),
        ("pike/seed0", "run/languages/tiny/pike/seed0"),
        ("zzz", "kinds of artifacts: checkpoint, corpus"),
    ],
)
def test_unknown_artifacts_are_answered_with_near_ones(made, artifact, near):
    with pytest.raises(InputError, match="there is no artifact") as error:
        explain_artifact(artifact, made / "pike.duckdb")
    assert near in str(error.value)
