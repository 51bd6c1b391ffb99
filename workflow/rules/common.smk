"""The plan of the experiment, and what every rule takes from it."""

import importlib.util
import math
import os
import shlex
import signal
import sys
import threading
from pathlib import Path

# The package lies beside the Snakefile: it need not be installed for a dry run.
sys.path.insert(0, str(workflow.basedir))

from pike_mixing.errors import InputError
from pipeline.planning import file_contents, jobs, outdated, output_root
from pipeline.planning import planner, profile, slurm, stages
from pipeline.runtime import accelerators, file_patterns

# Slurm sends the signal at which a training saves to all processes of a job: the Snakemake in it
# would end by it, and the job with it. What it starts ignores it too, but for trainings.
if threading.current_thread() is threading.main_thread():
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)

CONFIGFILES = [
    os.path.relpath(f) for f in workflow.overwrite_configfiles or workflow.configfiles
]
ORIGIN = " + ".join(CONFIGFILES)

try:
    PROFILE = profile.read(
        workflow.resource_settings.overwrite_resources or {},
        workflow.resource_settings.default_resources or {},
    )
except InputError as mistake:
    raise WorkflowError(f"the profile cannot be used:\n{mistake}") from None

try:
    planner.check_files([Path(f) for f in CONFIGFILES])
    PLAN = planner.plan(config, ORIGIN)
    output_root.claim(PLAN, ORIGIN)
    GONE = output_root.gone(PLAN) if workflow.is_main_process else []
except InputError as mistake:
    raise WorkflowError(f"the configuration cannot be used:\n{mistake}") from None

RESULTS = PLAN.results
CONTENTS = file_contents.Contents(Path(".snakemake", "contents.json"))
FINAL = "manifest.json"


def work_of(rule):
    """The jobs of the plan on the kind of device that the profile gives a rule: cpu, h100, ..."""
    device = accelerators.accelerator(PROFILE.of(rule, "accelerator", "cpu"))
    return jobs.Jobs(PLAN, device, int(PROFILE.of(rule, "processes", "1")))


TRAINS = profile.TRAINS
WORK = {rule: work_of(rule) for rule in (*TRAINS, None)}


def takes(rule):
    """A rule's resources, computed from the settings of what it makes; more at each new try."""

    def job(wildcards):
        named = [str(v) for name, v in wildcards.items() if name != "selection"]
        return WORK[rule if rule in TRAINS else None].job(rule, "/".join(named))

    def runtime(wildcards, attempt):
        minutes = attempt * (10 + math.ceil(job(wildcards).seconds / 30))
        return min(minutes, PROFILE.longest(rule) or minutes)

    def gpu(wildcards):
        return job(wildcards).devices if WORK[rule].device.memory else 0

    return {
        "mem_mb": lambda wildcards, attempt: job(wildcards).memory_mb(attempt),
        "disk_mb": lambda wildcards: math.ceil(job(wildcards).disk_bytes / 1e6),
        "runtime": runtime,
        **({"gpu": gpu} if rule in TRAINS else {}),
    }


def processes_of_run(wildcards):
    """How many processes train the rule's run, each on a device: as many as the profile asks for
    (processes), or as its model needs."""
    return WORK["pretrain"].job("pretrain", wildcards.run).devices


def together(wildcards, resources):
    """Arguments that say how a run is shared out. What is made of `resources` is no reason for
    Snakemake to make a run again: where it is computed is not what it computes."""
    taken = WORK["pretrain"].job("pretrain", wildcards.run).taken
    return ["--processes", taken.devices, *(["--shard"] if taken.sharded else [])]


def slices(rule, names):
    """Further tries that the time limit of a profile takes: into how many jobs it cuts the longest
    that makes one of these, at most. Snakemake counts tries by rule, not by job."""
    if not names or not PROFILE.longest(rule):
        return 0
    work = WORK[rule if rule in TRAINS else None]
    minutes = max(work.job(rule, name).seconds for name in names) / 60
    return math.ceil(2 * minutes / PROFILE.longest(rule))


def allow_slices():
    """Adds them to the tries that the profile gives any job, which are not known before the start.

    Only the workflow itself starts like this, and so tries again, not the one inside a cluster's
    job: an allocation that ends is no place to begin."""
    named = {"pretrain": PLAN.runs, "download": PLAN.sources, "pack": PLAN.corpora}
    for rule, names in named.items():
        tries = workflow.execution_settings.retries
        workflow.get_rule(rule).restart_times = tries + slices(rule, names)


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
    refuse_unfit_finders()
    refuse_unfit_methods()
    allow_slices()
    output_root.write_settings(PLAN, ORIGIN)


def refuse_unknown_rules():
    """Once all rules are known: a profile's rules must be among them."""
    known = [rule.name for rule in workflow.rules]
    settings = workflow.resource_settings
    try:
        for key, named in {
            "set-resources": settings.overwrite_resources,
            "set-threads": settings.overwrite_threads,
        }.items():
            profile.refuse_unknown_rules(named or {}, known, key)
    except InputError as mistake:
        raise WorkflowError(f"the profile cannot be used:\n{mistake}") from None


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


def refuse_unfit_finders():
    """Before a proxy is trained, asks the finder of its mixture whether it can be used."""
    if PLAN.mixtures and "pretrain" in {
        j.rule.name for j in workflow.dag.needrun_jobs()
    }:
        try:
            importlib.import_module("pike_mixing.finders.registry").refuse(
                PLAN.mixtures
            )
        except InputError as mistake:
            raise WorkflowError(
                f"the configuration cannot be used:\n{mistake}"
            ) from None


def refuse_unfit_methods():
    """Before anything is trained, asks every method whether it can train its runs.

    That takes torch, for which neither a dry run nor a report has to wait."""
    if "pretrain" not in {job.rule.name for job in workflow.dag.needrun_jobs()}:
        return
    if importlib.util.find_spec("torch") is None:
        logger.warning("without torch here, each training job checks its own method")
        return
    try:
        importlib.import_module("pipeline.planning.unfit").refuse(PLAN.runs.values())
    except InputError as mistake:
        raise WorkflowError(f"the configuration cannot be used:\n{mistake}") from None


def of_run(wildcards):
    """The explicit settings of the rule's run."""
    return PLAN.named("runs", wildcards.run)


def given(files):
    """An input function of the user's own files, whose times say nothing.

    A file that was moved or copied into their place keeps an older time, and one that was touched
    holds what it held. What counts is what they hold: `content` below, among the rule's params.

    Snakemake takes braces in an input's name for a wildcard and has no escape: such a file is not
    declared, but read and watched like the others."""
    return ancient(lambda wildcards: [p for p in files(wildcards) if "{" not in p])


def content(files):
    """A parameter of a rule: digest of the user's own files that it reads."""
    return lambda wildcards: CONTENTS.digest(
        f"{files.__name__} {'/'.join(map(str, wildcards))}", files(wildcards)
    )


def matching(named):
    """The files that fit; a pattern that fits none is Snakemake's to report, before a job."""
    try:
        return [path for one in named for path in file_patterns.files(one) or [one]]
    except InputError as mistake:
        raise WorkflowError(str(mistake)) from None


def files_of_source(wildcards):
    """The user's own files that a source reads; none for one that reads no files."""
    return matching(planner.files_of(PLAN.named("sources", wildcards.source)))


UNWANTED = planner.files_of(
    PLAN.config["packing"].get("hygiene", {}).get("decontaminate", {})
)
TASKS = f"{RESULTS}/tasks/"


def unwanted_tasks(wildcards):
    """Fetched tasks whose items no corpus may hold: their manifests, which fetching makes."""
    named = [p.removeprefix(TASKS) for p in UNWANTED if p.startswith(TASKS)]
    return [f"{TASKS}{name.partition('/')[0]}/{FINAL}" for name in named]


def unwanted_files(wildcards):
    """The user's own files of evaluation items that no corpus may hold."""
    return matching(p for p in UNWANTED if not p.startswith(TASKS))


def files_of_task(wildcards):
    """The user's own files of a downstream task's data set; none where it is fetched."""
    return list(PLAN.named("tasks", wildcards.task).get("files", {}).values())


def arguments_of_task(wildcards):
    """Arguments that say where a downstream task's data set comes from."""
    values = PLAN.named("tasks", wildcards.task)
    revision = ["--revision", values["revision"]] if "revision" in values else []
    own = [f"{split}={path}" for split, path in values.get("files", {}).items()]
    return [*revision, *(["--from", *own] if own else [])]


def tasks_of_run(wildcards):
    """Manifests of the downstream tasks that the evaluation of the rule's run asks."""
    return [f"{RESULTS}/tasks/{t}/{FINAL}" for t in PLAN.asked_tasks([wildcards.run])]


def read_by_run(wildcards):
    """What the rule's run reads: corpora, and what other runs left for it."""
    read = {"corpora": corpora_manifests(wildcards, of_run(wildcards)["domains"])}
    if wildcards.run in PLAN.references:
        read["reference"] = f"{PLAN.run_folder(PLAN.references[wildcards.run])}/{FINAL}"
    if wildcards.run in PLAN.found:
        read["mixture"] = f"{RESULTS}/mixtures/{PLAN.found[wildcards.run]}.json"
    return read


def further_corpora(wildcards):
    """Manifests of the corpora that an evaluation reads and its run did not: none for most.

    The run's own manifest stands for those that it trained on.
    """
    own = of_run(wildcards)["domains"]
    read = PLAN.read_domains(wildcards.run)
    return corpora_manifests(wildcards, [d for d in read if d not in own])


def corpora_manifests(wildcards, domains):
    """Manifests of corpora of the run's tokenizer."""
    folder = corpora_folder(wildcards)
    return [f"{folder}/{domain}/{FINAL}" for domain in domains]


def corpora_folder(wildcards):
    """Folder of the corpora of the run's tokenizer."""
    return f"{RESULTS}/corpora/{of_run(wildcards)['tokenizer']}"


def from_other_runs(wildcards, input):
    """Arguments that name what other runs left for the rule's run."""
    arguments = []
    if "reference" in input.keys():
        arguments += ["--reference", str(Path(input.reference).parent)]
    if "mixture" in input.keys():
        arguments += ["--mixture", str(input.mixture)]
    return arguments


def proxies_of_mixture(wildcards):
    """Manifests of the runs that a mixture is found from, and of their evaluations."""
    proxies = PLAN.named("mixtures", wildcards.mixture)["proxies"]
    return [
        f"{proxy['folder']}/{part}{FINAL}"
        for proxy in proxies.values()
        for part in ("", "evaluations/")
    ]


def tokenizer_of_run(wildcards):
    """The tokenizer's model file of the rule's run."""
    return f"{RESULTS}/tokenizers/{of_run(wildcards)['tokenizer']}.model"


def file_of_tokenizer(wildcards):
    """The user's own SentencePiece model; none for a tokenizer that is trained."""
    return planner.files_of(PLAN.named("tokenizers", wildcards.tokenizer))


def documents_of_tokenizer(wildcards):
    """Manifests of the sources that the tokenizer is trained on."""
    sources = PLAN.tokenizer_sources[wildcards.tokenizer]
    return [f"{RESULTS}/data/{source}/{FINAL}" for source in sources]


def records_of(names):
    """Manifests of all that the database of these runs is built from."""
    experiment = PLAN.experiment(list(names))
    parts = {"": "settings", "evaluations/": "evaluations", "probes/": "probes"}
    return [
        *(
            f"{run['folder']}/{part}{FINAL}"
            for run in experiment["runs"].values()
            for part, wanted in parts.items()
            if run[wanted]
        ),
        *experiment["mixtures"].values(),
        *(f"{folder}/{FINAL}" for folder in [experiment["theory"]] if folder),
        *(f"{folder}/{FINAL}" for folder in experiment["corpora"].values()),
        *(f"{folder}/{FINAL}" for folder in experiment["sources"].values()),
        *experiment["tokenizers"].values(),
        *(f"{folder}/{FINAL}" for folder in experiment["tasks"].values()),
    ]


def records_of_selection(wildcards):
    """The same, for the runs that some tables or figures need."""
    return records_of(PLAN.named_selection(wildcards.selection))


def settings_of_selection(wildcards):
    """What a database of some runs shows: their settings, all methods in order, who is compared."""
    chosen = PLAN.named_selection(wildcards.selection)
    named = [PLAN.config.get(section) for section in ("compare", "paper")]
    return [list(PLAN.config["methods"]), *named, {r: PLAN.runs[r] for r in chosen}]
