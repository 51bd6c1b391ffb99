"""What the jobs of each rule of the workflow take, on the devices that a profile gives them."""

import math
import os
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any

from pike_mixing.errors import InputError
from pipeline.planning.jobs import DISK_BYTES, Job, Jobs
from pipeline.planning.plan import Plan
from pipeline.planning.profile import TRAINS, Profile
from pipeline.planning.rule_inputs import with_signature_at_hand
from pipeline.runtime import accelerators, launch

RETRIES = 3
"""Of a job that fails, as in workflow/profiles/slurm."""
STARTED = "PIKE_STARTED"
"""The environment variable by which jobs know that a workflow has started them."""
Wildcards = Any
Resources = dict[str, Callable[..., int | str] | int | str]
"""By name, as Snakemake takes them."""


def is_started_here() -> bool:
    """Whether this process is the workflow's own, and not one that it has started for a job."""
    own = f"{socket.gethostname()}:{os.getpid()}"
    return os.environ.setdefault(STARTED, own) == own


class RuleResources:
    """Resources of the rules of a plan under a profile."""

    def __init__(self, plan: Plan, profile: Profile) -> None:
        """Prepares the jobs of each kind of device.

        Raises:
            InputError: the profile names an unknown device, or nodes that a run or its device
                cannot share.
        """
        self._plan, self._profile = plan, profile
        self._jobs = {rule: self._jobs_of(rule) for rule in (*TRAINS, "")}
        self._nodes = int(profile.of("pretrain", "nodes", "1"))
        work = self._jobs["pretrain"]
        where = f"set-resources of pretrain: processes: {work.processes}"
        accelerators.refuse_too_many(work.device, work.processes, where)
        launch.refuse_nodes(self._nodes, profile.of("pretrain", "device"))
        self._refuse_uneven()

    def of(self, rule: str) -> Resources:
        """A rule's resources: values, or functions of its wildcards.

        Each try has more time and memory.

        The interpreter and the device are among them: where a job runs is not what it computes,
        and profiles set them per rule (set-resources).
        """

        def job(wildcards: Wildcards) -> Job:
            named = [str(v) for name, v in wildcards.items() if name != "selection"]
            return self._of_rule(rule).job(rule, "/".join(named))

        def runtime(wildcards: Wildcards, attempt: int) -> int:
            minutes = attempt * (10 + math.ceil(job(wildcards).seconds / 30))
            return min(minutes, self._profile.longest(rule) or minutes)

        def disk_mb(wildcards: Wildcards) -> int:
            return math.ceil(job(wildcards).disk_bytes / 1e6)

        # A number costs a plan of many runs less than a function that Snakemake asks for each.
        memory, disk = self._of_rule(rule).device.memory, DISK_BYTES.get(rule)
        gpu = (lambda wildcards: job(wildcards).devices) if memory else 0
        return {
            "mem_mb": with_signature_at_hand(
                lambda wildcards, attempt: job(wildcards).memory_mb(attempt)
            ),
            "disk_mb": math.ceil(disk / 1e6) if disk else disk_mb,
            "runtime": with_signature_at_hand(runtime),
            **({"gpu": gpu} if rule in TRAINS else {}),
            **(self._steps() if rule == "pretrain" and self._nodes > 1 else {}),
            "python": self.python(rule),
            **({"device": "auto"} if rule in TRAINS else {}),
        }

    def python(self, rule: str) -> str:
        """The interpreter of a rule's jobs."""
        return self._profile.of(rule, "python", sys.executable)

    def _steps(self) -> Resources:
        """What the Slurm plugin must know so that a job can start a task on each of its nodes.

        With `mpi`, the job itself calls srun (`runtime.launch`); without `tasks_per_gpu`, `tasks`
        would be taken for it; and `gpu` counts those of all nodes, where each needs as many.
        """
        n = self._nodes

        def each(wildcards: Wildcards) -> int:
            return max(1, self.processes(wildcards) // n)

        taken: Resources = {"mpi": "srun", "tasks_per_gpu": 0, "nodes": n, "tasks": n}
        if self._of_rule("pretrain").device.memory:
            taken |= {"gpu": 0, "gres": lambda wildcards: f"gpu:{each(wildcards)}"}
        return {**taken, "cpus_per_task": each}

    def _refuse_uneven(self) -> None:
        work = self._jobs["pretrain"]
        counts = {work.processes}
        if self._nodes > 1:
            counts |= {work.training(run).devices for run in self._plan.runs} - {1}
        for count in sorted(n for n in counts if n % self._nodes):
            raise InputError(
                f"set-resources of pretrain: nodes: {self._nodes}: they cannot share the {count} "
                "processes of a run evenly: change `processes` or `nodes`"
            )

    @with_signature_at_hand
    def processes(self, wildcards: Wildcards) -> int:
        """How many processes train a run, each on a device: what the profile or the model asks.

        Raises:
            InputError: its model does not fit the devices.
        """
        if why := self._jobs["pretrain"].refused(wildcards.run):
            raise InputError(why)
        return self._jobs["pretrain"].training(wildcards.run).devices

    @with_signature_at_hand
    def process_arguments(self, wildcards: Wildcards, output: Any) -> list[str]:
        """Arguments that say how a run is shared out.

        What is made of `output` is no reason for Snakemake to make a run again: where it is
        computed is not what it computes. (Nor is what is made of `resources`, but these would be
        found for every job of a plan.)
        """
        taken = self._jobs["pretrain"].training(wildcards.run)
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
        slices = self._slices(rule, self._plan.work()[rule])
        return slices + RETRIES if slices and is_started_here() else None

    def _slices(self, rule: str, names: Iterable[str]) -> int:
        seconds = [self._of_rule(rule).job(rule, name).seconds for name in names]
        longest = self._profile.longest(rule)
        return math.ceil(2 * max(seconds) / 60 / longest) if seconds and longest else 0

    def _of_rule(self, rule: str) -> Jobs:
        return self._jobs[rule if rule in TRAINS else ""]

    def _jobs_of(self, rule: str) -> Jobs:
        device = accelerators.accelerator(self._profile.of(rule, "accelerator", "cpu"))
        return Jobs(self._plan, device, int(self._profile.of(rule, "processes", "1")))
