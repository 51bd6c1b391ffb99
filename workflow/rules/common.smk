"""The plan of the experiment, and what every rule takes from it."""

import os
import sys
from pathlib import Path

# The package lies beside the Snakefile: it need not be installed for a dry run.
sys.path.insert(0, str(workflow.basedir))

from pike_mixing.errors import InputError
from pipeline.planning import file_contents, forked_jobs, methods, outdated
from pipeline.planning import output_root, planner, profile, rule_inputs
from pipeline.planning import rule_resources, slurm, stages


def told(function, *arguments):
    """What a function answers; a user's mistake is told without a traceback."""
    try:
        return function(*arguments)
    except InputError as mistake:
        raise WorkflowError(str(mistake)) from None


slurm.ignore_checkpoint_signals()
FILES = workflow.overwrite_configfiles or workflow.configfiles
PROFILE = told(profile.of_workflow, workflow.resource_settings)
PLAN = told(planner.of_workflow, config, [Path(os.path.relpath(f)) for f in FILES])
told(output_root.claim, PLAN)

RESULTS = PLAN.results
FINAL = "manifest.json"
CONTENTS = file_contents.Contents(Path(".snakemake", "contents.json"))
READS = rule_inputs.RuleInputs(PLAN)
TAKES = rule_resources.RuleResources(PLAN, PROFILE)

# The interpreter and the device are resources: where a job runs is not what it computes, and
# profiles set them per rule (set-resources).
PYTHON = sys.executable
# Meant, though `snakemake --lint` tells of it: one environment for all rules; folders among params,
# whose files are declared one by one; START, known when the workflow starts, changes no result.

# Jobs run the code beside the Snakefile, from any working directory: its fingerprints are recorded.
PREFIX = rule_inputs.shell_prefix(workflow.basedir)
shell.prefix(PREFIX)

# Before each job's command: who runs it, where it is not a process of its own.
START = ""


wildcard_constraints:
    **rule_inputs.WILDCARDS,


onstart:
    rules = [job.rule.name for job in workflow.dag.needrun_jobs()]
    if workflow.executor_plugin.name == "slurm":
        slurm.mend_plugin()
    # A dry run and a report import no class of the user's and need no finder's packages.
    if "pretrain" in rules:
        told(methods.refuse_at_start, PLAN.runs.values(), PLAN.mixtures.values())
    # The workflow inside a cluster's job does not start like this, so that it tries nothing again.
    retries = workflow.execution_settings.retries
    for rule, tries in TAKES.further_tries().items():
        workflow.get_rule(rule).restart_times = retries + tries
    output_root.write_settings(PLAN)
    if workflow.local_exec:
        global START
        START = forked_jobs.start(rules, PROFILE, PREFIX.format())
        # No queue is here to be spared: a limit would have every finished job look for new ones
        # each second until the end; after 240 jobs that takes a third of a core.
        workflow.scheduler.job_rate_limiter = None


def remade(stage, files=lambda wildcards: []):
    """An input function that has finished work made again which the plan would do otherwise, as
    its manifest says. `--rerun-triggers mtime` keeps such work."""

    def found(wildcards):
        triggers = {trigger.name for trigger in workflow.rerun_triggers}
        if workflow.is_main_process and "PARAMS" in triggers:
            workflow.dag.forcefiles.update(outdated.manifests(PLAN, stage, wildcards))
        return files(wildcards)

    return rule_inputs.asked_often(found)


def given(files):
    """An input function of the user's own files, whose times say nothing: what counts is what they
    hold (`content`). Snakemake takes braces in a name for a wildcard: such a file is not declared,
    but read and watched like the others."""
    return ancient(
        lambda wildcards: [p for p in told(files, wildcards) if "{" not in p]
    )


def content(files):
    """A parameter of a rule: digest of the user's own files that it reads."""
    return lambda wildcards: CONTENTS.digest(
        f"{files.__name__} {'/'.join(wildcards)}", told(files, wildcards)
    )
