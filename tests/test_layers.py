"""House rules that no linter reads; pyproject.toml has those of imports, for import-linter."""

import sys

import pytest
from repository import run

PLANNED = """
from pathlib import Path
from pipeline.planning import planner
path = Path("workflow/configs/leaderboard.yaml")
planner.plan(planner.read_expanded_config(path), str(path)).settings_by_path()
"""


@pytest.mark.parametrize("code", [PLANNED, "import pipeline.__main__"], ids=["a plan", "`pike`"])
def test_what_starts_often_loads_little(code):
    done = run(sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)", check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "pipeline" in loaded
    large = {"torch", "pyarrow", "pandas", "duckdb", "sentencepiece", "datasets"}
    assert not loaded & {*large, "lightgbm", "scipy"}
