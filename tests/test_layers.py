"""The house's layers and fences, read from the imports of every module, those in functions too."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pipeline
from pike_mixing import RULES

PACKAGE = Path(pipeline.__file__).parent
ROOT = PACKAGE.parent
LIBRARY = "pike_mixing"

LAYERS = {
    0: {LIBRARY},
    1: {"errors", "settings", "statistics", "runtime"},
    2: {"data", "tasks"},
    3: {"planning", "model", "theory"},
    4: {"training", "evaluation", "results"},
    5: {"cli"},
    6: {"__main__"},
}
"""The library and the folders of the pipeline. Each imports itself and lower layers."""
NARROWER = {
    "training": {0, 1, 2, "model"},
    "evaluation": {0, 1, 2, "model"},
    "results": {0, 1, "planning"},
}
"""Layers and folders that these alone may import: they meet the others through files."""

FENCES = {
    "datasets": ("pipeline.data.hub",),
    "rocrate": ("pipeline.results.crate",),
    "huggingface_hub": ("pipeline.data", "pipeline.runtime.hub_downloads"),
    "duckdb": ("pipeline.results",),
    "lightning": ("pike_mixing.lightning",),
    "lightgbm": ("pike_mixing.finders.regmix",),
    "lm_eval": ("pipeline.evaluation.harness",),
    "scipy": ("pike_mixing.finders",),
    "sentencepiece": ("pipeline.data.tokenizer", "pipeline.model.hf_tokenizer"),
    "snakemake": (),
    "torch_xla": ("pipeline.runtime.chips", "pipeline.runtime.devices"),
    "transformers": ("pike_mixing.transformers", "pipeline.model"),
    "torch": (
        "pike_mixing.torch",
        "pike_mixing.transformers",
        "pike_mixing.lightning",
        "pipeline.runtime.chips",
        "pipeline.runtime.devices",
        "pipeline.runtime.distributed",
        "pipeline.runtime.launch",
        "pipeline.model",
        "pipeline.training",
        "pipeline.evaluation",
    ),
}
"""Libraries, and the modules or packages that alone may import them."""

WORKFLOW_MAY_IMPORT = {
    "pike_mixing.errors",
    *(f"pipeline.planning.{n}" for n in ("methods", "notices", "outdated", "output_root")),
    *(f"pipeline.planning.{n}" for n in ("planner", "profile", "rule_inputs", "rule_resources")),
    *(f"pipeline.planning.{n}" for n in ("forked_jobs", "slurm")),
}


def part_of(name):
    """The part that a dotted name of ours belongs to: the library, or a folder of the pipeline."""
    top, *rest = name.split(".")
    return LIBRARY if top == LIBRARY else rest[0] if top == PACKAGE.name and rest else ""


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
    """What a module must not import, in words."""
    part = part_of(module)
    ours = layer(part)
    if ours is None and part:
        yield f"{module} is in no layer: add {part} to the table"
        return
    lower = set(range(ours or 0)) | ({1} if ours == 1 else set())
    allowed_parts = NARROWER.get(part, lower)
    for name in imports(source):
        theirs = part_of(name)
        if part and theirs and not is_table(name):
            number = layer(theirs)
            if theirs != part and not {number, theirs} & allowed_parts:
                yield f"{module} (layer {ours}) imports {name} (layer {number})"
        allowed = FENCES.get(name.split(".")[0])
        if allowed is not None and not any(f"{module}.".startswith(f"{a}.") for a in allowed):
            yield f"{module} imports {name.split('.')[0]}"


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    module_name(path): path.read_text(encoding="utf-8")
    for package in (PACKAGE, ROOT / LIBRARY)
    for path in sorted(package.rglob("*.py"))
}
INITS = {
    module_name(path): path.read_text(encoding="utf-8")
    for package in (PACKAGE, ROOT / LIBRARY)
    for path in sorted(package.rglob("__init__.py"))
}


@pytest.mark.slow
def test_every_module_keeps_to_its_layer_and_behind_the_fences():
    assert [text for name, source in SOURCES.items() for text in violations(name, source)] == []


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        (
            "pipeline.runtime.hub_downloads",
            "from pipeline.model.transformer import Block",
            "(layer 3)",
        ),
        ("pike_mixing.rules.pike", "import pipeline.data.shards", "(layer 2)"),
        ("pike_mixing.rules.pike", "from pipeline.settings import Run", "(layer 1)"),
        ("pipeline.model.transformer", "from pipeline.training import train", "(layer 4)"),
        ("pipeline.model.transformer", "from pipeline.planning import plan", "(layer 3)"),
        ("pipeline.tasks.piqa", "from pipeline.data import shards", "(layer 2)"),
        ("pipeline.evaluation.answers", "from pipeline.training import train", "(layer 4)"),
        ("pipeline.training.train", "from pipeline.planning import stages", "(layer 3)"),
        ("pipeline.results.tables", "from pipeline.data import shards", "(layer 2)"),
        ("pipeline.planning.planner", "def f():\n    import pipeline.model.gradients", "(layer 3)"),
        ("pipeline.planning.planner", "from pipeline.__main__ import main", "(layer 6)"),
        ("pipeline.results.tables", "def f():\n    import torch", "imports torch"),
        ("pipeline.settings", "import torch.nn", "imports torch"),
        ("pipeline.data.batches", "from torch import Tensor", "imports torch"),
        ("pipeline.training.train", "import duckdb", "imports duckdb"),
        ("pike_mixing.finders.best", "import lightgbm", "imports lightgbm"),
        ("pike_mixing.rules.ado", "from scipy import optimize", "imports scipy"),
        ("pike_mixing.rules.pike", "from torch import Tensor", "imports torch"),
        ("pike_mixing.tracking", "import torch", "imports torch"),
        ("pike_mixing.torch.mixing", "import transformers", "imports transformers"),
        ("pike_mixing.transformers", "import lightning.pytorch", "imports lightning"),
        ("pipeline.planning.methods", "import torch", "imports torch"),
        ("pipeline.data.packing", "import sentencepiece", "imports sentencepiece"),
        ("pipeline.data.tokenizers", "import sentencepiece", "imports sentencepiece"),
        ("pipeline.data.local", "from datasets import load_dataset", "imports datasets"),
        ("pipeline.planning.planner", "import snakemake.workflow", "imports snakemake"),
        ("pipeline.evaluation.answers", "import lm_eval.utils", "imports lm_eval"),
        ("pipeline.evaluation.scoring", "from transformers import T5", "imports transformers"),
        ("pipeline.model.transformer", "import torch_xla", "imports torch_xla"),
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
        ("pipeline.planning.planner", "from pike_mixing import METHODS"),
        ("pipeline.data.packing", "from pipeline.data.shards import ShardWriter"),
        ("pipeline.training.train", "from pipeline.runtime import run_lock\nimport torch"),
        ("pipeline.__main__", "from pipeline.training import train"),
        ("pipeline.results.query", "from pipeline.planning import planner"),
        ("pipeline.runtime.devices", "def f():\n    import torch_xla"),
        ("pipeline.results.query", "import duckdb\nfrom pipeline.runtime import hub_downloads"),
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
        if isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__dir__"):
            continue
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
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
    assert [n for n in runtime_imports(INITS[module]) if part_of(n)] == []


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
    ours = r"(?:pipeline|pike_mixing)[\w.]*"
    pattern = rf"^[ \t]*(?:from[ \t]+({ours})[ \t]+import[ \t]+([\w, \t]+)|import[ \t]+(.+))$"
    for package, names, plain in re.findall(pattern, text, re.MULTILINE):
        for name in re.split(r"\s*,\s*", (names or plain).strip()):
            bare = name.split(" as ")[0]
            parts = ("pipeline", "pipeline.planning", "pipeline.runtime")
            dotted = f"{package}.{bare}" if package in parts else package or bare
            if dotted.split(".")[0] in (PACKAGE.name, LIBRARY):
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
        "    from pike_mixing import METHODS",
        "import os, pipeline.model.transformer",
        "import pipeline.results.tables as tables",
    ],
)
def test_an_import_planted_in_the_workflow_is_found(planted):
    assert set(workflow_imports(planted)) - WORKFLOW_MAY_IMPORT


@pytest.mark.parametrize(
    "module", ["pipeline.planning.planner", "pipeline.__main__", "pike_mixing"]
)
def test_planning_never_imports_torch(module):
    code = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert module.split(".")[0] in loaded
    assert not loaded & {"torch", "pyarrow", "pandas", "duckdb", "sentencepiece", "datasets"}


def test_the_library_needs_numpy_alone():
    modules = [place.partition(":")[0] for place in RULES.values()]
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert {"numpy", LIBRARY} <= loaded
    assert not loaded & {"torch", "scipy", "lightgbm", "pyarrow", "pandas", "yaml", PACKAGE.name}
