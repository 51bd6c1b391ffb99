"""What the Snakefile takes from the plan for its jobs, and what happens when it starts.

Jobs of one group of rules are forks of a process that has imported their modules, where they are
many and run on this machine.
"""

import functools
import getpass
import os
import shlex
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pike_mixing.errors import InputError, refuse
from pipeline.planning import (
    manifest_places,
    methods,
    outdated_work,
    output_root,
    plan_hints,
    planner,
    slurm_executor,
    snakemake_internals,
    stages,
)
from pipeline.planning.plan import WorkName
from pipeline.planning.requested_resources import RuleResources
from pipeline.planning.workflow_profile import TRAINS, Profile
from pipeline.runtime import environment, fork_server, locks, signal_handler

CONFIG = (output_root.DEFAULT_CONFIG, Path("config/config.yaml"))
"""Where the configuration lies; the second is that of a Snakefile that takes ours as a module."""
HERE = Path(__file__).parents[2]
"""The folder of the package."""
RESULTS = ("database_of_selection", "database", "table", "figure", "article", "report")
GROUPS = (TRAINS, RESULTS)
"""Rules whose jobs import the same packages."""
FEWEST = 4
"""Jobs from which on a server takes less time than it saves."""


def start_servers_and_get_command(
    rule_of_each_job: Iterable[str], profile: Profile, prefix: str
) -> str:
    """Starts a server for each group of rules with jobs enough, which ends with this process.

    Jobs that will run are named by their rules: those of accelerators and of other interpreters
    have none. Shell commands before each job are the `prefix`. Returned are words that stand before
    every job's command line, for a shell; none without a server.
    """
    jobs, name = Counter(rule_of_each_job), ""
    for group in GROUPS if fork_server.can_serve_forks() else ():
        on_cpu = (rule for rule in group if profile.set_or_implied_device(rule) in ("auto", "cpu"))
        own = [rule for rule in on_cpu if not profile.value_in_set_resources(rule, "python")]
        if sum(jobs[rule] for rule in own) >= FEWEST:
            name = name or f"pike-{uuid.uuid4().hex}"
            commands = (manifest_places.MADE[rule].stage or rule for rule in own)
            places = {c: stages.STAGES[c].partition(":")[0] for c in commands}
            fork_server.start_server(name, places, prefix)
    return fork_server.client_command(name) if name else ""


def shell_prefix_format(commands: str = "") -> str:
    """What stands before each job's command: Python finds its modules in our folder first.

    The prefix is a format to Snakemake: braces of its own are doubled.
    """
    own = f"export PYTHONPATH={shlex.quote(str(HERE))}" + '"${PYTHONPATH:+:$PYTHONPATH}"; '
    return (own + commands).replace("{", "{{").replace("}", "}}")


def spawn_function_source(words_before: str = "") -> str:
    """A shell function that becomes the command it is given, with words before it."""
    return (
        'spawn() { command -v "$1" > /dev/null || { echo "$1 is not here: in a container, set '
        'PIKE_IMAGE to its image; elsewhere, unset it" >&2; exit 2; }; exec '
        f'{words_before} "$@"; }}; '
    )


REFUSING_SPAWN = (
    'spawn() { echo "this workflow has not begun: a Snakefile that takes it as the module pike '
    "says 'onstart: pike.onstart()'\" >&2; exit 2; }; "
)
"""The same function of a workflow that has not begun: Snakemake begins no module by itself."""


MOST_OVERLONG = 3
"""Jobs of a rule that are named, each in a line, as too long for their time limit."""


class WorkflowJobs:
    """The experiment that a user asked Snakemake for, and its jobs."""

    def __init__(
        self,
        workflow: Any,
        config: Mapping[str, Any],
        shell: Any,
        ancient: Callable[[str], str],
        warn: Callable[[str], None],
    ) -> None:
        """Plans it.

        Args:
            workflow: Snakemake's.
            config: What Snakemake has read.
            shell: Snakemake's, of which each job's command gets a prefix.
            ancient: Snakemake's mark of a file whose time says nothing. What reads a file without
                this mark is made again where that is made again.
            warn: Tells the user of doubts, and why work is made again.
        """
        signal_handler.reset_sigchld_to_default()
        _ensure_user_name()
        slurm_executor.ignore_checkpoint_signals()
        self._workflow, self._request = workflow, snakemake_internals.SnakemakeRequest(workflow)
        self._shell, self._ancient, self._warn = shell, ancient, warn
        request = self._request
        files = request.files or [_default_config_file(config, request.options)]
        self.plan, self.config = planner.plan_config_files(files, request.options)
        output_root.refuse_root_of_other_experiment(self.plan)
        self.takes = RuleResources(self.plan, request.profile)
        profile = request.profile
        doubts = [profile.explain_unfilled(), profile.explain_possibly_different_gpu_models()]
        self._profile_doubts = [] if request.is_local else doubts
        rules = self.plan.names_by_rule()
        self._pythons = {
            r: own for r in rules if (own := request.profile.value_in_set_resources(r, "python"))
        }
        self._compared = outdated_work.PlanComparison(
            self.plan, self._pythons, lambda *work: work in self._forced_work
        )
        self.reads = self._compared.inputs
        # The process of a job has what it needs.
        if not request.is_job_process():
            # Snakemake would go on with what was made of others.
            refuse(self._compared.missing_needed_user_file_problems())
            # It lists a folder once: a stamp that is made later would not be found.
            for work in self.plan.work_names:
                self._compared.stamp(*work).get_or_create_path()
        self._asked: dict[tuple[str, str], None] = {}
        self._overlong = Counter[str]()
        self._doubted: set[str] = set()
        """What the user was told before the start, a dry run's too."""
        shell.prefix(shell_prefix_format(REFUSING_SPAWN))
        if not request.is_local:
            snakemake_internals.mend_slurm_plugin(self._refuse_cpu_torch)

    def update_stamp_and_declare_inputs(self, rule: str, name: str) -> dict[str, Any]:
        """What a job reads, by name; and its stamp, of whose inputs the only one with a time."""
        read = self.reads.job_inputs(rule, name)
        is_of_job = self._request.is_job_process()
        compares = self._request.has_settings_trigger and not is_of_job
        if is_of_job:
            self._shell.prefix(shell_prefix_format(spawn_function_source()))
        if compares:
            stamp = self._compared.update_stamp_and_get_path(rule, name)
            if self._compared.is_outdated(rule, name):
                for line in self._compared.reason_lines_once_per_kind(rule, name):
                    self._warn(line)
        else:
            stamp = self._ancient(self._compared.stamp(rule, name).get_or_create_path())
        if (rule, name) not in self._asked and not is_of_job:
            told = [self._count_and_explain_overlong(rule, name), self._explain_cpu_torch(rule)]
            if not self._request.is_local:
                told.append(self.takes.node_may_lack_gpus_warning(rule, name))
                told += self._profile_doubts
            doubts = [why for why in told if why and why not in self._doubted]
            if doubts and self._is_missing_or_outdated(rule, name):
                self._doubted |= {*doubts}
                for why in doubts:
                    self._warn(why)
        self._asked[rule, name] = None

        def ancient_unless_changing(path: str) -> str:
            again = compares and self._compared.is_changing_input(path, rule)
            return path if again else self._ancient(path)

        # Snakemake takes braces in a name for a wildcard: such a file of the user's is not
        # declared, but read and compared like the others.
        given = [path for path in read.given if "{" not in path]
        declared = {**read.made, "given": given}.items()
        return {
            "stamp": stamp,
            **{name: [*map(ancient_unless_changing, paths)] for name, paths in declared},
        }

    def _count_and_explain_overlong(self, rule: str, name: str) -> str | None:
        """That a job is expected to take too long; after some of a rule, that more jobs are."""
        told = self.takes.explain_overlong(rule, name)
        if told is None or not self._is_missing_or_outdated(rule, name):
            return None
        self._overlong[rule] += 1
        if self._overlong[rule] <= MOST_OVERLONG:
            return told
        return f"more jobs of {rule} are expected to take longer than they may"

    def prepare_jobs(self) -> None:
        """Makes ready what jobs find when they begin, before the first of them does.

        Raises:
            InputError: a method of the user's own does not fit its runs, packages of a finder are
                not installed, or the results' folder cannot be written.
        """
        made = [work for work in self._asked if self._is_missing_or_outdated(*work)]
        rules = [rule for rule, _ in made]
        if self._request.is_local:
            self._refuse_cpu_torch()
        # A dry run and a report import no class of the user's and need no finder's packages.
        if "pretrain" in rules and not self._request.is_leaving_out_jobs():
            of_finders = methods.finder_problems(self.plan.mixtures.values())
            refuse([*of_finders, *methods.custom_method_problems(self.plan.runs.values())])
        unused = plan_hints.unused_name_hints(self.plan, self.config)
        for line in (*unused, *plan_hints.short_proxy_run_hints(self.plan)):
            self._warn(line)
        for run in (name for rule, name in made if rule == "pretrain"):
            folder = Path(self.plan.manifest_path("pretrain", run)).parent
            if held := locks.holder_message_if_held(folder):
                waits = "until then its new job waits (`wait` of the profile) or is refused"
                self._warn(f"{held}; {waits}")
        output_root.write_settings(self.plan, self._pythons)
        for work in self._asked:
            self._compared.tell_job_how_to_begin(*work)
        words = ""
        if self._request.is_local:
            snakemake_internals.remove_job_rate_limit(self._workflow)
            prefix = shell_prefix_format().format()
            words = start_servers_and_get_command(rules, self._request.profile, prefix)
        self._shell.prefix(shell_prefix_format(spawn_function_source(words)))

    def log_hints_after_success(self) -> None:
        """Logs the experiment's answers, and the commands that explain them."""
        for line in plan_hints.finished_workflow_hints(self.plan):
            self._warn(line)

    def log_hint_after_failure(self) -> None:
        """Logs that the same command goes on; not with `make run`, whose logger says so itself."""
        if "snakemake_logger_plugin_pike" not in sys.modules:
            self._warn("What is finished stays: the same command goes on")

    def _refuse_cpu_torch(self) -> None:
        """Refuses to begin where jobs train on GPUs that this environment's torch cannot use.

        Other interpreters, and the images of Kubernetes, have a torch of their own.

        Raises:
            InputError: it was built for the CPU.
        """
        for rule in sorted({r for r, name in self._asked if self._is_missing_or_outdated(r, name)}):
            if why := self._explain_cpu_torch(rule):
                raise InputError(why)

    @functools.cache  # noqa: B019 - one workflow lives as long as its process
    def _explain_cpu_torch(self, rule: str) -> str | None:
        """Why a rule's jobs would not find the GPUs that they book; None where they would."""
        profile = self._request.profile
        on_gpu = rule in TRAINS and profile.set_or_implied_device(rule) == "cuda"
        own_python = profile.value_in_set_resources(rule, "python")
        if not on_gpu or own_python or self._request.is_leaving_out_jobs():
            return None
        if not environment.is_torch_cpu_only():
            return None
        kind = profile.value_in_set_resources(rule, "accelerator")
        set_by = f"accelerator: {kind}" if kind else "device: cuda"
        return (
            f"set-resources: {set_by}: jobs would get GPUs that the torch of {sys.prefix} cannot "
            "use, which was built for the CPU: run `make setup TORCH=cuda`, or set `accelerator: "
            "cpu`, and no `device`, to train without"
        )

    def _is_missing_or_outdated(self, rule: str, name: str) -> bool:
        there = Path(self.plan.manifest_path(rule, name)).is_file()
        return not there or self._compared.is_outdated(rule, name)

    @functools.cached_property
    def _forced_work(self) -> set[WorkName]:
        """What the user forces: all, or what is named by rule or by file."""
        named, work = self._request.forced_rules_and_files(), self.plan.work_names
        if named is None:
            return {*work}
        makers = {self.plan.find_maker(Path(one)) for one in named}
        return {one for one in work if one.rule in named or one in makers}


def _ensure_user_name() -> None:
    """Gives a user without a name one: Snakemake asks for it, and a container may know none."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USER"] = f"uid-{os.getuid()}"


def _default_config_file(snakemake_config: Mapping[str, Any], options: Mapping[str, Any]) -> Path:
    """The configuration where the command line names none.

    Raises:
        InputError: a Snakefile that takes ours as a module has read another.
    """
    result = next((path for path in CONFIG if path.exists()), CONFIG[0])
    read = {name: value for name, value in snakemake_config.items() if name not in options}
    if not read:
        return result
    there = yaml.safe_load(result.read_text(encoding="utf-8")) if result.exists() else {}
    if read != {name: value for name, value in there.items() if name not in options}:
        raise InputError(
            f"the Snakefile that takes this workflow as a module has read another configuration "
            f"than {result}: put it there, or give it with --configfile"
        )
    return result
