"""The plan of the experiment, and what every rule takes from it."""

import inspect
import sys
from pathlib import Path

# The package lies beside this file; to a module from a hosted repository, in its environment.
sys.path.insert(0, str(Path(inspect.currentframe().f_code.co_filename).parents[2]))

from pipeline.runtime import environment

environment.collect_garbage_rarely()  # Of what is imported, too.
from pike_mixing.errors import InputError
from pipeline.planning import planner, rule_inputs, workflow_jobs


def explain(function, *arguments, **named):
    """What a function answers; a user's mistake is explained without a traceback."""
    try:
        return function(*arguments, **named)
    except InputError as mistake:
        raise WorkflowError(str(mistake)) from None


JOBS = explain(
    workflow_jobs.WorkflowJobs, workflow, config, shell, ancient, logger.warning
)
PLAN, READS, TAKES, RESULTS = JOBS.plan, JOBS.reads, JOBS.takes, JOBS.plan.results
FINAL = "manifest.json"


wildcard_constraints:
    **rule_inputs.WILDCARDS,


onstart:
    explain(JOBS.prepare_jobs)


onsuccess:
    JOBS.log_hints_after_success()


onerror:
    JOBS.log_hint_after_failure()


def reads(rule):
    """An input function: what the rule reads, and the stamp whose time says whether it runs."""
    return rule_inputs.attach_signature(
        lambda wildcards: explain(
            JOBS.update_stamp_and_declare_inputs, rule, "/".join(wildcards)
        )
    )


def grown(path):
    """An output that stays until its job replaces it; not where the results lie above this folder,
    since Snakemake would put its backup elsewhere."""
    return path if ".." in Path(path).parts else update(path)
