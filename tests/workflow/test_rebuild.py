"""What a change makes run again, and what it leaves alone: asked of dry runs."""

import gzip
import os
import re
import shutil
import time

from conftest import METHODS, RUNS

from pipeline.runtime import atomic_files

TABLES = {"table perplexity", "table accuracy", "table gradients", "table costs"}
FIGURES = {"figure losses", "figure weights", "figure similarities", "figure gradients"}
SELECTIONS = {
    "table accuracy": {"mix", "pike"},
    "table gradients": {"pike", "balanced"},
    "figure weights": {"pike"},
}
"""Outputs that need some runs only, as the configuration says."""
OF_TRAININGS = {"table gradients", "figure weights"}
"""Those whose queries read no evaluation and no probe."""


def run(method):
    return f"words/tiny/{method}/seed0"


def stages(methods, *names):
    return {f"{name} {run(method)}" for method in methods for name in names}


def results(methods, *, trained=True):
    """Jobs of all that stands on runs of these methods, or on their evaluations and probes."""
    selected = {name for name, needed in SELECTIONS.items() if needed & set(methods)}
    if not trained:
        selected -= OF_TRAININGS
    return {
        "all",
        "report",
        "database",
        *(TABLES | FIGURES) - SELECTIONS.keys(),
        *selected,
        *(f"database_of_selection {name.replace(' ', '-')}" for name in selected),
    }


def trained(*methods):
    """Jobs after something that changes the training of these methods."""
    return stages(methods, "pretrain", "evaluate", "probe") | results(methods)


def touch(paths):
    """Changes files' times to one that is later than that of all that was made of them."""
    later = time.time() + 2
    for path in paths:
        os.utime(path, (later, later))


def test_a_later_time_of_change_alone_plans_nothing(finished):
    touched = [
        *finished.path("results").rglob("manifest.json"),
        *finished.path("results/tokenizers").iterdir(),
        *finished.path("text").iterdir(),
        *finished.path("pipeline").rglob("*.py"),
        *finished.path("workflow").rglob("*.smk"),
        finished.path("config.yaml"),
    ]
    touch(touched)
    assert finished.plan() == set()


def test_keys_in_another_order_plan_no_training(finished):
    def reorder(config):
        for section in ("models", "training", "methods", "evaluation", "probe", "sources"):
            for name, values in config[section].items():
                config[section][name] = dict(reversed(values.items()))

    finished.configure(reorder)
    stages_planned = {job.partition(" ")[0] for job in finished.outdated()}
    assert not stages_planned & {"download", "tokenizer", "pack", "pretrain", "evaluate", "probe"}


def append(root, name):
    """Changes a module of a copy in a way that changes nothing that it computes."""
    path = root / name
    path.write_text(path.read_text(encoding="utf-8") + "\nUNUSED = 1\n", encoding="utf-8")


def test_another_text_of_an_older_time_is_read_anew(finished):
    """As `cp -p`, `mv` and rsync leave it: same name, same size, an older time."""
    path = finished.path("text/07.txt")
    text = path.read_text(encoding="utf-8")
    path.write_text(text[::-1], encoding="utf-8")
    os.utime(path, (0, 0))
    planned = finished.outdated()
    assert {"download notes", "tokenizer letters", *trained(*METHODS)} - {"all"} <= planned
    assert not planned & {"download easy", "download hard"}
    path.write_text(text, encoding="utf-8")
    assert finished.outdated() == set()


def test_a_large_text_that_is_touched_plans_nothing_and_braces_are_no_wildcards(fresh):
    """Snakemake itself compares the content of small files only."""
    path, target = fresh.path("text/{a} b{c.txt"), "results/data/notes/manifest.json"
    path.write_text("mal adikto\n" * 200_000, encoding="utf-8")
    fresh.make(target)
    assert fresh.plan(target) == set()
    touch(fresh.path("text").iterdir())
    assert fresh.plan(target) == set()
    path.write_text("adikto mal\n" * 200_000, encoding="utf-8")
    assert fresh.plan(target) == {"download notes"}


def test_text_in_another_container_trains_nothing_and_force_trains_from_the_start(finished):
    # A tokenizer is not trained on documents that come out the same.
    finished.set({"sources/notes/files": ["text/?*.txt"]})
    model = "results/tokenizers/letters.model"
    assert {"download notes", "tokenizer letters"} == finished.plan(model)
    finished.make(model)
    told = finished.path("results/logs/tokenizer/letters.log").read_text()
    assert "letters.json stands: all that it was made from has come out the same" in told
    path = finished.path("text/07.txt")
    path.with_suffix(".txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    finished.set({"sources/notes/files": ["text/*.txt", "text/*.gz"]})
    # Nobody knows before it is read that it is the same text.
    assert stages(METHODS, "pretrain", "evaluate", "probe") <= finished.outdated()

    def made():
        kept = finished.contents(RUNS).items()
        return {name: file for name, file in kept if re.search("/(step[0-9]+|parts)/", name)}

    before = made()
    assert "their results stay" in finished.make()
    assert made() == before
    assert finished.outdated() == set()

    mix = finished.manifest("mix")
    finished.make("--force", mix)
    log = finished.path("results/logs/pretrain/words/tiny/mix/seed0.log").read_text()
    assert "starting anew" in log
    assert atomic_files.read_json(finished.path(mix).with_name("starts.json")) == [0]
    changed = {name for name, file in made().items() if file != before[name]}
    assert changed
    assert all(name.startswith(f"{RUNS}/mix/seed0/") for name in changed)
    # Its bits are the same: what stands on them stands, but for what shows how long it took.
    assert not finished.outdated() & stages(METHODS, "pretrain", "evaluate", "probe")


def test_a_clone_in_a_folder_with_braces_tells_at_the_start_what_no_run_uses(fresh, tmp_path):
    project = fresh.copy(tmp_path / "a {clone}")
    project.set({"methods/spare": {"rule": "random"}})
    told = project.make("results/data/easy/manifest.json")
    assert "config.yaml: methods: defined, and used by no run: spare\n" in told


def test_results_that_came_without_snakemakes_memory_are_compared_with_the_plan(finished):
    shutil.rmtree(finished.path(".snakemake"))
    assert finished.plan() == set()
    finished.set({"methods/balanced/tau": 2})
    append(finished.root, "pike_mixing/rules/static.py")
    assert finished.plan("--rerun-triggers", "mtime", "input") == set()
    planned = finished.plan()
    assert planned == trained("balanced", "mix", "mostly-easy")
    told = finished.pike("query", "select artifact, reason from stale").stdout
    runs = [line.split() for line in told.splitlines() if line.startswith("run/")]
    assert runs == [
        [f"run/{run('balanced')}", "settings.method.tau"],
        [f"run/{run('mix')}", "code"],
        [f"run/{run('mostly-easy')}", "code"],
    ]
    told = finished.pike("why", f"run/{run('mostly-easy')}").stdout
    assert told.count("OUT OF DATE: code changed") == 1
    kept = ("--rerun-triggers", "mtime", "--force", "results/report/index.html")
    finished.make(*kept)
    page = finished.path("results/report/provenance.html").read_text(encoding="utf-8")
    assert f"<code>run/{run('balanced')}</code>: settings.method.tau changed (1" in page


def test_options_of_snakemake_do_what_it_says(finished, tmp_path):
    every = {"tokenizer letters", *trained(*METHODS)}
    every |= {f"{s}{d}" for s in ("download ", "pack letters ") for d in ("easy", "hard", "notes")}
    assert finished.plan("--forcerun", "download") == every
    of_all = {"table perplexity", "table costs"} | FIGURES - SELECTIONS.keys()
    forced = {"database", "report", "all", *of_all}
    assert finished.plan("--forcerun", "results/pike.duckdb") == forced
    assert finished.plan("--forcerun", "table", "--until", "table") == TABLES
    assert finished.plan() == set()

    finished.set({"methods/balanced/tau": 2})
    changed = trained("balanced") | forced
    assert finished.plan() == changed
    training, probe = (stages(["balanced"], stage) for stage in ("pretrain", "probe"))
    assert finished.plan("--until", "pretrain") == training
    of_trainings = {"table gradients", "database_of_selection table-gradients"}
    assert finished.plan("--omit-from", "evaluate") == training | probe | of_trainings
    batches = [finished.plan("--batch", f"all={n}/2") for n in (1, 2)]
    assert batches[0] | batches[1] | {"all"} == changed
    assert batches[0] < changed
    summary = finished.snakemake("--summary").stdout.splitlines()
    pending = {line.split("\t")[0] for line in summary if line.endswith("\tupdate pending")}
    assert finished.manifest("balanced") in pending
    assert finished.manifest("mix") not in pending

    # A dry run leaves nothing behind that another would take for the truth.
    finished.set({"methods/balanced/tau": 1})
    assert finished.plan() == set()
    finished.set({"methods/balanced/tau": 2})
    assert finished.plan() == changed
    # Copied results are compared, whatever their times are.
    copied = finished.copy(tmp_path / "copied")
    time.sleep(0.01)
    for path in (*copied.path("results").rglob("*"), *copied.path(".snakemake").rglob("*")):
        os.utime(path)
    assert copied.plan() == changed
    finished.make("--touch")
    assert finished.plan() == set()
    assert "run/words/tiny/balanced/seed0" in finished.pike("query", "from stale").stdout
    append(finished.root, "pike_mixing/rules/static.py")
    assert finished.plan() == trained("mix", "mostly-easy")
