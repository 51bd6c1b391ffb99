"""The plan of the experiment, and what every rule takes from it."""

import os
import sys
from pathlib import Path

# The package lies beside the Snakefile: it need not be installed for a dry run.
sys.path.insert(0, str(workflow.basedir))

from pike_mixing.errors import InputError
from pipeline.planning import file_contents, methods, outdated, output_root, planner
from pipeline.planning import profile, rule_inputs, rule_resources, slurm, stages

slurm.ignore_checkpoint_signals()
CONFIGFILES = [
    Path(os.path.relpath(f))
    for f in workflow.overwrite_configfiles or workflow.configfiles
]
ORIGIN = " + ".join(map(str, CONFIGFILES))
CONFIGURATION = "the configuration cannot be used:\n"


def told(function, *arguments, about=""):
    """What a function answers; a user's mistake is told without a traceback."""
    try:
        return function(*arguments)
    except InputError as mistake:
        raise WorkflowError(f"{about}{mistake}") from None


PROFILE = told(
    profile.of_workflow,
    workflow.resource_settings,
    about="the profile cannot be used:\n",
)
told(planner.check_files, CONFIGFILES, about=CONFIGURATION)
config = told(planner.included, config, CONFIGFILES[0].parent, about=CONFIGURATION)
PLAN = told(planner.plan, config, ORIGIN, about=CONFIGURATION)
told(output_root.claim, PLAN, ORIGIN, about=CONFIGURATION)
if workflow.is_main_process and (lost := output_root.lost(PLAN)):
    logger.warning(lost)

RESULTS = PLAN.results
FINAL = "manifest.json"
CONTENTS = file_contents.Contents(Path(".snakemake", "contents.json"))
READS = rule_inputs.RuleInputs(PLAN)
TAKES = rule_resources.RuleResources(PLAN, PROFILE)

# The interpreter and the device are resources: where a job runs is not what it computes, and
# profiles set them per rule (set-resources).
PYTHON = sys.executable

# Jobs run the code beside the Snakefile, from any working directory: its fingerprints are recorded.
shell.prefix(rule_inputs.shell_prefix(workflow.basedir))


wildcard_constraints:
    **rule_inputs.WILDCARDS,


onstart:
    if workflow.executor_plugin.name == "slurm":
        slurm.wait_while_controller_is_down(
            sys.modules["snakemake_executor_plugin_slurm"]
        )
    # A dry run and a report import no class of the user's and need no finder's packages.
    if any(job.rule.name == "pretrain" for job in workflow.dag.needrun_jobs()):
        told(
            methods.refuse_at_start,
            PLAN.runs.values(),
            PLAN.mixtures.values(),
            about=CONFIGURATION,
        )
    # Only the workflow itself starts like this, and so tries again, not the one inside a cluster's
    # job: an allocation that ends is no place to begin.
    retries = workflow.execution_settings.retries
    for rule, tries in TAKES.further_tries().items():
        workflow.get_rule(rule).restart_times = retries + tries
    output_root.write_settings(PLAN, ORIGIN)


onerror:
    for own in log:
        for line in slurm.killed_for_memory(Path(own).read_text(encoding="utf-8")):
            logger.error(line)


def remade(stage):
    """An input function without a file: has finished work made again that the plan would do
    otherwise. Snakemake sees that in its own memory, which stays behind where results are copied.

    `--rerun-triggers mtime` keeps such work, as it keeps what Snakemake itself finds changed.
    """

    def none(wildcards):
        triggers = {trigger.name.lower() for trigger in workflow.rerun_triggers}
        if workflow.is_main_process and "params" in triggers:
            workflow.dag.forcefiles.update(outdated.manifests(PLAN, stage, wildcards))
        return []

    return none


def given(files):
    """An input function of the user's own files, whose times say nothing: a file that was moved
    into its place keeps an older one. What counts is what they hold (`content`).

    Snakemake takes braces in a name for a wildcard and has no escape: such a file is not declared,
    but read and watched like the others."""
    return ancient(
        lambda wildcards: [p for p in told(files, wildcards) if "{" not in p]
    )


def content(files):
    """A parameter of a rule: digest of the user's own files that it reads."""
    return lambda wildcards: CONTENTS.digest(
        f"{files.__name__} {'/'.join(wildcards)}", told(files, wildcards)
    )
