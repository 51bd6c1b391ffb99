"""The plan of the experiment, and what every rule takes from it."""

import os
import shlex
import signal
import sys
import threading
from pathlib import Path

# The package lies beside the Snakefile: it need not be installed for a dry run.
sys.path.insert(0, str(workflow.basedir))

from pike_mixing.errors import InputError
from pipeline.planning import file_contents, methods, outdated, output_root
from pipeline.planning import planner, profile, rule_inputs, rule_resources
from pipeline.planning import slurm, stages

# Slurm sends the signal at which a training saves to all processes of a job: the Snakemake in it
# would end by it, and the job with it. What it starts ignores it too, but for trainings.
if threading.current_thread() is threading.main_thread():
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)

CONFIGFILES = [
    os.path.relpath(f) for f in workflow.overwrite_configfiles or workflow.configfiles
]
ORIGIN = " + ".join(CONFIGFILES)


def told(function, *arguments, about=""):
    """What a function answers; a user's mistake is told without a traceback."""
    try:
        return function(*arguments)
    except InputError as mistake:
        raise WorkflowError(f"{about}{mistake}") from None


CONFIGURATION = "the configuration cannot be used:\n"
PROFILES = "the profile cannot be used:\n"

PROFILE = told(
    profile.read,
    workflow.resource_settings.overwrite_resources or {},
    workflow.resource_settings.default_resources or {},
    about=PROFILES,
)
told(planner.check_files, [Path(f) for f in CONFIGFILES], about=CONFIGURATION)
config = told(
    planner.included, config, Path(CONFIGFILES[0]).parent, about=CONFIGURATION
)
PLAN = told(planner.plan, config, ORIGIN, about=CONFIGURATION)
told(output_root.claim, PLAN, ORIGIN, about=CONFIGURATION)
GONE = (
    told(output_root.gone, PLAN, about=CONFIGURATION)
    if workflow.is_main_process
    else []
)

RESULTS = PLAN.results
FINAL = "manifest.json"
CONTENTS = file_contents.Contents(Path(".snakemake", "contents.json"))
READS = rule_inputs.RuleInputs(PLAN)
TAKES = rule_resources.RuleResources(PLAN, PROFILE)

# The interpreter and the device are resources: where a job runs is not what it computes, and
# profiles set them per rule (set-resources).
PYTHON = sys.executable

# The fingerprints are of the code beside the Snakefile; so is the code that the jobs run, from
# any working directory.
# The prefix is a format: braces of its own are doubled.
BESIDE = f"export PYTHONPATH={shlex.quote(str(workflow.basedir))}"
BESIDE += '"${PYTHONPATH:+:$PYTHONPATH}"; '
shell.prefix(BESIDE.replace("{", "{{").replace("}", "}}"))


wildcard_constraints:
    source="[a-z0-9-]+",
    tokenizer="[a-z0-9-]+",
    task="[a-z0-9_]+",
    run="[a-z0-9-]+/[a-z0-9-]+/[a-z0-9-]+/seed[0-9]+",
    mixture="[a-z0-9-]+/[a-z0-9-]+/[a-z0-9-]+/seed[0-9]+",
    selection="[a-z0-9-]+",
    table="[a-z0-9-]+",
    figure="[a-z0-9-]+",


onerror:
    for own in log:
        for line in slurm.killed_for_memory(Path(own).read_text(encoding="utf-8")):
            logger.error(line)


onstart:
    if workflow.executor_plugin.name == "slurm":
        slurm.outlast_the_controller(sys.modules["snakemake_executor_plugin_slurm"])
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
    for rule, tries in TAKES.further_tries().items():
        workflow.get_rule(rule).restart_times = (
            workflow.execution_settings.retries + tries
        )
    output_root.write_settings(PLAN, ORIGIN)


def refuse_unknown_rules():
    """Once all rules are known: a profile's rules must be among them."""
    known = [rule.name for rule in workflow.rules]
    settings = workflow.resource_settings
    for key, named in {
        "set-resources": settings.overwrite_resources,
        "set-threads": settings.overwrite_threads,
    }.items():
        told(profile.refuse_unknown_rules, named or {}, known, key, about=PROFILES)


if GONE:
    logger.warning(
        f"{len(GONE)} runs that {RESULTS}/pike.duckdb holds are not there, the first {GONE[0]}: "
        "what was made of them stands and is not made again for that; to train them again, "
        "`snakemake --forcerun database`"
    )


def remade(stage):
    """An input function without a file: has finished work made again that the plan would do
    otherwise. Snakemake sees that in its own memory, which stays behind where results are copied.

    `--rerun-triggers mtime` keeps such work, as it keeps what Snakemake itself finds changed.
    """

    def none(wildcards):
        name = "/".join(map(str, wildcards))
        triggers = {trigger.name.lower() for trigger in workflow.rerun_triggers}
        if workflow.is_main_process and "params" in triggers:
            if any(outdated.of(PLAN, stage, name)):
                workflow.dag.forcefiles.add(outdated.manifest(PLAN, stage, name))
        return []

    return none


def given(files):
    """An input function of the user's own files, whose times say nothing.

    A file that was moved or copied into their place keeps an older time, and one that was touched
    holds what it held. What counts is what they hold: `content` below, among the rule's params.

    Snakemake takes braces in an input's name for a wildcard and has no escape: such a file is not
    declared, but read and watched like the others."""
    return ancient(
        lambda wildcards: [p for p in told(files, wildcards) if "{" not in p]
    )


def content(files):
    """A parameter of a rule: digest of the user's own files that it reads."""
    return lambda wildcards: CONTENTS.digest(
        f"{files.__name__} {'/'.join(map(str, wildcards))}", told(files, wildcards)
    )
