"""What the jobs of each rule ask Snakemake, and so Slurm, for: memory, time, GPUs, nodes, tries.

The estimates are those of `run_estimates` and `job_estimates`; a profile (`workflow_profile`) says
on which devices jobs run and how long they may last.
"""

import math
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from pike_mixing.errors import InputError
from pipeline.planning.job_estimates import DISK_BYTES, JobEstimates
from pipeline.planning.plan import Plan
from pipeline.planning.rule_inputs import Wildcards, attach_signature
from pipeline.planning.run_estimates import JobEstimate
from pipeline.planning.workflow_profile import TRAINS, Profile
from pipeline.runtime import accelerators, launch

RETRIES = 3
"""Of a job that fails, as in workflow/profiles/slurm."""
GOES_ON = ("download", "pretrain")
"""Rules whose jobs go on where they were stopped; others begin again."""
REMEDIES = {
    "pack": "lower `bytes` of the source, or give it more threads (set-threads)",
    "tokenizer": "lower its `characters`",
    **dict.fromkeys(("evaluate", "probe"), "ask for fewer rows, tasks or checkpoints"),
}
"""What else helps a job that takes too long."""
STARTED = "PIKE_STARTED"
"""The environment variable by which jobs know that a workflow has started them."""
Resources = dict[str, Callable[..., int | str] | int | str]
"""By name, as Snakemake takes them: values, or functions of a job's wildcards."""


class RuleResources:
    """Resources of the rules of a plan under a profile."""

    def __init__(self, plan: Plan, profile: Profile) -> None:
        """Prepares the estimates for each kind of device.

        Raises:
            InputError: the profile names an unknown device, or nodes that a run or its device
                cannot share.
        """

        def new_estimates(rule: str) -> JobEstimates:
            device = accelerators.accelerator_of_name(profile.accelerator_or_cpu(rule))
            processes = int(profile.value_in_set_resources(rule, "processes", "1"))
            return JobEstimates(plan, device, processes)

        self._plan, self._profile = plan, profile
        self._of_trainers = {rule: new_estimates(rule) for rule in TRAINS}
        self._of_others = new_estimates("")
        self._nodes = int(profile.value_in_set_resources("pretrain", "nodes", "1"))
        trainings = self._trainings = self._of_trainers["pretrain"]
        processes, place = trainings.processes, "set-resources of pretrain"
        accelerators.refuse_too_many_devices(
            trainings.device, processes, f"{place}: processes: {processes}"
        )
        launch.refuse_several_xla_nodes(self._nodes, profile.set_or_implied_device("pretrain"))
        if self._nodes == 1:
            return
        counts = {trainings.training_estimate(run).devices for run in plan.runs} - {1}
        for count in sorted(n for n in {processes, *counts} if n % self._nodes):
            raise InputError(
                f"{place}: nodes: {self._nodes}: they cannot share the {count} processes of a run "
                "evenly: change `processes` or `nodes`"
            )
        if model := profile.value_in_set_resources("pretrain", "gpu_model"):
            # The plugin (2.8.0) would ask for no GPU of that model, beside those of each node.
            raise InputError(
                f"{place}: gpu_model: {model}: on several nodes a job asks for the GPUs of each: "
                f"write gres: gpu:{model}:{processes // self._nodes} in its place"
            )

    def _estimates_of(self, rule: str) -> JobEstimates:
        return self._of_trainers.get(rule, self._of_others)

    def resources(self, rule: str) -> Resources:
        """A rule's resources: each try has more time and memory.

        The interpreter and the device are among them: where a job runs is not what it computes,
        and profiles set them per rule (set-resources).
        """
        work, profile = self._estimates_of(rule), self._profile

        def estimate(wildcards: Wildcards) -> JobEstimate:
            named = [str(v) for name, v in wildcards.items() if name != "selection"]
            return work.estimate(rule, "/".join(named))

        def runtime(wildcards: Wildcards, attempt: int, threads: int = 0) -> int:
            seconds = _seconds_on_threads(estimate(wildcards), threads)
            minutes = attempt * (10 + math.ceil(seconds / 30))
            return min(minutes, profile.time_limit_minutes(rule) or minutes)

        # A number costs a plan of many runs less than a function that Snakemake asks for each.
        result: Resources = {
            "mem_mb": attach_signature(
                lambda wildcards, attempt: estimate(wildcards).memory_mb(attempt)
            ),
            "disk_mb": math.ceil(DISK_BYTES[rule] / 1e6)
            if rule in DISK_BYTES
            else lambda wildcards: math.ceil(estimate(wildcards).disk_bytes / 1e6),
            "runtime": attach_signature(runtime),
            "python": profile.value_in_set_resources(rule, "python", sys.executable),
        }
        if rule in TRAINS:
            result["gpu"] = (
                (lambda wildcards: estimate(wildcards).devices) if work.device.memory_bytes else 0
            )
            result["device"] = profile.set_or_implied_device(rule)
            result["accelerator"] = profile.accelerator_or_cpu(rule)
        return result | (self._node_resources() if rule == "pretrain" else {})

    def _node_resources(self) -> Resources:
        """What the Slurm plugin must know so that a job can start a task on each of its nodes.

        With `mpi`, the job itself calls srun (`runtime.launch`); without `tasks_per_gpu`, `tasks`
        would be taken for it; and `gpu` counts those of all nodes, where each needs as many. Of
        several GPUs Slurm may give a job some on another node, unless it asks for one node.
        """
        n = self._nodes
        if n == 1:
            return {"nodes": 1}

        def processes_per_node(wildcards: Wildcards) -> int:
            return max(1, self.training_process_count(wildcards) // n)

        taken: Resources = {"mpi": "srun", "tasks_per_gpu": 0, "nodes": n, "tasks": n}
        if self._trainings.device.memory_bytes:
            taken |= {"gpu": 0, "gres": lambda wildcards: f"gpu:{processes_per_node(wildcards)}"}
        return {**taken, "cpus_per_task": processes_per_node}

    @attach_signature
    def training_process_count(self, wildcards: Wildcards) -> int:
        """How many processes train a run, each on a device: what the profile or the model asks.

        Raises:
            InputError: its model does not fit the devices.
        """
        if why := self._trainings.explain_refusal(wildcards.run):
            raise InputError(why)
        return self._trainings.training_estimate(wildcards.run).devices

    @attach_signature
    def process_and_sharding_options(self, wildcards: Wildcards, output: Any) -> list[str]:
        """Arguments that say how a run is shared out.

        What is made of `output` is no reason for Snakemake to make a run again: where it is
        computed is not what it computes. (Nor is what is made of `resources`, but these would be
        found for every job of a plan.)
        """
        taken = self._trainings.training_estimate(wildcards.run)
        # A run that one process alone can train stays on the first node.
        nodes = ["--nodes", str(self._nodes)] if taken.devices > 1 < self._nodes else []
        chosen = {"--shard": taken.sharded, "--recompute": taken.recomputes}
        ways = [option for option, wanted in chosen.items() if wanted]
        return ["--processes", str(taken.devices), *nodes, *ways]

    def retries(self, rule: str) -> int | None:
        """Further tries of a rule's jobs, where the time limit of a profile cuts one into several.

        As many as the longest job of the rule needs, and those of a job that fails: Snakemake
        counts tries by rule, not by job. None, which leaves it to `--retries`: without a limit, and
        in the Snakemake within a cluster's job, which would try again in an allocation that ends.
        """
        own = f"{socket.gethostname()}:{os.getpid()}"
        is_main_process = os.environ.setdefault(STARTED, own) == own
        names, limit = self._plan.names_by_rule()[rule], self._profile.time_limit_minutes(rule)
        if not (limit and names and is_main_process):
            return None
        longest = max(self._estimates_of(rule).estimate(rule, name).seconds for name in names)
        return math.ceil(2 * longest / 60 / limit) + RETRIES

    def explain_overlong(self, rule: str, name: str) -> str | None:
        """That a job is expected to take longer than it may, and what to do; None of other jobs.

        Jobs that go on where they were stopped are cut into as many as they need.
        """
        limit, work = self._profile.time_limit_minutes(rule), self._estimates_of(rule)
        if not limit or rule in GOES_ON or (rule in TRAINS and work.explain_refusal(name)):
            return None
        threads = self._profile.threads_or_zero(rule)
        hours = _seconds_on_threads(work.estimate(rule, name), threads) / 3600
        if 60 * hours <= limit:
            return None
        return (
            f"{rule} {name} is expected to take {hours:,.1f} hours, its job ends after "
            f"{limit / 60:,.1f} ({self._profile.time_limit_place(rule)}: longest: {limit}), "
            "and the next one begins again: raise `longest`, in a partition that allows more, or "
            + REMEDIES.get(rule, "leave it out")
        )

    def node_may_lack_gpus_warning(self, rule: str, name: str) -> str | None:
        """That a job takes several GPUs of one node, which may have fewer; None of other jobs."""
        work = self._trainings
        if (
            rule != "pretrain"
            or self._nodes > 1
            or not work.device.memory_bytes
            or work.explain_refusal(name)
        ):
            return None
        count = work.training_estimate(name).devices
        return (
            f"pretrain: a training takes {count} GPUs of one node, and never starts where no node "
            f"has {count}: on Slurm, then set `nodes` too (set-resources of pretrain)"
            if count > 1
            else None
        )


def _seconds_on_threads(job: JobEstimate, threads: int) -> float:
    """Expected time of a job with so many threads (0: as many as it asks for)."""
    return job.seconds * job.threads / min(threads or job.threads, job.threads)
