"""What the Snakefile takes from the plan for its jobs, and what happens when it starts.

Jobs of one group of rules are forks of a process that has imported their modules, where they are
many and run on this machine.
"""

import functools
import math
import os
import socket
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pike_mixing.errors import InputError
from pipeline.planning import (
    methods,
    outdated,
    output_root,
    plan_hints,
    planner,
    records,
    rule_inputs,
    slurm,
    snakemake_internals,
    stages,
)
from pipeline.planning.jobs import DISK_BYTES, Job, Jobs
from pipeline.planning.plan import Plan
from pipeline.planning.profile import TRAINS, Profile
from pipeline.planning.rule_inputs import cache_signature
from pipeline.runtime import (
    accelerators,
    environment,
    fork_server,
    launch,
    locks,
    made_from,
    signal_handler,
)

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
Wildcards = Any
Resources = dict[str, Callable[..., int | str] | int | str]
"""By name, as Snakemake takes them."""


def is_main_process() -> bool:
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
        self._jobs = {rule: self._build_jobs(rule) for rule in (*TRAINS, "")}
        self._nodes = int(profile.value("pretrain", "nodes", "1"))
        work = self._jobs["pretrain"]
        where = f"set-resources of pretrain: processes: {work.processes}"
        accelerators.refuse_too_many_devices(work.device, work.processes, where)
        launch.refuse_several_nodes(self._nodes, profile.device("pretrain"))
        self._refuse_uneven_nodes()
        if self._nodes > 1 and (model := profile.value("pretrain", "gpu_model")):
            # The plugin (2.8.0) would ask for no GPU of that model, beside those of each node.
            raise InputError(
                f"set-resources of pretrain: gpu_model: {model}: on several nodes a job asks for "
                f"the GPUs of each: write gres: gpu:{model}:{work.processes // self._nodes} in its "
                "place"
            )

    def resources(self, rule: str) -> Resources:
        """A rule's resources: values, or functions of its wildcards.

        Each try has more time and memory.

        The interpreter and the device are among them: where a job runs is not what it computes,
        and profiles set them per rule (set-resources).
        """

        def job(wildcards: Wildcards) -> Job:
            named = [str(v) for name, v in wildcards.items() if name != "selection"]
            return self._jobs_with_device_of(rule).job(rule, "/".join(named))

        def runtime(wildcards: Wildcards, attempt: int, threads: int = 0) -> int:
            minutes = attempt * (10 + math.ceil(_seconds_on_threads(job(wildcards), threads) / 30))
            return min(minutes, self._profile.time_limit_minutes(rule) or minutes)

        def disk_mb(wildcards: Wildcards) -> int:
            return math.ceil(job(wildcards).disk_bytes / 1e6)

        # A number costs a plan of many runs less than a function that Snakemake asks for each.
        memory, disk = self._jobs_with_device_of(rule).device.memory_bytes, DISK_BYTES.get(rule)
        gpu = (lambda wildcards: job(wildcards).devices) if memory else 0
        return {
            "mem_mb": cache_signature(lambda wildcards, attempt: job(wildcards).memory_mb(attempt)),
            "disk_mb": math.ceil(disk / 1e6) if disk else disk_mb,
            "runtime": cache_signature(runtime),
            **({"gpu": gpu} if rule in TRAINS else {}),
            **(self._slurm_step_resources() if rule == "pretrain" else {}),
            "python": self._profile.value(rule, "python", sys.executable),
            **(self._devices(rule) if rule in TRAINS else {}),
        }

    def _devices(self, rule: str) -> Resources:
        return {"device": self._profile.device(rule), "accelerator": self._accelerator(rule)}

    def _accelerator(self, rule: str) -> str:
        return self._profile.value(rule, "accelerator", "cpu")

    def _slurm_step_resources(self) -> Resources:
        """What the Slurm plugin must know so that a job can start a task on each of its nodes.

        With `mpi`, the job itself calls srun (`runtime.launch`); without `tasks_per_gpu`, `tasks`
        would be taken for it; and `gpu` counts those of all nodes, where each needs as many. Of
        several GPUs Slurm may give a job some on another node, unless it asks for one node.
        """
        n = self._nodes
        if n == 1:
            return {"nodes": 1}

        def each(wildcards: Wildcards) -> int:
            return max(1, self.process_count(wildcards) // n)

        taken: Resources = {"mpi": "srun", "tasks_per_gpu": 0, "nodes": n, "tasks": n}
        if self._jobs_with_device_of("pretrain").device.memory_bytes:
            taken |= {"gpu": 0, "gres": lambda wildcards: f"gpu:{each(wildcards)}"}
        return {**taken, "cpus_per_task": each}

    def _refuse_uneven_nodes(self) -> None:
        work = self._jobs["pretrain"]
        counts = {work.processes}
        if self._nodes > 1:
            counts |= {work.training_estimate(run).devices for run in self._plan.runs} - {1}
        for count in sorted(n for n in counts if n % self._nodes):
            raise InputError(
                f"set-resources of pretrain: nodes: {self._nodes}: they cannot share the {count} "
                "processes of a run evenly: change `processes` or `nodes`"
            )

    @cache_signature
    def process_count(self, wildcards: Wildcards) -> int:
        """How many processes train a run, each on a device: what the profile or the model asks.

        Raises:
            InputError: its model does not fit the devices.
        """
        if why := self._jobs["pretrain"].refusal(wildcards.run):
            raise InputError(why)
        return self._jobs["pretrain"].training_estimate(wildcards.run).devices

    @cache_signature
    def process_arguments(self, wildcards: Wildcards, output: Any) -> list[str]:
        """Arguments that say how a run is shared out.

        What is made of `output` is no reason for Snakemake to make a run again: where it is
        computed is not what it computes. (Nor is what is made of `resources`, but these would be
        found for every job of a plan.)
        """
        taken = self._jobs["pretrain"].training_estimate(wildcards.run)
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
        slices = self._time_limit_slices(rule, self._plan.names_by_rule()[rule])
        return slices + RETRIES if slices and is_main_process() else None

    def _time_limit_slices(self, rule: str, names: Iterable[str]) -> int:
        seconds = [self._jobs_with_device_of(rule).job(rule, name).seconds for name in names]
        longest = self._profile.time_limit_minutes(rule)
        return math.ceil(2 * max(seconds) / 60 / longest) if seconds and longest else 0

    def explain_overlong(self, rule: str, name: str) -> str | None:
        """That a job is expected to take longer than it may, and what to do; None of other jobs.

        Jobs that go on where they were stopped are cut into as many as they need.
        """
        longest, work = self._profile.time_limit_minutes(rule), self._jobs_with_device_of(rule)
        if not longest or rule in GOES_ON or (rule in TRAINS and work.refusal(name)):
            return None
        hours = _seconds_on_threads(work.job(rule, name), self._profile.threads_of(rule)) / 3600
        if 60 * hours <= longest:
            return None
        return (
            f"{rule} {name} is expected to take {hours:,.1f} hours, its job ends after "
            f"{longest / 60:,.1f} ({self._profile.time_limit_place(rule)}: longest: {longest}), "
            "and the next one begins again: raise `longest`, in a partition that allows more, or "
            + REMEDIES.get(rule, "leave it out")
        )

    def explain_large_node(self, rule: str, name: str) -> str | None:
        """That a job takes several GPUs of one node, which may have fewer; None of other jobs."""
        work = self._jobs_with_device_of(rule)
        count = work.job(rule, name).devices if rule == "pretrain" else 0
        if count < 2 or self._nodes > 1 or not work.device.memory_bytes or work.refusal(name):
            return None
        return (
            f"pretrain: a training takes {count} GPUs of one node, and never starts where no node "
            f"has {count}: on Slurm, then set `nodes` too (set-resources of pretrain)"
        )

    def _jobs_with_device_of(self, rule: str) -> Jobs:
        return self._jobs[rule if rule in TRAINS else ""]

    def _build_jobs(self, rule: str) -> Jobs:
        device = accelerators.accelerator_of_name(self._accelerator(rule))
        return Jobs(self._plan, device, int(self._profile.value(rule, "processes", "1")))


def _seconds_on_threads(job: Job, threads: int) -> float:
    """Expected time of a job with so many threads (0: as many as it asks for)."""
    return job.seconds * job.threads / min(threads or job.threads, job.threads)


GROUPS = (
    TRAINS,
    ("database_of_selection", "database", "table", "figure", "article", "report"),
)
"""Rules whose jobs import the same packages."""
FEWEST = 4
"""Jobs from which on a server takes less time than it saves."""


def start_servers(rules: Iterable[str], profile: Profile, prefix: str) -> str:
    """Starts a server for each group of rules with jobs enough. It ends with this process.

    Args:
        rules: Rule of each job that will run.
        profile: What is set for them: rules of accelerators and of other interpreters have none.
        prefix: Shell commands that stand before each job's.

    Returns:
        What stands before every job's command line, for a shell; nothing without a server.
    """
    jobs, name = Counter(rules), ""
    for group in GROUPS if fork_server.can_serve_forks() else ():
        own = [rule for rule in group if _is_cpu_rule(rule, profile)]
        if sum(jobs[rule] for rule in own) >= FEWEST:
            name = name or f"pike-{uuid.uuid4().hex}"
            commands = (records.MADE[rule].stage or rule for rule in own)
            places = {c: stages.STAGES[c].partition(":")[0] for c in commands}
            fork_server.start_server(name, places, prefix)
    return fork_server.client_command(name) if name else ""


def spawn_function(words: str = "") -> str:
    """A shell function that becomes the command it is given, with words before it (`start`)."""
    why = "$1 is not here: in a container, set PIKE_IMAGE to its image; elsewhere, unset it"
    return (
        f'spawn() {{ command -v "$1" > /dev/null || {_shell_refusal(why)}; exec {words} "$@"; }}; '
    )


def refusing_spawn_function() -> str:
    """The same of a workflow that has not begun: Snakemake begins no module by itself."""
    why = (
        "this workflow has not begun: a Snakefile that takes it as the module pike says "
        "'onstart: pike.onstart()'"
    )
    return f"spawn() {_shell_refusal(why)}; "


def _shell_refusal(why: str) -> str:
    return f'{{ echo "{why}" >&2; exit 2; }}'


def _is_cpu_rule(rule: str, profile: Profile) -> bool:
    return profile.device(rule) in ("auto", "cpu") and not profile.value(rule, "python")


CONFIG = (Path("config.yaml"), Path("config/config.yaml"))
"""Where the configuration lies; the second is that of a Snakefile that takes ours as a module."""
HERE = Path(__file__).parents[2]
"""The folder of the package."""


class WorkflowJobs:
    """The experiment that a user asked Snakemake for, and its jobs."""

    def __init__(self, workflow: Any, config: Mapping[str, Any], shell: Any) -> None:
        """Plans it.

        Args:
            workflow: Snakemake's.
            config: What Snakemake has read.
            shell: Snakemake's, of which each job's command gets a prefix.

        Raises:
            InputError: a mistake in the configuration or in the profile, files of the user's own
                that are missing, or an output root that another experiment has begun.
        """
        signal_handler.restore_child_signals()
        output_root.ensure_user_name()
        slurm.ignore_checkpoint_signals()
        self._workflow, self._request = workflow, snakemake_internals.SnakemakeRequest(workflow)
        request = self._request
        files = request.files or [_default_config_file(config, request.options)]
        self.plan, self.config = planner.plan_of_workflow(files, request.options)
        output_root.claim_root(self.plan)
        self.takes = RuleResources(self.plan, request.profile)
        work = self.plan.names_by_rule()
        self._pythons = {
            rule: own for rule in work if (own := request.profile.value(rule, "python"))
        }
        self._compared = outdated.PlanComparison(self.plan, self._pythons, self._is_forced)
        self.reads = self._compared.inputs
        # The process of a job has what it needs.
        if not request.is_job_process():
            # Snakemake would go on with what was made of others.
            self._compared.refuse_missing_files()
            # It lists a folder once: a stamp that is made later would not be found.
            for manifest in (self.plan.manifest(r, n) for r, names in work.items() for n in names):
                outdated.ensure_stamp(manifest)
        self._asked: dict[tuple[str, str], None] = {}
        self._doubted: set[str] = set()
        """What the user was told before the start, a dry run's too."""
        self._shell = shell
        self._prefix_jobs(refusing_spawn_function())
        if not request.is_local:
            snakemake_internals.mend_slurm_plugin(self._refuse_cpu_torch)

    def job_inputs(
        self,
        rule: str,
        name: str,
        *,
        ancient: Callable[[str], str],
        warn: Callable[[str], None],
    ) -> dict[str, Any]:
        """What a job reads, by name; and its stamp, of whose inputs the only one with a time.

        Args:
            rule: The job's rule.
            name: The values of its wildcards, joined by slashes.
            ancient: Snakemake's mark of a file whose time says nothing. What reads a file without
                this mark is made again where that is made again.
            warn: Tells the user why work is made again.

        Raises:
            InputError: the plan has no such job.
        """
        read = self.reads.job_inputs(rule, name)
        is_of_job = self._request.is_job_process()
        compares = self._request.compares_settings() and not is_of_job
        if is_of_job:
            self._prefix_jobs(spawn_function())
        if compares:
            stamp = self._compared.update_stamp(rule, name)
            if self._compared.is_outdated(rule, name):
                for line in self._compared.reason_lines(rule, name):
                    warn(line)
        else:
            stamp = ancient(outdated.ensure_stamp(self.plan.manifest(rule, name)))
        if (rule, name) not in self._asked and not is_of_job:
            told = [self.takes.explain_overlong(rule, name), self._explain_cpu_torch(rule)]
            if not self._request.is_local:
                told.append(self.takes.explain_large_node(rule, name))
                told.append(self._request.profile.explain_unfilled())
            doubts = [why for why in told if why and why not in self._doubted]
            if doubts and self._is_to_be_made(rule, name):
                self._doubted |= {*doubts}
                for why in doubts:
                    warn(why)
        self._asked[rule, name] = None

        def as_input(path: str) -> str:
            again = compares and self._compared.is_changing_input(path, rule)
            return path if again else ancient(path)

        # Snakemake takes braces in a name for a wildcard: such a file of the user's is not
        # declared, but read and compared like the others.
        given = [path for path in read.given if "{" not in path]
        named = {**read.made, "given": given}.items()
        result = {k: as_input(v) if isinstance(v, str) else [*map(as_input, v)] for k, v in named}
        return {"stamp": stamp, **result}

    def prepare_jobs(self, warn: Callable[[str], None]) -> None:
        """Makes ready what jobs find when they begin, before the first of them does.

        Args:
            warn: Tells the user of doubts.

        Raises:
            InputError: a method of the user's own does not fit its runs, packages of a finder are
                not installed, or the results' folder cannot be written.
        """
        made = [work for work in self._asked if self._is_to_be_made(*work)]
        rules = [rule for rule, _ in made]
        if self._request.is_local:
            self._refuse_cpu_torch()
        # A dry run and a report import no class of the user's and need no finder's packages.
        if "pretrain" in rules and not self._request.is_partial():
            methods.refuse_untrainable_runs(self.plan.runs.values(), self.plan.mixtures.values())
        for line in plan_hints.unused_name_hints(
            self.plan, self.config
        ) + plan_hints.short_search_hints(self.plan):
            warn(line)
        for name in (name for rule, name in made if rule == "pretrain"):
            if held := locks.describe_holder(Path(self.plan.manifest("pretrain", name)).parent):
                warn(f"{held}; until then its new job waits (`wait` of the profile) or is refused")
        output_root.write_settings(self.plan, self._pythons)
        for work in self._asked:
            self._compared.prepare_job(*work)
        words = ""
        if self._request.is_local:
            snakemake_internals.lift_rate_limit(self._workflow)
            own = rule_inputs.shell_prefix(str(HERE)).format()
            words = start_servers(rules, self._request.profile, own)
        self._prefix_jobs(spawn_function(words))

    def _refuse_cpu_torch(self) -> None:
        """Refuses to begin where jobs train on GPUs that this environment's torch cannot use.

        Other interpreters, and the images of Kubernetes, have a torch of their own.

        Raises:
            InputError: it was built for the CPU.
        """
        for rule in sorted({r for r, name in self._asked if self._is_to_be_made(r, name)}):
            if why := self._explain_cpu_torch(rule):
                raise InputError(why)

    @functools.cache  # noqa: B019 - one workflow lives as long as its process
    def _explain_cpu_torch(self, rule: str) -> str | None:
        """Why a rule's jobs would not find the GPUs that they book; None where they would."""
        profile = self._request.profile
        on_gpu = rule in TRAINS and profile.device(rule) == "cuda"
        if not on_gpu or profile.value(rule, "python") or self._request.is_partial():
            return None
        if not environment.is_torch_cpu_only():
            return None
        kind = profile.value(rule, "accelerator")
        set_by = f"accelerator: {kind}" if kind else "device: cuda"
        return (
            f"set-resources: {set_by}: jobs would get GPUs that the torch of {sys.prefix} cannot "
            "use, which was built for the CPU: run `make setup TORCH=cuda`, or set `accelerator: "
            "cpu`, and no `device`, to train without"
        )

    def _prefix_jobs(self, function: str) -> None:
        """Gives jobs' commands the shell function `spawn`, and our folder to find modules in."""
        self._shell.prefix(rule_inputs.shell_prefix(str(HERE), function))

    def _is_to_be_made(self, rule: str, name: str) -> bool:
        there = Path(self.plan.manifest(rule, name)).is_file()
        return not there or self._compared.is_outdated(rule, name)

    def _is_forced(self, rule: str, manifest: str) -> bool:
        return (
            self._forced_work is None or rule in self._forced_work or manifest in self._forced_work
        )

    @functools.cached_property
    def _forced_work(self) -> set[str] | None:
        """Rules and manifests of what the user forces; None: all."""
        named = self._request.forced_work()
        if named is None:
            return None
        files = [Path(os.path.normpath(one)) for one in named]
        # A manifest is an output like those that it stands beside.
        beside = [made_from.manifest_beside(file) for file in files]
        tokenizers = [file.with_suffix(".json") for file in files if file.suffix == ".model"]
        return named.union(map(str, [*files, *beside, *tokenizers]))


def _default_config_file(config: Mapping[str, Any], options: Mapping[str, Any]) -> Path:
    """The configuration where the command line names none.

    Raises:
        InputError: a Snakefile that takes ours as a module has read another.
    """
    result = next((path for path in CONFIG if path.exists()), CONFIG[0])
    read = {name: value for name, value in config.items() if name not in options}
    if not read:
        return result
    there = yaml.safe_load(result.read_text(encoding="utf-8")) if result.exists() else {}
    if read != {name: value for name, value in there.items() if name not in options}:
        raise InputError(
            f"the Snakefile that takes this workflow as a module has read another configuration "
            f"than {result}: put it there, or give it with --configfile"
        )
    return result
