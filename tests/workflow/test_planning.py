"""A dry run reads the plan and no more: no torch, no writing."""

from edits import put


def test_planning_on_finished_results_imports_nothing_heavy_and_writes_nothing(finished, tmp_path):
    for name in ("torch", "duckdb", "sentencepiece", "matplotlib"):
        put(f"{name}/__init__.py", f"raise RuntimeError('{name} was imported')\n")(tmp_path)
    poisoned = {"environment": {"PYTHONPATH": str(tmp_path)}, "anew": True}
    assert "torch was imported" in finished.run("torch", **poisoned).stdout
    before = finished.contents()
    assert finished.plan("--forcerun", "pretrain", **poisoned) != set()
    assert finished.contents() == before
