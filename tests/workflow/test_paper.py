"""The paper at full scale, planned offline."""

import json

from repository import ROOT

from pipeline import settings
from pipeline.planning import job_estimates, planner
from pipeline.runtime import accelerators

PAPER = ("--configfile", "workflow/configs/paper.yaml")
METHODS = (
    "mix", "round-robin", "random", "famo", "ado", "pike", "balanced-pike-tau1",
    "balanced-pike-tau3", "balanced-pike-tau5",
)  # fmt: skip


def test_table_1_plans_its_nine_runs_and_the_grid_alone(default):
    planned = default.plan("results/paper/tables/table1.md", *PAPER)
    trained = {job for job in planned if job.startswith("pretrain ")}
    grid = {f"pretrain mc4-en-hi-de/gpt2-small/pike-grid-{n}/seed0" for n in range(1, 7)}
    assert trained == grid | {f"pretrain mc4-en-hi-de/gpt2-large/{m}/seed0" for m in METHODS}
    assert "mixture mc4-en-hi-de/gpt2-small/zetas/seed0" in planned
    downloads = {job for job in planned if job.startswith("download ")}
    assert downloads == {"download en", "download hi", "download de"}
    assert not any(job.startswith("probe ") for job in planned)
    # `pike plan` counts the jobs that Snakemake would start.
    work = job_estimates.JobEstimates(
        planner.plan(planner.read_expanded_config(ROOT / PAPER[1]), PAPER[1]),
        accelerators.accelerator_of_name("h100"),
        targets=("results/paper/tables/table1.md",),
    )
    jobs = work.counted_jobs_from_scratch()
    counted = {f"{rule} {name}".replace("/", " ") for rule, name in jobs}
    assert counted == {job.replace("/", " ") for job in planned}


def test_a_dry_run_names_a_job_that_takes_longer_than_it_may_and_begins_again(default):
    """300 GB at 0.5 MB a second in each of 16 threads; the download, of 42 hours, goes on."""
    target = "results/paper/corpora/mt5/hi/manifest.json"
    limits = ("--set-resources", "pack:longest=600", "download:longest=600")
    told = default.dry_run(target, *limits, *PAPER).stdout
    assert told.count(" is expected to take") == 1
    assert "pack mt5/hi is expected to take 10.4 hours, its job ends after 10.0 (set-res" in told


def _in_the_papers_places(config):
    config["methods"]["doremi"] = {
        "rule": "fixed",
        "weights_by_domain": {"easy": 0.51, "hard": 0.53, "notes": 0},
    }
    config["runs"][0]["methods"] = ["mix", "doremi"]
    config["paper"] = {
        "scenarios": {"words": "glam"},
        "models": {"tiny": "gpt2-small"},
        "tasks": {"easy": "books", "hard": "news"},
    }
    config["tables"] = {f"table{number}": {} for number in (4, 5, 6)}
    config["figures"] = {}


def test_tables_of_settings_are_made_without_a_run(fresh):
    fresh.configure(_in_the_papers_places)
    fresh.make(*(f"results/tables/table{number}.md" for number in (4, 5, 6)))
    assert not list(fresh.path("results/runs").rglob("manifest.json"))
    ours, _ = (
        fresh.path("results/tables/table4.csv").read_text(encoding="utf-8").split("As printed", 1)
    )
    assert "easy as Books" in ours
    assert "0.51" in ours
    assert f"{0.51 / 1.04:.3f}"[:4] in ours
    sizes = fresh.path("results/tables/table5.md").read_text(encoding="utf-8")
    tokenizer = json.loads(
        fresh.path("results/tokenizers/letters.json").read_text(encoding="utf-8")
    )
    shape = settings.Model(layers=1, width=16, heads=1, head_width=16, vocabulary_multiple=8)
    assert f"{shape.parameter_count(tokenizer['vocabulary']):,}" in sizes
    assert "AdamW" in fresh.path("results/tables/table6.md").read_text(encoding="utf-8")
