"""One configuration replaces another; two live side by side; mistakes come before any job."""

import shutil

from conftest import METHODS

from pipeline.runtime import atomic_files, code_fingerprint


def other(config):
    """An experiment that shares the default's sources and nothing else."""
    config.update(experiment="another", results="another")
    config["models"] = {"small": config["models"]["tiny"]}
    config["methods"] = {"turns": {"rule": "round-robin"}}
    config["scenarios"] = {"alone": config["scenarios"]["words"] | {"domains": ["easy", "hard"]}}
    entry = {"scenarios": ["alone"], "models": ["small"], "methods": ["turns"], "seeds": [3]}
    config.update(runs=[entry], tables={"perplexity": {}}, figures={})


def pretrained(planned):
    return {job.removeprefix("pretrain ") for job in planned if job.startswith("pretrain ")}


DEFAULT_RUNS = {f"words/tiny/{m}/seed0" for m in METHODS}


def test_another_configuration_replaces_the_default_and_lives_beside_it(finished):
    finished.configure(other, "other.yaml")
    before = finished.contents()
    chosen = ("--configfile", "other.yaml")
    planned = finished.plan(*chosen)
    assert pretrained(planned) == {"alone/small/turns/seed3"}
    assert {job for job in planned if job.startswith(("table", "figure"))} == {"table perplexity"}
    assert not finished.path("another").exists()
    finished.make("another/data/easy/manifest.json", *chosen)
    assert finished.contents() == before
    assert finished.plan() == finished.plan("--configfile", "config.yaml") == set()


CHANGED = ("--configfile", "other.yaml", "--config", "results=elsewhere")


def test_a_job_of_a_cluster_gets_the_same_plan(fresh):
    # Executors start each job as a Snakemake of its own, with an absolute path to what was asked.
    fresh.configure(other, "other.yaml")
    target = "elsewhere/data/easy/manifest.json"
    fresh.make(target, *CHANGED)
    fresh.path(target).unlink()
    done = fresh.run(
        "snakemake",
        *("--mode", "remote", "--cores", 1, "--target-jobs", "download:source=easy"),
        *("--allowed-rules", "download", "--force", "--nolock", "--no-hooks"),
        *("--configfiles", fresh.path("other.yaml"), "--config", "results=elsewhere"),
    )
    assert done.returncode == 0, done.stdout
    assert fresh.path(target).is_file()
    assert fresh.plan(target, *CHANGED) == set()


def test_a_second_configuration_is_refused_in_the_folder_of_the_first(finished):
    finished.configure(other, "other.yaml")
    finished.set({"results": "results"}, "other.yaml")
    before = finished.contents()
    for mode in (["--dry-run"], []):
        told = finished.refused(*mode, "--configfile", "other.yaml")
        assert "results/ belongs to the experiment 'smoke' of config.yaml" in told
        assert "not to 'another' of other.yaml" in told
        assert "its own folder (results: ...)" in told
    assert finished.contents() == before


def test_the_code_beside_the_snakefile_runs_in_any_directory(fresh):
    place = fresh.path("pipeline/data/synthetic.py")
    place.write_text(place.read_text(encoding="utf-8") + "\nUNUSED = 1\n", encoding="utf-8")
    shutil.copytree(fresh.path("text"), fresh.path("elsewhere/text"))
    manifest = fresh.path("elsewhere/results/data/easy/manifest.json")
    fresh.make(
        "results/data/easy/manifest.json",
        *("--directory", "elsewhere", "--configfile", fresh.path("config.yaml")),
    )
    modules = ("pipeline.data.sources", "pipeline.data.synthetic")
    code = (
        f"from pipeline.runtime.code_fingerprint import fingerprint; print(fingerprint(*{modules}))"
    )
    fresh.path("ask.py").write_text(code, encoding="utf-8")
    expected = fresh.run("ask").stdout.strip()
    assert expected != code_fingerprint.fingerprint(*modules)
    assert atomic_files.read_json(manifest)["code"]["fingerprint"] == expected


OWN = """
import dataclasses
from pathlib import Path

from pike_mixing.setting_limits import PositiveFloat
from pike_mixing.rules.static import Mix

Path(__file__).with_name("imported").touch()


@dataclasses.dataclass(frozen=True)
class Own(Mix):
    power: PositiveFloat = 1.0
"""


def test_a_class_of_ones_own_is_asked_when_the_workflow_starts(fresh):
    fresh.path("own.py").write_text(OWN, encoding="utf-8")
    beside = {"PYTHONPATH": str(fresh.path("."))}
    fresh.edit("config.yaml", "mix: {rule: mix}", 'mix: {rule: "own:Own", power: -1}')
    # Snakemake itself reads a text here, as YAML 1.1.
    fresh.edit("config.yaml", "1.0e-2", "1e-2")
    assert pretrained(fresh.plan(environment=beside)) == DEFAULT_RUNS
    assert not fresh.path("imported").exists()
    told = fresh.refused("--cores", 1, environment=beside)
    assert "methods.mix in scenario words.power: must be positive, not -1" in told
    assert not list(fresh.path("results").rglob("*.json"))


def test_a_target_that_nothing_makes_is_refused_with_the_nearest_name(fresh):
    target = "results/runs/words/tiny/pyke/seed0/manifest.json"
    assert "did you mean 'words/tiny/pike/seed0'" in fresh.make("--dry-run", target, code=1)


def test_generated_tests_of_rules_are_refused(fresh):
    done = fresh.run("snakemake", "--generate-unit-tests", "unit")
    assert (done.returncode, "the manifests of folders" in done.stdout) == (1, True)
    assert not fresh.path("unit").exists()
