"""The house's layers and fences, read from the imports of every module, those in functions too."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pipeline

PACKAGE = Path(pipeline.__file__).parent
ROOT = PACKAGE.parent

LAYERS = {
    0: {
        "errors",
        "gpus",
        "interruption",
        "clock",
        "cpus",
        "devices",
        "disk",
        "files",
        "hub",
        "locks",
        "loss",
        "ownership",
        "patterns",
        "fingerprints",
        "manifests",
        "progress",
        "settings",
    }
    | {"planning", "writer", "stream", "processes", "torchrun"},
    1: {"data", "mixing", "model", "optim", "pieces", "tasks", "vectors"},
    2: {"gradients", "per_domain_adamw", "checkpoint", "lease", "records", "movement"}
    | {"budget", "events", "refusals", "sharding"},
    3: {"alarms", "backward", "inputs", "run_folder", "throughput"},
    4: {"pretrain", "evaluation", "probe", "theory", "export", "watch"},
    5: {"results", "finders", "commands"},
    6: {"__main__"},
}
"""The parts of the package. A part imports itself and lower layers; layer 5, layer 0 alone."""
MAY_IMPORT = {n: set(range(n)) for n in LAYERS} | {0: {0}, 5: {0}}

FENCES = {
    "datasets": ("pipeline.data.hub",),
    "huggingface_hub": ("pipeline.data", "pipeline.hub"),
    "duckdb": ("pipeline.results",),
    "lightgbm": ("pipeline.finders.regmix",),
    "lm_eval": ("pipeline.evaluation.harness",),
    "scipy": ("pipeline.finders",),
    "sentencepiece": ("pipeline.data.tokenizer", "pipeline.export.fast_tokenizer"),
    "snakemake": (),
    "torch_xla": ("pipeline.devices",),
    "transformers": ("pipeline.evaluation.huggingface", "pipeline.export"),
    "torch": (
        "pipeline.mixing",
        "pipeline.loss",
        "pipeline.processes",
        "pipeline.sharding",
        "pipeline.model",
        "pipeline.optim",
        "pipeline.pieces",
        "pipeline.devices",
        "pipeline.gradients",
        "pipeline.vectors",
        "pipeline.backward",
        "pipeline.run_folder",
        "pipeline.per_domain_adamw",
        "pipeline.checkpoint",
        "pipeline.events",
        "pipeline.throughput",
        "pipeline.records",
        "pipeline.alarms",
        "pipeline.movement",
        "pipeline.pretrain",
        "pipeline.evaluation",
        "pipeline.export",
        "pipeline.probe",
        "pipeline.theory",
    ),
}
"""Libraries, and the modules or packages that alone may import them."""

WORKFLOW_MAY_IMPORT = {
    "pipeline.errors",
    "pipeline.patterns",
    *(f"pipeline.planning.{n}" for n in ("accelerators", "contents", "jobs", "outdated")),
    *(f"pipeline.planning.{n}" for n in ("profile", "root", "runs", "slurm", "stages")),
}


def layer(part):
    found = [number for number, parts in LAYERS.items() if part in parts]
    return found[0] if found else None


def imports(source):
    """Dotted names that a module imports anywhere: `from a import b` counts as a and as a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_table(name):
    """Whether a dotted name is a package's table of names: its `__init__` counts as layer 0."""
    *package, last = name.split(".")
    folder = ROOT.joinpath(*package)
    return last.isupper() and (folder / "__init__.py").exists() and not (folder / last).exists()


def violations(module, source):
    """What a module of the package must not import, in words."""
    part = module.split(".")[1] if "." in module else ""
    ours = layer(part)
    if ours is None and part:
        yield f"{module} is in no layer: add {part} to the table"
        return
    for name in imports(source):
        top, *rest = name.split(".")
        if top == PACKAGE.name and part and rest and not is_table(name):
            theirs = layer(rest[0])
            if rest[0] != part and theirs not in MAY_IMPORT[ours]:
                yield f"{module} (layer {ours}) imports {name} (layer {theirs})"
        allowed = FENCES.get(top)
        if allowed is not None and not any(f"{module}.".startswith(f"{a}.") for a in allowed):
            yield f"{module} imports {top}"


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    module_name(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))
}
INITS = {
    module_name(path): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("__init__.py"))
}


@pytest.mark.slow
def test_every_module_keeps_to_its_layer_and_behind_the_fences():
    assert [text for name, source in SOURCES.items() for text in violations(name, source)] == []


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("pipeline.files", "from pipeline.model import Transformer", "(layer 1)"),
        ("pipeline.mixing.pike", "import pipeline.data.shards", "(layer 1)"),
        ("pipeline.model", "from pipeline import optim", "(layer 1)"),
        ("pipeline.records", "from pipeline.checkpoint import save", "(layer 2)"),
        ("pipeline.probe", "from pipeline import pretrain", "(layer 4)"),
        ("pipeline.results.tables", "from pipeline.mixing import registry", "(layer 1)"),
        ("pipeline.results.tables", "from pipeline.mixing import PiKE", "(layer 1)"),
        ("pipeline.planning.runs", "def f():\n    import pipeline.gradients", "(layer 2)"),
        ("pipeline.planning.runs", "from pipeline.__main__ import main", "(layer 6)"),
        ("pipeline.results.tables", "def f():\n    import torch", "imports torch"),
        ("pipeline.settings", "import torch.nn", "imports torch"),
        ("pipeline.data.batches", "from torch import Tensor", "imports torch"),
        ("pipeline.pretrain", "import duckdb", "imports duckdb"),
        ("pipeline.finders.best", "from pipeline.mixing import registry", "(layer 1)"),
        ("pipeline.finders.best", "import lightgbm", "imports lightgbm"),
        ("pipeline.mixing.ado", "from scipy import optimize", "imports scipy"),
        ("pipeline.data.packing", "import sentencepiece", "imports sentencepiece"),
        ("pipeline.data.tokenizers", "import sentencepiece", "imports sentencepiece"),
        ("pipeline.data.local", "from datasets import load_dataset", "imports datasets"),
        ("pipeline.planning.runs", "import snakemake.workflow", "imports snakemake"),
        ("pipeline.evaluation.asking", "import lm_eval.utils", "imports lm_eval"),
        ("pipeline.evaluation.scoring", "from transformers import T5", "imports transformers"),
        ("pipeline.model", "import torch_xla", "imports torch_xla"),
        ("pipeline.utils", "import math", "is in no layer"),
    ],
)
def test_a_planted_violation_is_found(module, source, expected):
    found = list(violations(module, source))
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pipeline.planning.runs", "from pipeline.mixing import METHODS"),
        ("pipeline.data.packing", "from pipeline.data.shards import ShardWriter"),
        ("pipeline.pretrain", "from pipeline import lease, records\nimport torch"),
        ("pipeline.__main__", "from pipeline import pretrain"),
        ("pipeline.devices", "def f():\n    import torch_xla"),
        ("pipeline.results.query", "import duckdb\nfrom pipeline import files"),
    ],
)
def test_what_the_house_allows_is_no_violation(module, source):
    assert list(violations(module, source)) == []


def unexpected_in_init(source):
    """Statements that a package's `__init__` must not hold, by line."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign) and _names_only(node.value):
            continue
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield f"line {node.lineno}: {ast.unparse(node)[:60]}"


def _names_only(value):
    """Texts in lists and dictionaries, and dictionaries made of another table's texts."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    texts = {"partition", "values", "items"}
    plain = all(isinstance(c.func, ast.Attribute) and c.func.attr in texts for c in calls)
    return plain and isinstance(value, ast.Dict | ast.List | ast.Tuple | ast.DictComp | ast.BinOp)


def runtime_imports(source):
    body = [node for node in ast.parse(source).body if not isinstance(node, ast.If)]
    return [name for node in body for name in imports(ast.unparse(node))]


@pytest.mark.parametrize("module", INITS)
def test_a_package_holds_names_only(module):
    assert list(unexpected_in_init(INITS[module])) == []
    assert [n for n in runtime_imports(INITS[module]) if n.startswith(PACKAGE.name)] == []


@pytest.mark.parametrize(
    "source",
    [
        "def helper():\n    pass",
        "X = compute()",
        "class A:\n    pass",
        "print('hello')",
        "LIMIT = 3",
    ],
)
def test_code_planted_in_a_package_is_found(source):
    assert list(unexpected_in_init(source))


def workflow_imports(text):
    """What a file of the workflow imports of the package."""
    pattern = (
        r"^[ \t]*(?:from[ \t]+(pipeline[\w.]*)[ \t]+import[ \t]+([\w, \t]+)|import[ \t]+(.+))$"
    )
    for package, names, plain in re.findall(pattern, text, re.MULTILINE):
        for name in re.split(r"\s*,\s*", (names or plain).strip()):
            bare = name.split(" as ")[0]
            parts = ("pipeline", "pipeline.planning")
            dotted = f"{package}.{bare}" if package in parts else package or bare
            if dotted.split(".")[0] == PACKAGE.name:
                yield dotted


def test_the_workflow_imports_the_plan_alone():
    rules = [ROOT / "Snakefile", *sorted((ROOT / "workflow").rglob("*.smk"))]
    assert len(rules) > 5
    found = {name for path in rules for name in workflow_imports(path.read_text(encoding="utf-8"))}
    assert found == WORKFLOW_MAY_IMPORT


@pytest.mark.parametrize(
    "planted",
    [
        "from pipeline.planning import runs, references",
        "from pipeline import pretrain",
        "    from pipeline.mixing import METHODS",
        "import os, pipeline.model",
        "import pipeline.results.tables as tables",
    ],
)
def test_an_import_planted_in_the_workflow_is_found(planted):
    assert set(workflow_imports(planted)) - WORKFLOW_MAY_IMPORT


@pytest.mark.parametrize(
    "module", ["pipeline.planning.runs", "pipeline.__main__", "pipeline.mixing"]
)
def test_planning_never_imports_torch(module):
    code = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "pipeline" in loaded
    assert not loaded & {"torch", "pyarrow", "pandas", "duckdb", "sentencepiece", "datasets"}
