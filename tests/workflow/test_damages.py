"""`pike verify results` after damage to every kind of file."""

import json

import pytest

pytestmark = pytest.mark.workflow

RUNS = "results/runs/words/tiny"


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def gone(path):
    path.unlink()


def foreign(path):
    path.write_text("somebody's", encoding="utf-8")


def another_setting(path):
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(values | {"seed": 7}), encoding="utf-8")


DAMAGES = {
    "results/data/easy/documents.parquet": flip,
    "results/data/hard/documents.parquet": cut,
    "results/data/hard/manifest.json": cut,
    "results/tokenizers/letters.model": flip,
    "results/tokenizers/stray.model": foreign,
    "results/corpora/letters/easy/train-00000.bin": flip,
    "results/corpora/letters/easy/train-documents.npy": gone,
    "results/corpora/letters/hard/validation-00000.bin": cut,
    "results/corpora/letters/notes/more.bin": foreign,
    f"{RUNS}/mix/seed0/run.json": another_setting,
    f"{RUNS}/mix/seed0/weights.parquet": gone,
    f"{RUNS}/mix/seed0/domain_losses.parquet": foreign,
    f"{RUNS}/mix/seed0/checkpoints/step12/model.safetensors": flip,
    f"{RUNS}/mix/seed0/checkpoints/step12/training.safetensors": flip,
    f"{RUNS}/mix/seed0/checkpoints/step6/manifest.json": cut,
    f"{RUNS}/mix/seed0/evaluations/step12/perplexities.parquet": flip,
    f"{RUNS}/mix/seed0/evaluations/step6/documents.parquet": gone,
    f"{RUNS}/mix/seed0/probes/step12.parquet": cut,
    f"{RUNS}/pike/seed0/manifest.json": cut,
    f"{RUNS}/pike/seed0/evaluation.json": another_setting,
    f"{RUNS}/balanced/seed0/manifest.json": gone,
    f"{RUNS}/balanced/seed0/probes/manifest.json": gone,
    f"{RUNS}/mostly-easy/seed0/notes.txt": foreign,
    "results/pike.duckdb": cut,
    "results/databases/table-accuracy.manifest.json": gone,
    "results/tables/perplexity.csv": flip,
    "results/tables/costs.md": gone,
    "results/tables/mine.csv": foreign,
    "results/figures/losses.svg": flip,
    "results/figures/weights.json": cut,
    "results/report/index.html": flip,
    "results/report/index.manifest.json": cut,
}


def test_each_damage_is_named_with_what_to_do(finished):
    assert "all is whole" in finished.pike("verify", "results").stdout
    for name, damage in DAMAGES.items():
        damage(finished.path(name))
    done = finished.pike("verify", "results")
    assert done.returncode == 2
    assert "Traceback" not in done.stdout
    told = done.stdout.splitlines()
    for name in DAMAGES:
        lines = [line for line in told if name in line]
        assert lines, f"{name} is not named in\n{done.stdout}"
        ways = ("make it again with `snakemake --cores 2", "delete it", "delete ")
        assert any(way in line for line in lines for way in ways), lines
    foreign_ones = {name for name, damage in DAMAGES.items() if damage is foreign}
    told_foreign = {line.split(" is foreign")[0] for line in told if " is foreign" in line}
    assert told_foreign >= foreign_ones - {f"{RUNS}/mix/seed0/domain_losses.parquet"}


def test_the_command_that_is_named_makes_a_damaged_file_again(finished):
    flip(finished.path(f"{RUNS}/mix/seed0/evaluations/step12/perplexities.parquet"))
    told = finished.pike("verify", f"{RUNS}/mix").stdout
    (command,) = {line.split("`")[1] for line in told.splitlines() if "perplexities" in line}
    assert command.startswith("snakemake --cores 2 --force results/runs/")
    finished.make(*command.split()[3:])
    assert "all is whole" in finished.pike("verify", f"{RUNS}/mix").stdout
    # It came out with the same bytes: nothing that stands on it is made again.
    assert finished.plan() == set()


def test_a_deleted_piece_is_missing_by_the_plan_and_by_what_was_made_of_it(finished):
    path = finished.path(f"{RUNS}/pike/seed0/probes/manifest.json")
    path.unlink()
    told = finished.pike("verify", "results").stdout
    assert f"{RUNS}/pike/seed0/probes/manifest.json is missing: make it again with" in told
    finished.path("config.yaml").unlink()
    told = finished.pike("verify", "results").stdout
    assert f"{RUNS}/pike/seed0/probes/manifest.json is missing" in told
