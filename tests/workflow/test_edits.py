"""Edits of finished work: what differs from the plan, and so what Snakemake makes again."""

import json
import shutil

import pytest
from conftest import METHODS
from edits import GONE, cut, put, remove, text, values
from test_rebuild import FIGURES, SELECTIONS, TABLES, append, results, run, stages, trained

MINE = f"results/runs/{run('mine')}"
RESULTS = results(METHODS)
OUTPUTS = (TABLES | FIGURES) - SELECTIONS.keys()
"""Tables and figures of all runs."""
DATA = {"download notes", "tokenizer letters"}
DATA |= {f"pack letters {domain}" for domain in ("easy", "hard", "notes")}


def setting(at, value):
    return values("config.yaml", {at: value})


def code(name):
    return lambda root: append(root, name)


def version(name):
    """As if the work had been made with another version of what computes."""

    def change(root):
        path = root / name
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["versions"] = dict.fromkeys(manifest["versions"], "0.1")
        path.write_text(json.dumps(manifest), encoding="utf-8")

    return change


def renamed_text(root):
    (root / "text/07.txt").rename(root / "text/97.txt")


def of_all(*stages_of):
    """Jobs of every run from a stage on, with all that stands on them."""
    return stages(METHODS, *stages_of) | results(METHODS, trained="pretrain" in stages_of)


RUNS = of_all("pretrain", "evaluate", "probe")
EVERYTHING = DATA - {"download notes"} | RUNS
REPORT = {"report", "all"}
TABLE = {"table perplexity", *REPORT}
OF_CONFIG = {"database", "all", "report", *OUTPUTS}
"""After a change of the configuration that no job reads but the database that shows it."""

EDITS = {
    "the rule of one's own": (text("mine/rule.py", "FACTOR *", "2 * FACTOR *"), trained("mine")),
    "its helper": (text("mine/helpers.py", "1", "2"), trained("mine")),
    "its package": (text("mine/__init__.py", "1", "2"), trained("mine")),
    "another package": (text("outside.py", "1", "2"), trained("mine")),
    "a module by a computed name": (text("by_name.py", "1", "2"), trained("mine")),
    "a remark in its helper": (text("mine/helpers.py", "1", "1  # a remark"), set()),
    "a rule": (code("pike_mixing/rules/pike.py"), trained("pike", "balanced")),
    "the training loop": (code("pipeline/training/train.py"), RUNS),
    "the reader of the text": (code("pipeline/data/local_files.py"), DATA | EVERYTHING),
    "the evaluation": (code("pipeline/evaluation/perplexity.py"), of_all("evaluate")),
    "the probe": (code("pipeline/evaluation/gradient_similarities.py"), of_all("probe")),
    "the loading of records": (code("pipeline/results/record_loader.py"), RESULTS),
    "the tables": (code("pipeline/results/tables.py"), TABLES | REPORT),
    "the figures": (code("pipeline/results/figure_panels.py"), FIGURES | REPORT),
    "a query": (text("pipeline/results/sql/table_costs.sql", "select", "select "), RESULTS),
    "a page": (text("pipeline/results/report/index.html", "\n", "\n\n"), REPORT),
    "a decision": (text("docs/decisions.md", "from the paper: ", "from the paper: now "), REPORT),
    "the finders": (text("docs/finders.md", "# How good", "# How well"), REPORT),
    "a setting of a method": (setting("methods/balanced/tau", 2), trained("balanced") | OF_CONFIG),
    "steps": (setting("training/short/steps", 18), RUNS),
    "a model": (setting("models/tiny/layers", 2), RUNS),
    "an evaluation": (setting("evaluation/few/rows", 7), of_all("evaluate")),
    "a probe": (setting("probe/few/rows", 6), of_all("probe")),
    "the split": (setting("packing/validation_share", 0.3), EVERYTHING),
    "words of a scenario": (setting("scenarios/words/about", "Said otherwise"), RESULTS),
    "a target": (
        setting("scenarios/words/target", {"easy": 2, "hard": 1, "notes": 1}),
        RESULTS,
    ),
    "a selection of a table": (
        setting("tables/accuracy/methods", ["pike", "balanced"]),
        {"table accuracy", "database_of_selection table-accuracy"},
    ),
    "a method less": (
        setting("runs/0/methods/1", GONE),
        {"database", "report", "table perplexity"},
    ),
    "a seed": (
        setting("runs/0/seeds", [0, 1]),
        {f"{s} words/tiny/{m}/seed1" for s in ("pretrain", "probe") for m in METHODS},
    ),
    "another text": (text("text/07.txt", " ", "  "), DATA | EVERYTHING),
    "a further text": (put("text/99.txt", "nova teksto " * 40), DATA | EVERYTHING),
    "a text of another name": (renamed_text, DATA | EVERYTHING),
    "a text less": (remove("text/07.txt"), DATA | EVERYTHING),
    "no text": (remove("text"), set()),
    "a licence": (
        setting("sources/notes/licence", "MIT"),
        {"download notes", "pack letters notes"} | RESULTS,
    ),
    "a tokenizer's bytes": (cut("results/tokenizers/letters.model", -1), EVERYTHING),
    "a shard": (
        cut("results/corpora/letters/easy/train-00000.bin", -1),
        {"pack letters easy"} | RUNS,
    ),
    "a manifest cut off": (cut(f"{MINE}/manifest.json", -30), trained("mine")),
    "weights over time": (remove(f"{MINE}/weights.parquet"), trained("mine")),
    "a record": (
        cut(f"{MINE}/evaluations/step12/perplexities.parquet", -1),
        stages(["mine"], "evaluate") | results(["mine"]),
    ),
    "checkpoints": (remove(f"{MINE}/checkpoints"), set()),
    "a run's settings file": (text(f"{MINE}/run.json", '"seed": 0', '"seed": 7'), set()),
    "a number of a table": (text("results/tables/perplexity.csv", "0.", "77.77"), TABLE),
    "a picture": (remove("results/figures/losses.png"), {"figure losses", *REPORT}),
    "a database": (remove("results/pike.duckdb"), OF_CONFIG),
    "torch": (version(f"{MINE}/manifest.json"), trained("mine")),
    "DuckDB": (version("results/tables/perplexity.manifest.json"), TABLE),
}
PARTS_OF_MORE = {"a method less", "a seed", "a selection of a table"}
"""Edits of which some jobs are named; the tables of the paper's selection follow."""


def check(name, planned, expected):
    if name in PARTS_OF_MORE:
        assert expected <= planned
        assert not planned & stages(METHODS, "pretrain", "evaluate", "probe")
        assert not planned & DATA
    else:
        assert planned == expected


@pytest.mark.parametrize("name", EDITS)
def test_what_an_edit_makes_again_differs_from_the_plan_and_nothing_else(finished, name):
    change, expected = EDITS[name]
    change(finished.root)
    check(name, finished.outdated(), expected - {"all"})


@pytest.mark.parametrize("remembered", [True, False], ids=["with memory", "without"])
@pytest.mark.parametrize(
    "name", ["its helper", "a licence", "a method less", "a number of a table"]
)
def test_snakemake_plans_what_differs_with_and_without_its_own_memory(finished, name, remembered):
    change, expected = EDITS[name]
    change(finished.root)
    if not remembered:
        shutil.rmtree(finished.path(".snakemake"))
    check(name, finished.plan(), expected)
