"""What is added to Snakemake's Slurm plugin, on the plugin itself, with programs that fail."""

import asyncio
import contextlib
import importlib
import logging
import types

import pytest
from edits import program
from recipes import of_run
from snakemake_interface_common.exceptions import WorkflowError

from pike_mixing.errors import InputError
from pipeline.planning import planner, slurm_executor
from pipeline.planning.requested_resources import RuleResources
from pipeline.planning.workflow_profile import Profile

plugin = pytest.importorskip("snakemake_executor_plugin_slurm", reason="pip install -e '.[slurm]'")
submit_string = importlib.import_module(f"{plugin.__name__}.submit_string")
utils = importlib.import_module(f"{plugin.__name__}.utils")
log = logging.getLogger("slurm plugin")


class Resources(dict):
    """A job's, by name and as attributes, as Snakemake has them."""

    __getattr__ = dict.get


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder of programs that comes first in PATH, and how to write one."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def write(name, text):
        program(name, text)(tmp_path)

    for name in ("squeue", "sacct", "scontrol"):
        write(name, "echo unable to contact the controller >&2; exit 1")
    return write


class Reporting(plugin.Executor):
    """The plugin's own, which notes what it would tell Snakemake."""

    def __init__(self):
        self.finished, self.failed, self.submitted = [], [], []
        self.logger = log

    def report_job_success(self, job_info):
        self.finished.append(job_info)

    def report_job_error(self, job_info, msg=None, **others):
        self.failed.append(msg)

    def run_job(self, job):
        self.submitted.append(job)


def submit():
    """Nothing speaks against it."""


MENDED = slurm_executor.patch_slurm_executor(Reporting, submit)


def still_active(job):
    """The jobs that a status check keeps, of one, and the executor."""
    executor = MENDED()
    settings = types.SimpleNamespace(
        status_command="squeue",
        status_attempts=2,
        init_seconds_before_status_checks=2,
        keep_successful_logs=True,
    )
    executor.workflow = types.SimpleNamespace(executor_settings=settings)
    executor.run_uuid = "run"
    executor.status_rate_limiter = contextlib.AsyncExitStack()
    executor._next_seconds_between_status_checks = 2
    executor._status_query_calls = executor._status_query_failures = 0
    executor._status_query_total_seconds = executor._status_query_max_seconds = 0.0
    executor._status_query_min_seconds, executor._status_query_cycle_rows = None, []

    async def ask():
        return [kept async for kept in executor.check_active_jobs([job])]

    return asyncio.run(ask()), executor


@pytest.fixture
def job():
    return types.SimpleNamespace(external_jobid="7", aux={"slurm_logfile": None})


def test_a_job_that_nobody_can_be_asked_about_is_kept(programs, job, caplog):
    kept, executor = still_active(job)
    assert (kept, executor.finished, executor.failed) == ([job], [], [])
    assert "Slurm says nothing of the jobs" in caplog.text


def test_an_answer_is_the_plugins_as_ever(programs, job):
    programs("scontrol", 'echo "MinJobAge = 600 sec"')
    programs("squeue", 'echo "7|COMPLETED"')
    kept, executor = still_active(job)
    assert (kept, executor.finished) == ([], [job])


@pytest.mark.parametrize(
    ("listed", "shown", "kept"),
    [
        # It is there and never answers.
        ("", "exec sleep 99", 1),
        # Slurm knows it, and it is not in the list yet.
        ("", "echo JobId=7", 1),
        ("", "echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1", 1),
        ("exit 1", "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", 1),
        ("", "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", 0),
    ],
)
def test_a_job_that_slurm_has_forgotten_has_failed(programs, job, monkeypatch, listed, shown, kept):
    monkeypatch.setattr(slurm_executor, "ANSWER_SECONDS", 0.2)
    programs("scontrol", f'test "$2" = job || {{ echo "MinJobAge = 600 sec"; exit; }}; {shown}')
    programs("squeue", listed)
    found, executor = still_active(job)
    assert found == [job] * kept
    assert executor.failed == ["Slurm has forgotten job 7, which counts as failed. "] * (1 - kept)


def test_where_nothing_can_be_submitted_it_is_said_at_once(programs, monkeypatch):
    def refuse():
        raise InputError("torch was built for the CPU")

    with pytest.raises(WorkflowError, match="torch was built for the CPU"):
        slurm_executor.patch_slurm_executor(Reporting, refuse)().__post_init__()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(WorkflowError, match="scontrol is not found: start the workflow where"):
        MENDED().__post_init__()


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [
        ({"accelerator": "a100-80gb", "processes": "4"}, ["--nodes=1", "--gpus=4"]),
        ({"accelerator": "a100-80gb"}, ["--nodes=1", "--gpus=1"]),
        ({"processes": "4"}, ["--nodes=1", "--ntasks=1"]),
        (
            {"accelerator": "a100-80gb", "processes": "8", "nodes": "2"},
            ["--nodes=2", "--ntasks=2", "--gres=gpu:4"],
        ),
    ],
)
def test_the_gpus_of_a_training_are_on_one_node_unless_it_asks_for_more(config, chosen, asked):
    plan = planner.plan(config(), "config.yaml")
    run = of_run("symbols/pico/pike-middle/seed100")
    takes = RuleResources(plan, Profile({"pretrain": chosen}))
    given = takes.resources("pretrain")
    values = {name: value for name, value in given.items() if name not in ("mem_mb", "runtime")}
    values = {n: value(run) if callable(value) else value for n, value in values.items()}
    job = types.SimpleNamespace(
        resources=Resources(values), threads=takes.training_process_count(run)
    )
    named = ("run_uuid", "slurm_logfile", "comment_str", "account", "partition", "workdir")
    command = submit_string.get_submit_command(job, dict.fromkeys(named, ""))
    words = (command + utils.set_gres_string(job)).split()
    kinds = ("--nodes", "--gpus", "--gres", "--ntasks")
    assert [word for word in words if word.startswith(kinds)] == asked


def test_a_model_of_gpus_is_asked_for_by_node_where_there_are_several(config):
    plan = planner.plan(config(), "config.yaml")
    chosen = {"accelerator": "h100", "processes": "8", "nodes": "2", "gpu_model": "h100"}
    with pytest.raises(InputError, match=r"h100: on several .* write gres: gpu:h100:4 in its"):
        RuleResources(plan, Profile({"pretrain": chosen}))
    job = types.SimpleNamespace(resources=Resources(gres="gpu:h100:4", gpu=0))
    assert utils.set_gres_string(job).split() == ["--gres=gpu:h100:4"]


def test_nothing_is_submitted_before_the_controller_answers(
    programs, monkeypatch, tmp_path, caplog
):
    monkeypatch.setattr(slurm_executor, "ASK_SECONDS", 0.01)
    # It answers at the third time.
    programs("scontrol", f"echo . >> {tmp_path}/asked; test $(wc -l < {tmp_path}/asked) -ge 3")
    executor = MENDED()
    executor.run_job("job")
    assert executor.submitted == ["job"]
    assert (tmp_path / "asked").read_text(encoding="utf-8") == ".\n.\n.\n"
    assert caplog.messages == ["Slurm's controller does not answer: waiting to submit"]
    # Not for ever, and not after Ctrl-C.
    programs("scontrol", "exit 1")
    monkeypatch.setattr(slurm_executor, "PATIENCE_SECONDS", 0.03)
    executor.run_job("later")
    assert executor.submitted == ["job", "later"]
    executor._cancelled.set()
    executor.run_job("another")
    assert executor.submitted == ["job", "later"]


@pytest.mark.parametrize(
    ("status", "log", "told"),
    [
        ("OUT_OF_MEMORY", "", True),
        ("FAILED", "slurmstepd: error: Job 7 exceeded memory limit (300 > 150)", True),
        ("FAILED", "exit code 2", False),
    ],
)
def test_a_job_that_took_too_much_memory_says_so(
    programs, job, tmp_path, caplog, status, log, told
):
    programs("scontrol", 'echo "MinJobAge = 600 sec"')
    programs("squeue", f'echo "7|{status}"')
    job.aux["slurm_logfile"] = tmp_path / "7.log"
    job.aux["slurm_logfile"].write_text(log, encoding="utf-8")
    assert still_active(job)[0] == []
    assert ("Slurm ended job 7 because it took more memory" in caplog.text) == told
