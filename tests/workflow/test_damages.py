"""`pike verify results` after damage to every kind of file."""

import os
import re
import shutil
import subprocess

from edits import copy, cut, flip, folder, link, put, remove, values

from pipeline.runtime import checksums

RUN = "runs/words/tiny"
RUNS = f"results/{RUN}"


def shorter(path):
    return cut(path, -1)


def foreign(path):
    return put(path, "somebody's")


def another_setting(path):
    return values(path, {"seed": 7})


def nowhere(path):
    return link(path, "nowhere")


def looped(path):
    return link(path, path.rpartition("/")[2])


HEALED = {
    foreign: [
        "tokenizers/stray.model",
        "corpora/letters/notes/more.bin",
        f"{RUN}/mine/seed0/notes.txt",
        f"{RUN}/mine/seed0/domain_losses.parquet",
    ],
    another_setting: [f"{RUN}/pike/seed0/run.json", f"{RUN}/balanced/seed0/evaluation.json"],
    shorter: ["corpora/letters/easy/validation-00000.bin", "pike.duckdb"],
    flip: [
        "data/easy/documents.parquet",
        "corpora/letters/easy/train-00000.bin",
        f"{RUN}/mix/seed0/checkpoints/step12/model.safetensors",
        f"{RUN}/mix/seed0/evaluations/step12/perplexities.parquet",
        "databases/table-accuracy.duckdb",
        "tables/costs.csv",
        "figures/losses.svg",
        "report/index.html",
    ],
    cut: [
        "data/hard/manifest.json",
        "corpora/letters/hard/manifest.json",
        f"{RUN}/mix/seed0/probes/manifest.json",
        f"{RUN}/pike/seed0/checkpoints/step12/manifest.json",
        f"{RUN}/pike/seed0/evaluations/manifest.json",
        "databases/table-gradients.manifest.json",
        "tables/accuracy.manifest.json",
        "figures/weights.manifest.json",
        "settings/tables/costs.json",
        "corpora/letters/easy/.made-by",
        "tables/.made-by",
    ],
    remove: [
        "corpora/letters/notes/train-documents.npy",
        f"{RUN}/pike/seed0/checkpoints/step6/manifest.json",
        f"{RUN}/mix/seed0/weights.parquet",
        f"{RUN}/balanced/seed0/manifest.json",
        f"{RUN}/pike/seed0/probes/manifest.json",
        "tokenizers/.made-by",
    ],
    folder: [
        "tokenizers/letters.model",
        f"{RUN}/mostly-easy/seed0/manifest.json",
        f"{RUN}/mostly-easy/seed0/run.json",
        f"{RUN}/mix/seed0/checkpoints/step6/model.safetensors",
        f"{RUN}/mix/seed0/steps.parquet",
        f"{RUN}/balanced/seed0/evaluations/step6/documents.parquet",
        "tables/gradients.md",
        "figures/similarities.manifest.json",
        "report/paper.html",
        "figures/.made-by",
        f"{RUN}/mix/seed0/evaluations/.made-by",
    ],
    nowhere: [
        "data/notes/manifest.json",
        f"{RUN}/balanced/seed0/checkpoints/step12/training.safetensors",
        f"{RUN}/mostly-easy/seed0/evaluations/manifest.json",
        "figures/gradients.png",
    ],
    looped: [
        f"{RUN}/pike/seed0/timings.parquet",
        f"{RUN}/mix/seed0/evaluation.json",
        "databases/.made-by",
        "tables/perplexity.tex",
    ],
}
"""By damage, files of every kind below the results."""


BOTH = [
    "data/easy/manifest.json",
    "tokenizers/letters.json",
    "corpora/letters/hard/manifest.json",
    f"{RUN}/mix/seed0/evaluations/manifest.json",
    f"{RUN}/pike/seed0/probes/manifest.json",
    "pike.manifest.json",
    "databases/table-accuracy.manifest.json",
    "tables/costs.manifest.json",
    "figures/losses.manifest.json",
    "report/index.manifest.json",
]
"""Manifests that are damaged together with the mark beside them."""


def heal(project):
    """Gives the commands that `pike verify` names, in their order; those of one kind together."""
    told = project.pike("verify", "results").stdout
    assert "Traceback" not in told
    words = [one.split() for c in re.findall("`([^`]+)`", told) for one in c.split(" && ")]
    for away in (one for one in words if one[0] == "rm"):
        subprocess.run(away, cwd=project.root, check=True)
    made = [one[3:] for one in words if one[0] == "snakemake"]
    for targets in (
        ["--force", *(word for one in made if "--force" in one for word in one[1:])],
        [word for one in made if one and "--force" not in one for word in one],
        [],
    ):
        if targets != ["--force"]:
            project.make(*dict.fromkeys(targets))
    return told


def test_the_commands_that_are_named_heal_every_kind_of_file(finished):
    assert "all is whole" in finished.pike("verify", "results").stdout
    shutil.copytree(finished.path(f"{RUNS}/mix/seed0"), finished.path(f"{RUNS}/mix/seed7"))
    put("results/settings/experiment.json", "{}")(finished.root)
    os.mkfifo(finished.path(f"{RUNS}/pike/seed0/pipe"))
    for damage, names in HEALED.items():
        for name in names:
            damage(f"results/{name}")(finished.root)
    told = heal(finished)
    assert [name for names in HEALED.values() for name in names if name not in told] == []
    for what in (
        f"{RUNS}/mix/seed7/manifest.json is of 'words/tiny/mix/seed0', not of",
        "results/settings/experiment.json has other settings than the configuration",
        f"{RUNS}/pike/seed0/pipe is foreign",
    ):
        assert what in told
    assert "all is whole" in finished.pike("verify", "results").stdout
    kept = (".made-by", checksums.REMEMBERED)
    assert not [p for p in finished.path("results").rglob(".*") if not p.name.endswith(kept)]
    assert finished.plan() == set()
    copy("results/tables/accuracy.manifest.json", "results/tables/costs.manifest.json")(
        finished.root
    )
    shutil.rmtree(finished.path(f"{RUNS}/mostly-easy/seed0"))
    shutil.copytree(finished.path(f"{RUNS}/mix/seed0"), finished.path(f"{RUNS}/mostly-easy/seed0"))
    for name in BOTH:
        cut(f"results/{name}")(finished.root)
        cut(f"results/{name.rpartition('/')[0]}/.made-by", 0)(finished.root)
    told = heal(finished)
    for what in (
        "tables/accuracy.manifest.json is of 'costs', not",
        "/mostly-easy/seed0/manifest.json is of",
    ):
        assert what in told
    assert "all is whole" in finished.pike("verify", "results").stdout
    # A run that lost its manifest alone, as a job does that failed, is not finished.
    finished.path(finished.manifest("mix")).unlink()
    assert "pretrain words/tiny/mix/seed0" in finished.plan()
    # One that was deleted is not needed for what was made of it.
    shutil.rmtree(finished.path(f"{RUNS}/mix"))
    assert finished.plan() == set()


def test_a_deleted_piece_is_missing_by_the_plan_and_by_what_was_made_of_it(finished):
    path = f"{RUNS}/pike/seed0/probes/manifest.json"
    finished.path(path).unlink()
    assert f"{path} is missing: make it again with" in finished.pike("verify", "results").stdout
    finished.path("config.yaml").unlink()
    assert f"{path} is missing" in finished.pike("verify", "results").stdout


def test_a_file_of_somebody_stops_the_job_that_would_delete_it(finished):
    notes = finished.path("results/data/easy/notes.txt")
    notes.write_text("mine")
    finished.set({"sources/easy/documents": 41})
    finished.make("results/data/easy/manifest.json", code=1)
    assert "easy holds notes.txt, and no .made-by there says" in finished.logs()
    assert notes.read_text() == "mine"
    notes.unlink()
    finished.make("results/data/easy/manifest.json")
