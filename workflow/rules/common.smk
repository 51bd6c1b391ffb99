"""The plan of the experiment, and what every rule takes from it."""

import gc
import os
import sys
from pathlib import Path

# Snakemake's hundreds of thousands of objects stay: to look for garbage among them, again and
# again while the jobs are planned, takes a fifth of the time of a plan of 1,000 jobs.
gc.freeze()

# The package lies beside our Snakefile and need not be installed. A Snakefile that takes ours as a
# module from a hosted repository gets no folder: the package is then that of its environment.
BESIDE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
sys.path.insert(0, str(BESIDE))

from pike_mixing.errors import InputError
from pipeline.planning import forked_jobs, methods, notices, outdated, output_root
from pipeline.planning import planner, profile, records
from pipeline.planning import rule_inputs, rule_resources, slurm
from pipeline.runtime import signal_handler


def explained(function, *arguments):
    """What a function answers; a user's mistake is explained without a traceback."""
    try:
        return function(*arguments)
    except InputError as mistake:
        raise WorkflowError(str(mistake)) from None


if any(word.startswith("--generate-unit-tests") for word in sys.argv):
    raise WorkflowError(
        "--generate-unit-tests copies the files that rules declare: here the manifests of folders, "
        "without what they list, so that such tests fail; `make test` tests the rules"
    )

signal_handler.await_children()
output_root.name_user()
slurm.ignore_checkpoint_signals()
FILES = workflow.overwrite_configfiles or workflow.configfiles
RESOURCES = workflow.resource_settings
PROFILE = explained(
    profile.read,
    RESOURCES.overwrite_resources or {},
    RESOURCES.default_resources or {},
    RESOURCES.overwrite_threads or {},
)
# Snakemake reads the files as YAML 1.1, we as 1.2: `config` is ours from here on.
PATHS = [Path(os.path.relpath(f)) for f in FILES]
GIVEN = workflow.config_settings
OPTIONS = explained(planner.read_options, GIVEN.config, GIVEN.config_args)
PLAN, config = explained(planner.of_workflow, PATHS, OPTIONS)
explained(output_root.claim, PLAN)

RESULTS = PLAN.results


def grown(path):
    """An output that stays until its job replaces it.

    Not where the results lie above this folder: Snakemake would put its backup elsewhere.
    """
    return path if ".." in Path(path).parts else update(path)


FINAL = "manifest.json"
TAKES = rule_resources.RuleResources(PLAN, PROFILE)


FORCED = []


def forced(rule, manifest):
    """Whether `--forcerun` or `--force` name a rule or its output.

    Files that Snakemake takes for incomplete are forced by it later: such work stands if it is whole.
    """
    dag = workflow.dag
    if not FORCED:
        FORCED.append(frozenset(dag.forcefiles))
    return manifest in FORCED[0] or rule in {one.name for one in dag.forcerules}


PYTHONS = {rule: own for rule in PLAN.work() if (own := PROFILE.of(rule, "python"))}
COMPARED = outdated.Comparison(PLAN, PYTHONS, forced)
READS = COMPARED.inputs
if workflow.is_main_process:
    explained(COMPARED.refuse_missing)

# Meant, though `snakemake --lint` tells of it: one environment for all rules; functions beside
# rules, which need what this file has planned; folders among params, whose files are declared one by
# one; START, known when the workflow starts, changes no result.

# Jobs run the same code from any working directory: its fingerprints are recorded.
PREFIX = rule_inputs.shell_prefix(str(Path(planner.__file__).parents[2]))
shell.prefix(PREFIX)

# Before each job's command: who runs it, where it is not a process of its own. Snakemake runs a
# command with the names of our Snakefile, and prints it with those of the one that takes ours as a
# module, if one does.
NAMES = (globals(), workflow.modifier_stack[0].globals)
for names in NAMES:
    names["START"] = ""


wildcard_constraints:
    **rule_inputs.WILDCARDS,


onstart:
    jobs = [
        (job.rule.name, "/".join(job.wildcards))
        for job in workflow.dag.needrun_jobs()
    ]
    rules = [rule for rule, _ in jobs]
    if workflow.executor_plugin.name == "slurm":
        slurm.mend_plugin()
    # A dry run and a report import no class of the user's and need no finder's packages.
    if "pretrain" in rules:
        explained(
            methods.refuse_at_start, PLAN.runs.values(), PLAN.mixtures.values()
        )
    for notice in [*notices.unused(PLAN, config), *notices.short_searches(PLAN)]:
        logger.warning(notice)
    # The workflow inside a cluster's job does not start like this, so that it tries nothing again.
    retries = workflow.execution_settings.retries
    for rule, tries in TAKES.further_tries().items():
        workflow.get_rule(rule).restart_times = retries + tries
    explained(output_root.write_settings, PLAN, PYTHONS)
    if workflow.executor_plugin.name == "touch":
        logger.warning(
            "--touch changes times, and finished work is compared by its manifests: what is "
            "outdated stays so; --rerun-triggers mtime keeps it"
        )
    else:
        explained(COMPARED.prepare, jobs)
    if workflow.local_exec:
        start = forked_jobs.start(rules, PROFILE, PREFIX.format())
        for names in NAMES:
            names["START"] = start
        # No queue is here to be spared: a limit would have every finished job look for new ones
        # each second until the end; after 240 jobs that takes a third of a core.
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    for line in notices.closing(PLAN):
        logger.warning(line)


# Snakemake starts and ends with the hooks of the main Snakefile alone.
if not workflow.modifier.is_main_snakefile():
    workflow._onstart, workflow._onsuccess = onstart.func, onsuccess.func


def reads(rule):
    """An input function: what the rule reads, by name. Finished work is made again where it, or what
    it stands on, differs from the plan, as its manifest says; times say nothing (`ancient`).
    `--rerun-triggers mtime` keeps such work. Snakemake takes braces in a name for a wildcard: such
    a file of the user's is not declared, but read and compared like the others."""

    def inputs(wildcards):
        triggers = {trigger.name for trigger in workflow.rerun_triggers}
        compare = workflow.is_main_process and "PARAMS" in triggers
        read = explained(READS.of, rule, name := "/".join(wildcards))
        manifest = PLAN.manifest(rule, name)
        is_forced = compare and forced(rule, manifest)
        if compare and (is_forced or explained(COMPARED.outdated, rule, name)):
            if os.path.exists(manifest):
                workflow.dag.forcefiles.add(manifest)
            for line in COMPARED.told(rule, name):
                logger.warning(line)

        def input_of(path):
            # Snakemake makes again what reads a file that is made again, but of an old file.
            return (
                path
                if compare and COMPARED.is_made_again(path, rule)
                else ancient(path)
            )

        given = [path for path in read.given if "{" not in path]
        return {
            kind: input_of(one) if isinstance(one, str) else [*map(input_of, one)]
            for kind, one in {**read.made, "given": given}.items()
        }

    return rule_inputs.with_signature_at_hand(inputs)
