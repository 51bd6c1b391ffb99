"""What the rules of the workflow read and take, by hand on the default experiment."""

import math
import subprocess
from types import SimpleNamespace

import pytest

from pike_mixing.errors import InputError
from pipeline.planning import planner, rule_inputs
from pipeline.planning.profile import Profile
from pipeline.planning.rule_inputs import RuleInputs
from pipeline.planning.rule_resources import RuleResources

PIKE = "symbols/nano/pike/seed0"
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


def of(**names):
    return SimpleNamespace(**names, items=names.items)


def test_a_run_reads_the_corpora_of_its_domains(reads):
    corpora = [f"results/corpora/symbols/{d}/{MANIFEST}" for d in ("easy", "hard", "noise")]
    assert reads.run_inputs(of(run=PIKE)) == {"corpora": corpora}
    assert reads.corpora_folder(of(run=PIKE)) == "results/corpora/symbols"
    evaluation = reads.evaluation_inputs(of(run=PIKE))
    assert evaluation["tokenizer"] == "results/tokenizers/symbols.model"
    assert evaluation["corpora"] == []


def test_a_run_that_stands_on_others_names_what_they_left(reads):
    proxy = reads.run_inputs(of(run="stdlib/pico/doremi-proxy/seed0"))
    reference = f"results/runs/stdlib/pico/mix/seed0/{MANIFEST}"
    assert proxy["reference"] == reference
    final = reads.run_inputs(of(run="stdlib/nano/doremi/seed0"))
    assert final["mixture"] == "results/mixtures/stdlib/pico/doremi/seed0.json"
    given = {"reference": reference, "mixture": "m.json"}
    folder = "results/runs/stdlib/pico/mix/seed0"
    corpora = ["--corpora", "results/corpora/symbols"]
    expected = [*corpora, "--reference", folder, "--mixture", "m.json"]
    assert reads.run_arguments(of(run=PIKE), given) == expected
    assert reads.run_arguments(of(run=PIKE), {}) == corpora


def test_a_mixture_reads_its_proxies_and_their_evaluations(reads):
    proxies = reads.mixture_proxies(of(mixture="stdlib/pico/doremi/seed0"))
    folder = "results/runs/stdlib/pico/doremi-proxy/seed0"
    assert proxies == [f"{folder}/{MANIFEST}", f"{folder}/evaluations/{MANIFEST}"]


def test_a_source_reads_the_files_that_it_names(reads):
    assert reads.source_files(of(source="code")) == ["b.txt", "a.txt"]
    assert reads.source_files(of(source="prose")) == []
    assert reads.tokenizer_file(of(tokenizer="symbols")) == []
    documents = [f"results/data/{source}/{MANIFEST}" for source in ("easy", "hard", "noise")]
    assert reads.tokenizer_documents(of(tokenizer="symbols")) == documents


def test_evaluation_items_are_the_users_own_or_a_fetched_task(reads):
    assert reads.decontamination_tasks(of()) == [f"results/tasks/piqa/{MANIFEST}"]
    assert reads.decontamination_files(of()) == ["own.jsonl"]


def test_a_database_reads_every_record_of_its_runs(plan, reads):
    found = reads.records([PIKE])
    folder = f"results/runs/{PIKE}"
    assert found[:2] == [f"{folder}/{MANIFEST}", f"{folder}/evaluations/{MANIFEST}"]
    assert f"results/corpora/symbols/hard/{MANIFEST}" in found
    assert "results/tokenizers/symbols.json" in found
    assert reads.selection_records(of(selection="table-table1")) == reads.records(
        plan.named_selection("table-table1")
    )


def test_a_try_has_more_time_than_the_one_before_up_to_the_limit(plan):
    free, limited = (
        RuleResources(plan, Profile(chosen))
        for chosen in ({}, {"pretrain": {"longest": "12", "accelerator": "h100"}})
    )
    first, second = (free.of("pretrain")["runtime"](of(run=PIKE), n) for n in (1, 2))
    assert second == 2 * first
    assert first > 10
    assert limited.of("pretrain")["runtime"](of(run=PIKE), 2) == 12
    assert limited.of("pretrain")["gpu"](of(run=PIKE)) == 1
    assert free.of("pretrain")["gpu"] == 0
    assert "gpu" not in free.of("pack")


def test_a_limit_allows_as_many_tries_as_the_longest_run_takes(plan):
    assert RuleResources(plan, Profile({})).further_tries() == {
        "pretrain": 0,
        "download": 0,
        "pack": 0,
    }
    limited = RuleResources(plan, Profile({"pretrain": {"longest": "1"}}))
    seconds = max(limited._jobs["pretrain"].job("pretrain", run).seconds for run in plan.runs)
    assert limited.further_tries()["pretrain"] == math.ceil(2 * seconds / 60)


def test_a_training_is_shared_out_as_the_profile_says(plan):
    two = RuleResources(plan, Profile({"pretrain": {"processes": "2"}}))
    assert two.processes(of(run=PIKE)) == 2
    assert two.process_arguments(of(run=PIKE), None) == ["--processes", "2"]


def test_nodes_share_the_processes_of_a_training(plan):
    asked = {"processes": "4", "nodes": "2", "accelerator": "h100"}
    shared = RuleResources(plan, Profile({"pretrain": asked}))
    assert shared.process_arguments(of(run=PIKE), None) == ["--processes", "4", "--nodes", "2"]
    taken = shared.of("pretrain")
    assert [taken[name] for name in ("mpi", "nodes", "tasks", "gpu")] == ["srun", 2, 2, 0]
    assert (taken["cpus_per_task"](of(run=PIKE)), taken["gres"](of(run=PIKE))) == (2, "gpu:2")
    assert "mpi" not in shared.of("evaluate")
    with pytest.raises(InputError, match="they cannot share the 4 processes of a run"):
        RuleResources(plan, Profile({"pretrain": {"processes": "4", "nodes": "3"}}))
    # `nodes` alone is no answer to how many processes there are.
    with pytest.raises(InputError, match="they cannot share the 1 processes"):
        RuleResources(plan, Profile({"pretrain": {"nodes": "2"}}))
    with pytest.raises(InputError, match="device xla trains on one node, and nodes: 2 was asked"):
        RuleResources(plan, Profile({"pretrain": {**asked, "device": "xla"}}))


def test_jobs_find_the_code_of_a_folder_with_braces_first(tmp_path):
    folder = tmp_path / "a {clone}"
    prefix = rule_inputs.shell_prefix(str(folder)).format()  # As Snakemake does.
    for further in ({}, {"PYTHONPATH": "/nowhere"}):
        shown = subprocess.check_output(
            ["bash", "-c", f"{prefix}echo $PYTHONPATH"], env={**further, "PATH": "/usr/bin:/bin"}
        )
        assert shown.decode().strip() == ":".join([str(folder), *further.values()])
