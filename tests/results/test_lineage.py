from played import ask

from pipeline.results import experiment, lineage
from pipeline.runtime import atomic_files


def test_every_artifact_has_a_stable_name_and_leads_to_sources_and_given_files(made):
    found = ask(made / "pike.duckdb", "select artifact, inputs from lineage")
    inputs = dict(found)
    assert len(inputs) == len(found)
    assert inputs.keys() >= {
        "tokenizer/real",
        "checkpoint/real/tiny/pike/seed0/step40",
        "evaluation/real/tiny/pike/seed0",
        "probe/real/tiny/pike/seed0",
        "table/perplexity",
        "figure/losses",
    }
    assert inputs["run/languages/tiny/mix/seed1"] == [
        *(f"corpus/languages/{domain}" for domain in ("easy", "hard", "noise")),
        "file/runs/languages/tiny/mix/seed1/run.json",
    ]
    assert all(name in inputs for names in inputs.values() for name in names)
    ends = {name for name, names in inputs.items() if not names}
    # Without the theory's records these stand on what the paper prints alone.
    ends -= {"table/audit", "table/theory"}
    assert {name.partition("/")[0] for name in ends} == {"source", "file"}


def test_paths_are_relative_to_the_results_and_hold_what_their_sums_say(made):
    found = ask(made / "pike.duckdb", "select path, sha256 from lineage where sha256 is not null")
    assert len(found) > 100
    for path, digest in found:
        assert atomic_files.sha256(made / path) == digest, path


def test_tables_stand_on_what_their_views_read(made):
    found = dict(
        ask(
            made / "pike.duckdb",
            "select artifact, inputs from lineage where produced_by in ('table', 'figure')",
        )
    )

    def kinds(name):
        return {source.partition("/")[0] for source in found[name]}

    assert kinds("table/perplexity") == {"evaluation"}
    assert kinds("table/costs") == {"run"}
    # Through a table that is made of other records while the database is built.
    assert kinds("table/speedups") == {"evaluation"}
    assert kinds("figure/similarities") == {"probe"}
    assert len(found["table/perplexity"]) == 24


def test_a_selection_narrows_what_a_table_stands_on(small):
    values = atomic_files.read_json(small)
    selection = {"methods": ["pike"], "seeds": [0]}
    values["tables"] = {"perplexity": {"name": "perplexity", "selection": selection}, "costs": {}}
    atomic_files.write_json(small, values)
    found = lineage.read_lineage(experiment.read_experiment(small)).artifacts
    assert found["table/perplexity"].inputs == ("evaluation/real/tiny/pike/seed0",)
    assert len(found["table/costs"].inputs) == 2
    assert "table/accuracy" not in found


def test_deleted_checkpoints_are_left_out(small, tmp_path):
    run = "real/tiny/mix/seed0"
    atomic_files.remove_path(tmp_path / "results/runs" / run / "checkpoints" / "step20")
    found = lineage.read_lineage(experiment.read_experiment(small)).artifacts
    assert f"checkpoint/{run}/step10" in found
    assert f"checkpoint/{run}/step20" not in found
