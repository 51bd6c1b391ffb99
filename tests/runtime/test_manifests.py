"""What a whole manifest holds. Edited ones: tests/hostile/test_edited_manifests.py."""

import re

import pytest

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, made_from, manifests


def write(path, stage, facts):
    made_from.InputSnapshot(stage, []).write_manifest(path, settings={}, files=[], facts=facts)


def test_a_chosen_setting_may_be_anything(tmp_path):
    path = tmp_path / atomic_files.MANIFEST
    chosen = {"a": -1, "b": -0.5, "c": True, "d": "x"}
    write(path, "mixture", {"weights_by_domain": {}, "chosen": chosen})
    assert manifests.read_manifest(path, "mixture")["chosen"] == chosen
    write(path, "mixture", {"weights_by_domain": {"a": -1}})
    with pytest.raises(InputError, match=r"weights_by_domain\.a: must not be negative, not -1"):
        manifests.read_manifest(path, "mixture")


def test_all_that_is_wrong_is_told_with_its_place(tmp_path):
    path = tmp_path / atomic_files.MANIFEST
    found = {"documents": 1, "bytes": 9, "tokens": -1, "shards": [{"file": 3, "tokens": 1}]}
    atomic_files.write_json(path, found)
    with pytest.raises(InputError) as caught:
        manifests.require_type(found, manifests.SPLIT, path, "pack anew")
    assert str(caught.value) == (
        f"{path} is not whole (tokens: must be at least 1, not -1; shards[0].file: 3 is not a "
        "text: put it in quotes; shards[0]: sha256 is missing: a text): pack anew"
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("run", "languages/tiny/any/seed1", "says run 'languages/tiny/any/seed1', but its sett"),
        ("domains", ["hard", "easy"], "says domains"),
        ("steps", 3, "says steps 3, but its settings say 6"),
        ("checkpoints", [0, 6, 3], "do not end with the run's last step 6 in order"),
        ("checkpoints", [], "do not end with the run's last step 6 in order"),
    ],
)
def test_a_run_that_contradicts_itself_is_refused(mixed, tmp_path, key, value, message):
    found = atomic_files.read_json(mixed / atomic_files.MANIFEST)
    atomic_files.write_json(tmp_path / atomic_files.MANIFEST, {**found, key: value})
    with pytest.raises(InputError, match=re.escape(message)):
        manifests.read_run_manifest_and_settings(tmp_path)
