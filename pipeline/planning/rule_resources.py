"""What the jobs of each rule of the workflow take, on the devices that a profile gives them."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from pipeline.planning.jobs import Job, Jobs
from pipeline.planning.planner import Plan
from pipeline.planning.profile import TRAINS, Profile
from pipeline.runtime import accelerators

Wildcards = Any


class RuleResources:
    """Resources of the rules of a plan under a profile."""

    def __init__(self, plan: Plan, profile: Profile) -> None:
        """Prepares the jobs of each kind of device.

        Raises:
            InputError: the profile names an unknown device.
        """
        self._plan, self._profile = plan, profile
        self._jobs = {rule: self._jobs_of(rule) for rule in (*TRAINS, "")}

    def of(self, rule: str) -> dict[str, Callable[..., int]]:
        """A rule's resources as functions of its wildcards; more time and memory at each try."""

        def job(wildcards: Wildcards) -> Job:
            named = [str(v) for name, v in wildcards.items() if name != "selection"]
            return self._of_rule(rule).job(rule, "/".join(named))

        def runtime(wildcards: Wildcards, attempt: int) -> int:
            minutes = attempt * (10 + math.ceil(job(wildcards).seconds / 30))
            return min(minutes, self._profile.longest(rule) or minutes)

        def gpu(wildcards: Wildcards) -> int:
            return job(wildcards).devices if self._of_rule(rule).device.memory else 0

        return {
            "mem_mb": lambda wildcards, attempt: job(wildcards).memory_mb(attempt),
            "disk_mb": lambda wildcards: math.ceil(job(wildcards).disk_bytes / 1e6),
            "runtime": runtime,
            **({"gpu": gpu} if rule in TRAINS else {}),
        }

    def processes(self, wildcards: Wildcards) -> int:
        """How many processes train a run, each on a device: what the profile or the model asks."""
        return self._jobs["pretrain"].job("pretrain", wildcards.run).devices

    def process_arguments(self, wildcards: Wildcards, resources: Any) -> list[str]:
        """Arguments that say how a run is shared out.

        What is made of `resources` is no reason for Snakemake to make a run again: where it is
        computed is not what it computes.
        """
        taken = self._jobs["pretrain"].job("pretrain", wildcards.run).taken
        assert taken is not None, "a training has an estimate"
        return ["--processes", str(taken.devices), *(["--shard"] if taken.sharded else [])]

    def further_tries(self) -> dict[str, int]:
        """Further tries by rule, where the time limit of a profile cuts a job into several.

        As many as the longest job of the rule needs: Snakemake counts tries by rule, not by job.
        """
        named = {"pretrain": self._plan.runs, "download": self._plan.sources}
        named |= {"pack": self._plan.corpora}
        return {rule: self._slices(rule, names) for rule, names in named.items()}

    def _slices(self, rule: str, names: Iterable[str]) -> int:
        seconds = [self._of_rule(rule).job(rule, name).seconds for name in names]
        longest = self._profile.longest(rule)
        return math.ceil(2 * max(seconds) / 60 / longest) if seconds and longest else 0

    def _of_rule(self, rule: str) -> Jobs:
        return self._jobs[rule if rule in TRAINS else ""]

    def _jobs_of(self, rule: str) -> Jobs:
        device = accelerators.accelerator(self._profile.of(rule, "accelerator", "cpu"))
        return Jobs(self._plan, device, int(self._profile.of(rule, "processes", "1")))
