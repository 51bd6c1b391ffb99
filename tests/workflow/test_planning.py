"""A dry run reads the plan and no more: no torch, no writing."""

import pytest


@pytest.fixture
def poisoned(tmp_path):
    """An environment in which importing what only stages need is an error."""
    for name in ("torch", "duckdb", "sentencepiece", "matplotlib"):
        (tmp_path / "poison" / name).mkdir(parents=True)
        text = f"raise RuntimeError('{name} was imported')\n"
        (tmp_path / "poison" / name / "__init__.py").write_text(text, encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path / "poison")}


def test_the_poison_works(default, poisoned):
    default.path("imports.py").write_text("import torch\n", encoding="utf-8")
    assert "torch was imported" in default.run("imports", environment=poisoned, anew=True).stdout


def test_planning_the_default_experiment_imports_nothing_heavy_and_writes_nothing(
    default, poisoned
):
    planned = default.plan(environment=poisoned, anew=True)
    assert {"report", "pretrain installed/nano/pike/seed220"} <= planned
    assert not default.path("results").exists()


def test_planning_on_finished_results_imports_nothing_heavy_and_writes_nothing(finished, poisoned):
    before = finished.contents()
    assert finished.plan("--forcerun", "pretrain", environment=poisoned, anew=True) != set()
    assert finished.contents() == before
