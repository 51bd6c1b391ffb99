"""The plan of the experiment, and what every rule takes from it."""

import glob
import os
import shlex
import sys
from pathlib import Path

# The package lies beside the Snakefile: it need not be installed for a dry run.
sys.path.insert(0, str(workflow.basedir))

from pipeline import runs
from pipeline.errors import InputError

ORIGIN = " + ".join(
    os.path.relpath(f) for f in workflow.overwrite_configfiles or workflow.configfiles
)

try:
    PLAN = runs.plan(config, ORIGIN)
    runs.claim(PLAN, ORIGIN)
except InputError as mistake:
    raise WorkflowError(f"the configuration cannot be used:\n{mistake}") from None

RESULTS = PLAN.results
FINAL = "manifest.json"

# The interpreter and the device are resources: where a job runs is not what it computes, and
# profiles set them per rule (set-resources).
PYTHON = sys.executable

# The fingerprints are of the code beside the Snakefile; so is the code that the jobs run, from
# any working directory.
shell.prefix(
    f'export PYTHONPATH={shlex.quote(str(workflow.basedir))}"${{{{PYTHONPATH:+:$PYTHONPATH}}}}"; '
)


wildcard_constraints:
    source="[a-z0-9-]+",
    tokenizer="[a-z0-9-]+",
    run="[a-z0-9-]+/[a-z0-9-]+/[a-z0-9-]+/seed[0-9]+",
    table="[a-z0-9-]+",
    figure="[a-z0-9-]+",


onstart:
    runs.write_settings(PLAN, ORIGIN)


def of_run(wildcards):
    """The explicit settings of the rule's run."""
    return PLAN.named("runs", wildcards.run)


def files_of_source(wildcards):
    """The user's own files that a source reads; none for one that reads no files."""
    patterns = runs.files_of(PLAN.named("sources", wildcards.source))
    # A pattern that fits no file is Snakemake's to report, before the first job.
    return [
        path
        for pattern in patterns
        for path in sorted(glob.glob(pattern, recursive=True)) or [pattern]
    ]


def corpora_read(stage):
    """Input function: manifests of the corpora that a stage reads for the rule's run."""

    def manifests(wildcards):
        folder = corpora_folder(wildcards)
        return [
            f"{folder}/{domain}/{FINAL}"
            for domain in PLAN.read_domains(wildcards.run, stage)
        ]

    return manifests


def corpora_folder(wildcards):
    """Folder of the corpora of the run's tokenizer."""
    return f"{RESULTS}/corpora/{of_run(wildcards)['tokenizer']}"


def tokenizer_of_run(wildcards):
    """The tokenizer's model file of the rule's run."""
    return f"{RESULTS}/tokenizers/{of_run(wildcards)['tokenizer']}.model"


def file_of_tokenizer(wildcards):
    """The user's own SentencePiece model; none for a tokenizer that is trained."""
    return runs.files_of(PLAN.named("tokenizers", wildcards.tokenizer))


def documents_of_tokenizer(wildcards):
    """Manifests of the sources that the tokenizer is trained on."""
    sources = PLAN.tokenizer_sources[wildcards.tokenizer]
    return [f"{RESULTS}/data/{source}/{FINAL}" for source in sources]


def records_of(names):
    """Manifests of all that the database of these runs is built from."""
    experiment = PLAN.experiment(list(names))
    folders = [entry["folder"] for entry in experiment["runs"].values()]
    return [
        *(
            f"{folder}/{part}{FINAL}"
            for folder in folders
            for part in ("", "evaluations/", "probes/")
        ),
        *(f"{folder}/{FINAL}" for folder in experiment["corpora"].values()),
        *(f"{folder}/{FINAL}" for folder in experiment["sources"].values()),
        *experiment["tokenizers"].values(),
    ]


def records_of_selection(wildcards):
    """The same, for the runs that one table or figure needs."""
    return records_of(PLAN.selected(wildcards.kind, wildcards.name))


def settings_of_selection(wildcards):
    """What a database of some runs shows: their settings, and all methods in their order."""
    chosen = PLAN.selected(wildcards.kind, wildcards.name)
    return [list(PLAN.config["methods"]), {run: PLAN.runs[run] for run in chosen}]
