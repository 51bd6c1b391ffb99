"""Every profile, as far as a dry run goes: its keys are known, and jobs ask for what they take."""

import os
import re
import signal
import time

import pytest
from edits import program

from pipeline.runtime import environment

TWO = ("--set-resources", "pretrain:processes=2")


def asked(project, profile, *words):
    """Resources of each job of a dry run, by rule: the first of each."""
    done = project.dry_run("--profile", f"workflow/profiles/{profile}", *words)
    assert done.returncode == 0, done.stdout
    found = {}
    for block in re.split(r"^ *(?:local)?rule (?=\w+:$)", done.stdout, flags=re.MULTILINE)[1:]:
        shown = re.search(r"^ +resources: (.+)$", block, re.MULTILINE)
        if shown:
            pairs = dict(text.split("=", 1) for text in shown[1].split(", "))
            threads = re.search(r"^ +threads: (\d+)$", block, re.MULTILINE)
            pairs["threads"] = threads[1] if threads else "1"
            found.setdefault(block.partition(":")[0], pairs)
    return found


def test_with_several_gpus_jobs_take_one_and_a_training_one_for_each_process(fresh):
    profile = "workflow/profiles/gpu/config.yaml"
    fresh.edit(profile, "# processes: 4", "processes: 2")
    fresh.edit(profile, "  gpu: 1\n", "  gpu: 2\n")
    found = asked(fresh, "gpu")
    assert (found["pretrain"]["gpu"], found["pretrain"]["threads"]) == ("2", "2")
    for rule in ("evaluate", "probe"):
        assert (found[rule]["gpu"], found[rule]["device"]) == ("1", "cuda")
    assert "gpu" not in found["database"]


def test_a_finished_training_is_not_made_again_by_another_number_of_processes(finished):
    target = finished.manifest("mix")
    told = finished.dry_run("--force", target, *TWO, "--printshellcmds").stdout
    assert "--processes 2 --threads 2" in told
    assert finished.plan(target, *TWO) == set()


def test_on_slurm_a_job_says_where_it_runs_and_when_it_wants_to_know_of_the_end(fresh):
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="pip install -e '.[slurm]'")
    path = fresh.path("workflow/profiles/slurm/config.yaml")
    text = path.read_text(encoding="utf-8").replace("longest: &longest 1440", "longest: &longest 5")
    text = text.replace("# processes: 4", "processes: 2")
    path.write_text(text.replace("  longest: 1440", "  longest: 7"), encoding="utf-8")
    fresh.set({"tables/theory": {}})
    # Without the cores of this machine, which Snakemake takes from profiles beside a Snakefile.
    found = asked(fresh, "slurm", "--workflow-profile", "none", "--cores", "99")
    # All GPUs of a training are on one node, and a dry run shows the cores that a job asks for.
    assert [found["pretrain"][name] for name in ("gpu", "nodes", "threads")] == ["2", "1", "2"]
    assert found["pretrain"]["slurm_extra"] == "--signal=USR1@120"
    # No time limit exceeds the longest of its partition, and no job without a GPU takes the place
    # of one that needs it.
    rules = {"tokenizer", "pack", "theory", "database", "table", "figure", "report"}
    for rule in rules | {"pretrain", "evaluate", "probe"}:
        limit = ("cpu", "7") if rule in rules else ("gpu", "5")
        assert (found[rule]["slurm_partition"], found[rule].get("runtime")) == limit, rule
    # One line names the GPU, whose jobs never fall back to the CPU, and say so where it is another.
    own = [found[rule] for rule in ("pretrain", "evaluate", "probe")]
    assert {(values["device"], values["accelerator"]) for values in own} == {("cuda", "h100")}


def test_a_torch_of_the_cpu_is_refused_before_jobs_book_gpus(fresh, tmp_path):
    """Whether Slurm's jobs would train, or this machine's; a dry run says so, too."""
    if not environment.is_torch_cpu_only():
        pytest.skip("this environment's torch has CUDA")
    program("scontrol")(tmp_path)
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for profile in ("slurm", "gpu"):
        if profile == "slurm":
            pytest.importorskip("snakemake_executor_plugin_slurm")
        words = ("--profile", f"workflow/profiles/{profile}", "results/pike.duckdb")
        done = fresh.run("snakemake", *words, environment=own, anew=True)
        assert done.returncode == 1, done.stdout
        dry = fresh.dry_run(*words, "--quiet", "rules", environment=own)
        assert dry.returncode == 0, dry.stdout
        for told in (done.stdout, dry.stdout):
            assert "accelerator: h100: jobs would get GPUs that the torch of" in told
            assert "run `make setup TORCH=cuda`, or set `accelerator: cpu`" in told
            assert "Traceback" not in told
        # Once, and not of each job.
        assert dry.stdout.count("jobs would get GPUs") == 1
    assert not fresh.path("results/data").exists()


def test_a_workflow_that_waits_for_slurms_controller_ends_by_ctrl_c(fresh, tmp_path):
    """It is there and does not answer; test_slurm_plugin.py has one that is away."""
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="pip install -e '.[slurm]'")
    programs = tmp_path / "programs"
    asked = programs / "asked"
    hangs = 'test "$1" = ping && sleep 99; '
    for name in ("sacct", "sbatch", "scancel", "scontrol", "squeue"):
        does = f'echo "{name} $1" >> {asked}; {hangs}echo is away >&2; exit 1'
        program(name, does)(programs)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    words = ("--profile", "workflow/profiles/slurm", "results/data/easy/manifest.json")
    process = fresh.begin(["snakemake", *words], environment)
    fresh.wait(lambda: "ping" in asked.read_text() if asked.exists() else False, "a ping", 120)
    # Snakemake itself does not hear a signal while it hands out a job.
    time.sleep(2)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 1, fresh.path("started.log").read_text()
    assert "sbatch" not in asked.read_text(encoding="utf-8")
