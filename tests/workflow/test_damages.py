"""`pike verify results` after damage to every kind of file."""

from edits import cut, flip, put, remove, values

RUNS = "results/runs/words/tiny"


def shorter(path):
    return cut(path, -1)


def foreign(path):
    return put(path, "somebody's")


def another_setting(path):
    return values(path, {"seed": 7})


DAMAGES = {
    "results/data/easy/documents.parquet": flip,
    "results/data/hard/documents.parquet": shorter,
    "results/data/hard/manifest.json": shorter,
    "results/tokenizers/letters.model": flip,
    "results/tokenizers/stray.model": foreign,
    "results/corpora/letters/easy/train-00000.bin": flip,
    "results/corpora/letters/easy/train-documents.npy": remove,
    "results/corpora/letters/hard/validation-00000.bin": shorter,
    "results/corpora/letters/notes/more.bin": foreign,
    f"{RUNS}/mix/seed0/run.json": another_setting,
    f"{RUNS}/mix/seed0/weights.parquet": remove,
    f"{RUNS}/mix/seed0/domain_losses.parquet": foreign,
    f"{RUNS}/mix/seed0/checkpoints/step12/model.safetensors": flip,
    f"{RUNS}/mix/seed0/checkpoints/step12/training.safetensors": flip,
    f"{RUNS}/mix/seed0/checkpoints/step6/manifest.json": shorter,
    f"{RUNS}/mix/seed0/evaluations/step12/perplexities.parquet": flip,
    f"{RUNS}/mix/seed0/evaluations/step6/documents.parquet": remove,
    f"{RUNS}/mix/seed0/probes/step12.parquet": shorter,
    f"{RUNS}/pike/seed0/manifest.json": shorter,
    f"{RUNS}/pike/seed0/evaluation.json": another_setting,
    f"{RUNS}/balanced/seed0/manifest.json": remove,
    f"{RUNS}/balanced/seed0/probes/manifest.json": remove,
    f"{RUNS}/mostly-easy/seed0/notes.txt": foreign,
    "results/pike.duckdb": shorter,
    "results/databases/table-accuracy.manifest.json": remove,
    "results/tables/perplexity.csv": flip,
    "results/tables/costs.md": remove,
    "results/tables/mine.csv": foreign,
    "results/figures/losses.svg": flip,
    "results/figures/weights.json": shorter,
    "results/report/index.html": flip,
    "results/report/index.manifest.json": shorter,
}


def test_each_damage_is_named_with_what_to_do(finished):
    assert "all is whole" in finished.pike("verify", "results").stdout
    for name, damage in DAMAGES.items():
        damage(name)(finished.root)
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
    flip(f"{RUNS}/mix/seed0/evaluations/step12/perplexities.parquet")(finished.root)
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
