"""What the Snakefile takes from the plan for its jobs, and what happens when it starts.

Jobs of one group of rules are forks of a process that has imported their modules, where they are
many and run on this machine.
"""

import functools
import os
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
from pipeline.planning.profile import TRAINS, Profile
from pipeline.planning.rule_resources import RuleResources
from pipeline.runtime import (
    environment,
    fork_server,
    locks,
    made_from,
    signal_handler,
)

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
            for one in self.plan.work:
                outdated.ensure_stamp(self.plan.manifest(*one))
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
