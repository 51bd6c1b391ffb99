"""House rules that no linter reads; pyproject.toml has those of imports, for import-linter."""

import re
import sys

import pytest
from repository import ROOT, run

WORKFLOW_MAY_IMPORT = {
    "pike_mixing.errors": {"InputError"},
    "pipeline.results": {"views"},
    "pipeline.planning": {"notices", "planner", "records", "rule_inputs", "workflow_jobs"},
}


def test_the_workflow_imports_the_plan_alone():
    files = [ROOT / "workflow/Snakefile", *(ROOT / "workflow").rglob("*.smk")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert not re.findall(r"^[ \t]*import[ \t].*\b(?:pipeline|pike_mixing)\b", text, re.M)
    found = {}
    for module, names in re.findall(
        r"^[ \t]*from[ \t]+((?:pipeline|pike_mixing)\S*)[ \t]+import[ \t]+(.*)$", text, re.M
    ):
        found.setdefault(module, set()).update(re.findall(r"\w+", names))
    assert found == WORKFLOW_MAY_IMPORT


PLANNED = """
from pathlib import Path
from pipeline.planning import planner
path = Path("workflow/configs/leaderboard.yaml")
planner.plan(planner.read(path), str(path)).settings_files()
"""


@pytest.mark.parametrize("code", [PLANNED, "import pipeline.__main__"], ids=["a plan", "`pike`"])
def test_what_starts_often_loads_little(code):
    done = run(sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)", check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "pipeline" in loaded
    large = {"torch", "pyarrow", "pandas", "duckdb", "sentencepiece", "datasets"}
    assert not loaded & {*large, "lightgbm", "scipy"}
