"""Downstream tasks through Snakemake: fetched, asked, in the database."""

import json
import shutil

import pytest
from edits import GONE
from fetched import OTHER, STANDINS


def _with_tasks(config):
    config["evaluation"]["few"]["tasks"] = [
        {"tasks": ["piqa"], "shots": [0, 1], "formulations": ["cf"], "items": 6}
    ]
    own = {split: f"piqa/{split}.jsonl" for split in ("train", "validation")}
    config["tasks"] = {"piqa": {"revision": OTHER, "files": own}}
    # Rows as long as the questions, letters enough for their text.
    config["training"]["short"]["length"] = 350
    config["tokenizers"]["letters"]["sources"].append("questions")
    config["tokenizers"]["letters"]["vocabulary"] = 128
    config["sources"]["questions"] = {"kind": "local", "files": "piqa/*.jsonl", "licence": "CC0"}
    config["runs"][0]["methods"] = ["mix", "pike"]
    config["tables"], config["figures"] = {"accuracy": {}}, {}
    del config["scenarios"]["words"]["probe"]


@pytest.fixture(scope="module")
def asked(whole, tmp_path_factory):
    """The tiny experiment with a downstream task. Never change it."""
    project = whole.copy(tmp_path_factory.mktemp("downstream") / "project")
    shutil.rmtree(project.path("results"))
    shutil.copytree(STANDINS / "piqa", project.path("piqa"))
    for path in project.path("piqa").iterdir():
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        texts = [
            {**row, "text": " ".join(row[n] for n in ("goal", "sol1", "sol2"))} for row in rows
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in texts), encoding="utf-8")
    project.configure(_with_tasks)
    project.make()
    return project


def test_every_way_of_asking_is_in_the_database(asked):
    found = asked.answer(
        "select shots, formulation, metric, count(*) as n, max(examples) as examples "
        "from accuracies where task = 'piqa' and metric in ('per_token', 'sum') group by all "
        "order by all",
    )
    # Two runs, checkpoints 0, 6 and 12.
    assert found == [
        {"shots": shots, "formulation": "cf", "metric": metric, "n": 6, "examples": 6}
        for shots in (0, 1)
        for metric in ("per_token", "sum")
    ]
    assert "task/piqa" in asked.pike("why", "table/accuracy").stdout


def test_other_shots_ask_again_and_fetch_and_train_nothing(asked, tmp_path):
    project = asked.copy(tmp_path / "project")
    project.set({"evaluation/few/tasks/0/shots": [0, 2]})
    rules = {job.split()[0] for job in project.outdated()}
    assert rules == {"evaluate", "database", "table", "report"}


def test_a_data_set_that_cannot_be_had_is_known_before_all_else(fresh):
    fresh.configure(_with_tasks)
    fresh.set({"tasks": {}, "tokenizers/letters/sources": ["easy"], "sources/questions": GONE})
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(fresh.path("no-cache"))}
    first = ("--cores", 1, "--until", "fetch", "download")
    printed = fresh.make(*first, environment=offline, code=1)
    assert printed.index("rule fetch:") < printed.index("download easy")
    log = fresh.path("results/logs/fetch/piqa.log").read_text(encoding="utf-8")
    assert "piqa" in log
    assert "HF_HUB_OFFLINE" in log
