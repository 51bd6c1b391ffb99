"""A configuration for GPUs at a share of its steps: other text, tiny models, questions too."""

import json
import shutil

import yaml
from fetched import OTHER, STANDINS

TINY = {"layers": 1, "width": 16, "heads": 1, "head_width": 16}
QUESTION = 400
"""Letters of the longest one and its answer, at least."""
CHAIN = {"kind": "synthetic", "order": 1, "noise": 0.1, "documents": 60, "length": 600}
RECIPE = {"rows": 8, "microbatch_rows": 8, "precision": "float32", "compile": False}


def shortened(config, share):
    """Keeps what a configuration names; of seeds the first."""
    names = list(config["sources"])
    config["sources"] = {
        name: {**CHAIN, "symbols": 12 + n, "successors": 3, "alphabet": 0x4E00, "seed": n}
        for n, name in enumerate(names)
    }
    letters = {"kind": "train", "sources": names, "model": "char"}
    letters |= {"vocabulary": 512, "characters": 100_000}
    config["tokenizers"] = dict.fromkeys(config["tokenizers"], letters)
    config["packing"] = {"validation_share": 0.25}
    config["models"] = dict.fromkeys(config["models"], TINY)
    for recipe in config["training"].values():
        recipe |= {key: recipe[key] // share or 1 for key in recipe if key.endswith("steps")}
        recipe["checkpoint_every"] = recipe["steps"] // 2
        recipe |= {**RECIPE, "length": 64, "resume_every": 1}
    for way in config["evaluation"].values():
        way |= {"rows": 16, "batch_tokens": 65536}
    for method in config["methods"].values():
        if "every" in method:
            method["every"] = method["every"] // share or 1
    for entry in config["runs"]:
        entry["seeds"] = [0]


def asked_of_standins(project, config):
    """Asks a few items of data sets that are here, whose letters the tokenizer knows."""
    shutil.copytree(STANDINS, project.path("standins"))
    texts = [path.read_text(encoding="utf-8") for path in sorted(STANDINS.glob("*/*.jsonl"))]
    records = [json.loads(line) for text in texts for line in text.splitlines()]
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    project.path("standins/questions.txt").write_text("\n".join(lines), encoding="utf-8")
    config["sources"]["questions"] = {
        "kind": "local",
        "files": "standins/questions.txt",
        "documents": "lines",
        "licence": "CC0",
    }
    for tokenizer in config["tokenizers"].values():
        tokenizer["sources"] = [*config["sources"]]
    for recipe in config["training"].values():
        recipe |= {"length": QUESTION, "rows": 6, "microbatch_rows": 6}
    config["tasks"] = {}
    for way in config["evaluation"].values():
        for one in way.get("tasks", []):
            one["items"] = 3
            for task in one["tasks"]:
                paths = sorted((STANDINS / task).glob("*.jsonl"))
                files = {path.stem: f"standins/{task}/{path.name}" for path in paths}
                config["tasks"][task] = {"revision": OTHER, "files": files}


def small(project, name, share):
    """Writes a share of a configuration as config.yaml."""
    config = yaml.safe_load(project.path(f"workflow/configs/{name}").read_text(encoding="utf-8"))
    shortened(config, share)
    if any("tasks" in way for way in config["evaluation"].values()):
        asked_of_standins(project, config)
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    project.path("config.yaml").write_text(text, encoding="utf-8")


def test_the_middle_of_miniature_and_paper(fresh):
    """Its first table: six methods, and the six runs of a grid."""
    small(fresh, "middle.yaml", 500)
    fresh.make("--cores", 2, "results/middle/tables/table1.csv")
    runs = fresh.path("results/middle/runs")
    finished = [*runs.glob("mc4-en-hi-de/gpt2-small/*/seed0/manifest.json")]
    assert len(finished) == 6 + 6
    text = fresh.path("results/middle/tables/table1.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("mc4-en-hi-de")]
    assert sum("HellaSwag (hi), 0-shot (%)" in line for line in lines) == 6
