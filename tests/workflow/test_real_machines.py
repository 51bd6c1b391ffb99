"""A configuration for a GPU at a hundredth of its steps: other text, tiny models."""

import pytest
import yaml

pytestmark = pytest.mark.workflow

TINY = {"layers": 1, "width": 16, "heads": 1, "head_width": 16}
CHAIN = {"kind": "synthetic", "order": 1, "noise": 0.1, "documents": 60, "length": 600}
RECIPE = {"rows": 8, "microbatch_rows": 8, "precision": "float32", "compile": False}


def hundredth(config):
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
        recipe |= {key: recipe[key] // 100 or 1 for key in recipe if key.endswith("steps")}
        recipe["checkpoint_every"] = recipe["steps"] // 2
        recipe |= {**RECIPE, "length": 64, "resume_every": 1}
    for way in config["evaluation"].values():
        way |= {"rows": 16, "batch_tokens": 65536}
    for method in config["methods"].values():
        if "every" in method:
            method["every"] = method["every"] // 100 or 1
    for entry in config["runs"]:
        entry["seeds"] = [0]


def small(project, name):
    """Writes the hundredth of a configuration as config.yaml."""
    config = yaml.safe_load(project.path(f"workflow/configs/{name}").read_text(encoding="utf-8"))
    hundredth(config)
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    project.path("config.yaml").write_text(text, encoding="utf-8")


def cells(project, table):
    """Lines of a finished table."""
    (path,) = project.root.glob(f"results/*/tables/{table}.csv")
    return path.read_text(encoding="utf-8").splitlines()


def test_an_hour_of_a_gpu_in_slices(fresh):
    small(fresh, "gpu-hour.yaml")
    runs = "results/gpu-hour/runs/mc4-en-hi-de/small"
    folder = fresh.path(runs)
    fresh.make("--cores", 2, f"{runs}/mix/seed0/manifest.json")
    assert len(list(folder.glob("*/seed0/manifest.json"))) == 1
    made = fresh.make("--cores", 2)
    assert len(list(folder.glob("*/seed0/manifest.json"))) == 6, made.stdout[-4000:]
    assert any("scale-free-pike" in line for line in cells(fresh, "perplexity"))
