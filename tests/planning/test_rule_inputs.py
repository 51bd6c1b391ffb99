"""What the rules of the workflow read, by hand on the default experiment."""

import pytest
from recipes import of_run

from pike_mixing.errors import InputError
from pipeline.planning import manifest_places, planner
from pipeline.planning.plan import Selection
from pipeline.planning.rule_inputs import RuleInputs

PIKE = "symbols/pico/pike-middle/seed100"
MANIFEST = "manifest.json"


@pytest.fixture(scope="module")
def plan(config):
    values = config()
    values["sources"]["code"] = {"kind": "local", "files": ["b.txt", "a.txt"], "licence": "mine"}
    hygiene = {"decontaminate": {"files": ["results/tasks/piqa/*.jsonl", "own.jsonl"], "ngram": 13}}
    values["packing"]["hygiene"] = hygiene
    return planner.plan(values, "config.yaml")


@pytest.fixture(scope="module")
def reads(plan):
    return RuleInputs(plan)


def test_a_run_reads_the_corpora_of_its_domains(reads):
    corpora = [f"results/corpora/symbols/{d}/{MANIFEST}" for d in ("like-en", "like-hi", "like-de")]
    assert reads.job_inputs("pretrain", PIKE) == ({"corpora": corpora}, [])
    assert reads.corpora_folder(of_run(PIKE)) == "results/corpora/symbols"
    evaluation = reads.job_inputs("evaluate", PIKE)
    assert evaluation.made["tokenizer"] == ["results/tokenizers/symbols.model"]
    assert evaluation.made["corpora"] == []
    own = f"results/runs/{PIKE}/{MANIFEST}"
    assert evaluation.made_paths()[:2] == [own, "results/tokenizers/symbols.model"]
    probed = "symbols-six/nano/mix/seed220"
    assert reads.job_inputs("probe", probed).made_paths() == [f"results/runs/{probed}/{MANIFEST}"]


def test_a_run_that_stands_on_others_names_what_they_left(reads):
    proxy = reads.job_inputs("pretrain", "installed/pico/doremi-proxy/seed100").made
    reference = f"results/runs/installed/pico/mix/seed100/{MANIFEST}"
    assert proxy["reference"] == [reference]
    final = reads.job_inputs("pretrain", "installed/nano/doremi/seed220").made
    assert final["mixture"] == ["results/mixtures/installed/pico/doremi/seed100.json"]
    given = {"reference": [reference], "mixture": ["m.json"]}
    folder = "results/runs/installed/pico/mix/seed100"
    corpora = ["--corpora", "results/corpora/symbols"]
    expected = [*corpora, "--reference", folder, "--mixture", "m.json"]
    assert reads.run_arguments(of_run(PIKE), given) == expected
    assert reads.run_arguments(of_run(PIKE), {}) == corpora


def test_a_mixture_reads_its_proxies_and_evaluations_where_it_reads_losses(config):
    plan = planner.plan(config(), "config.yaml")
    name = "installed/pico/doremi/seed100"
    folder = "results/runs/installed/pico/doremi-proxy/seed100"
    assert plan.mixtures[name]["finder"] == "average"  # Of the proxy's own weights.
    assert RuleInputs(plan).job_inputs("mixture", name).made_paths() == [f"{folder}/{MANIFEST}"]
    plan.mixtures[name]["finder"] = "best"
    both = [f"{folder}/{MANIFEST}", f"{folder}/evaluations/{MANIFEST}"]
    assert RuleInputs(plan).job_inputs("mixture", name).made_paths() == both


def test_a_source_reads_the_files_that_it_names(reads):
    assert reads.job_inputs("download", "code") == ({}, ["b.txt", "a.txt"])
    assert reads.job_inputs("download", "prose") == ({}, [])
    sources = ("like-en", "like-hi", "like-zh", "like-ar")
    documents = [f"results/data/{source}/{MANIFEST}" for source in sources]
    assert reads.job_inputs("tokenizer", "symbols") == ({"documents": documents}, [])


def test_evaluation_items_are_the_users_own_or_a_fetched_task(reads):
    made, given = reads.job_inputs("pack", "symbols/like-en")
    assert made["tasks"] == [f"results/tasks/piqa/{MANIFEST}"]
    assert given == ["own.jsonl"]


def test_a_database_reads_every_record_of_its_runs(plan, reads):
    found = [
        place
        for _, _, place in manifest_places.database_manifests(
            plan.database_settings_of_selection(Selection((PIKE,)))
        )
    ]
    folder = f"results/runs/{PIKE}"
    own = {f"{folder}/{MANIFEST}", f"{folder}/evaluations/{MANIFEST}"}
    assert {*found} >= own | {f"results/corpora/symbols/like-hi/{MANIFEST}"}
    assert "results/tokenizers/symbols.json" in found
    name = "table-table1"
    selected = reads.job_inputs("database_of_selection", name).made_paths()
    expected = manifest_places.database_manifests(
        plan.database_settings_of_selection(plan.selection_by_database[name])
    )
    assert selected == [place for _, _, place in expected]
    database = f"results/databases/{name}.manifest.json"
    assert reads.job_inputs("table", "table1").made_paths() == [database]
    assert "results/tables/table1.manifest.json" in reads.job_inputs("report", "").made_paths()


def test_what_the_plan_has_not_is_refused_by_name(reads):
    for rule in ("download", "tokenizer", "pack", "pretrain", "mixture", "evaluate", "probe"):
        with pytest.raises(InputError, match="'prosa'"):
            reads.job_inputs(rule, "prosa")
