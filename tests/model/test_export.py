"""What is wrong with an export is said before its packages are asked for."""

import pytest

from pipeline import __main__
from pipeline.runtime import atomic_files


@pytest.fixture
def run(tmp_path):
    """The manifest of a run with two checkpoints; nothing more is looked at."""
    path = tmp_path / "run" / atomic_files.MANIFEST
    path.parent.mkdir()
    atomic_files.write_json(path, {"stage": "pretrain", "steps": 6, "checkpoints": [3, 6]})
    return path.parent


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["{}/none", "--out", "{}/out"], "none is no finished run (it has no manifest.json)"),
        (["{}/pack", "--out", "{}/out"], "pack/manifest.json is not of a training run"),
        (["{}/run", "--out", "{}/out", "--step", "5"], "no checkpoint of step 5: --step takes one"),
        (["{}/run", "--out", "{}/run"], "run, which would be lost: give another --out"),
    ],
)
def test_a_mistake_is_named_without_transformers(
    run, tmp_path, monkeypatch, capsys, given, expected
):
    monkeypatch.setitem(__main__.sys.modules, "transformers", None)
    atomic_files.write_json(tmp_path / "pack" / atomic_files.MANIFEST, {"stage": "pack"})
    assert __main__.main(["export", *(word.format(tmp_path) for word in given)]) == 2
    assert expected in capsys.readouterr().err


def test_a_run_that_can_be_exported_needs_transformers(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__main__.sys.modules, "transformers", None)
    monkeypatch.delitem(__main__.sys.modules, "pipeline.model.hf_export", raising=False)
    assert __main__.main(["export", str(run), "--out", str(tmp_path / "out")]) == 2
    assert "transformers is not installed: in the clone, run `make setup" in capsys.readouterr().err
