"""`try`: the fit of RegMix's runs and its verdict at 1B are those of `fit --test`."""

import importlib.util
import json
import re

import numpy as np
import pytest
from repository import ROOT

from pike_mixing.finders import saved_predictors
from pike_mixing.mixtures import explore, trial


@pytest.mark.slow
def test_it_prints_what_fit_and_predict_say(said, tmp_path):
    found = json.loads(said("try", "--format", "json", "--out", tmp_path / "new"))
    table = ["regmix", "--where", "set=train", "--test", "regmix", "--test-where", "parameters=1e9"]
    options = ["--target", "pile_cc", "--target", "*", "--resamples", "0", "--format", "json"]
    fitted = json.loads(said("fit", "mixing-law", *table, *options))["targets"]
    for one, name in zip(fitted, trial.TARGETS, strict=True):
        for key, value in one["test"].items():
            assert found["targets"][name][key] == pytest.approx(value, rel=1e-6), key
    assert found["mixture"] == pytest.approx(fitted[1]["mixture"], abs=1e-6)
    # A law that orders models of 1B at all is worth more than a draw.
    for name in trial.TARGETS:
        assert found["targets"][name]["spearman"]["low"] > 0.5
        assert found["targets"][name]["worth"]["low"] > 0
    law = saved_predictors.load_predictor(tmp_path / "new" / "law.json")
    assert law.optimum_K.tolist() == list(found["mixture"].values())
    equal = law.predictor.losses(np.stack([law.optimum_K, law.swarm.uniform_weights()]))
    assert np.diff(equal) == pytest.approx(found["predicted_gain"], rel=1e-9)
    assert (tmp_path / "new" / "mixture.html").read_text(encoding="utf-8") == explore.render_page(
        tmp_path / "new" / "law.json", budget_override=25e9
    )
    told = said("try", "--out", tmp_path / "new").replace(str(tmp_path / "new"), "mixture-trial")
    # The pages show what the command prints; spaces at the end of a line do not matter.
    page, readme = (
        re.sub(" +\n", "\n", (ROOT / name).read_text(encoding="utf-8"))
        for name in ("docs/mixtures.md", "README.md")
    )
    told = re.sub(" +\n", "\n", told)
    assert f"```text\n{told}```" in page
    assert f"```text\n{told.partition('slope')[0]}```" in readme
    assert "X" in told
    assert f"{found['targets']['pile_cc']['spearman']['value']:.3f} (" in told


def test_the_picture_by_hand():
    # Three models: two in the lowest cell, one of them predicted best, one in the highest.
    lines = trial.draw_scatter(np.array([1.0, 1.001, 3.0]), np.array([2.0, 2.001, 5.0]))
    frame = lines[1 : 1 + trial.HEIGHT]
    assert frame[0] == "5.00 |" + " " * (trial.WIDTH - 1) + "."
    assert frame[-1] == "2.00 |X" + " " * (trial.WIDTH - 1)
    assert lines[-1].split() == ["1.00", "3.00"]


def test_without_scipy_it_says_what_to_type(said, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "uvx --from './pike_mixing[try]'" in said("try", code=2)


def test_what_cannot_be_written_or_drawn_is_refused(said, tmp_path):
    (tmp_path / "file").touch()
    assert "give another folder" in said("try", "--out", tmp_path / "file", code=2)
    assert "--seed: must not be negative" in said("try", "--seed", "-1", code=2)
