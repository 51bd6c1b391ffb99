"""Manifests that were edited or cut: a message and exit code 2, never a traceback."""

import contextlib
import json
import re
import shutil

import pytest
from edits import edited
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pipeline.__main__ import main
from pipeline.runtime import atomic_files, manifests
from pipeline.training import train

EVALUATION = {"rows": 4, "batch_tokens": 64, "checkpoints": "last"}
PROBE = {"rows": 4, "microbatch": 2, "checkpoints": "last"}


@pytest.fixture(scope="module")
def made(tmp_path_factory, corpora, write_run):
    """A finished run with its sources, tokenizer and corpora, and the commands that read them."""
    root = tmp_path_factory.mktemp("manifests")
    shutil.copytree(corpora.parent, root / "data")
    run = write_run(root / "run")
    train.pretrain(run, root / "data" / "corpora", device="cpu", threads=1)
    for name, values in {
        "evaluation": EVALUATION,
        "probe": PROBE,
        "packing": {"validation_share": 0.2},
    }.items():
        atomic_files.write_json(root / f"{name}.json", values)
    return root


def commands(root):
    """By stage: a manifest of it, and commands that read it."""
    data, run = root / "data", root / "run"
    of_run = ("--run", run, "--corpora", data / "corpora", "--device", "cpu")
    tokenizer = ("--tokenizer", data / "symbols.model")
    evaluate = ("evaluate", root / "evaluation.json", *of_run, *tokenizer)
    probe = ("probe", root / "probe.json", *of_run)
    source, corpus = data / "easy", data / "corpora" / "easy"
    given = ("--documents", source, *tokenizer, "--out", root / "packed", "--workers", 1)
    return {
        "source": (source, [("pack", root / "packing.json", *given), ("verify", source)]),
        "corpus": (corpus, [evaluate, probe, ("corpus", corpus), ("verify", corpus)]),
        "run": (run, [evaluate, probe]),
        "checkpoint": (run / "checkpoints" / "step6", [evaluate, probe]),
    }


OTHERS = {
    "fetch": {"task": "piqa"},
    "mixture": {"weights_by_domain": {"easy": 0.5, "hard": 0.5}},
    "evaluate": {"run": "a/b/c/seed0", "steps": [0, 6]},
    "probe": {"run": "a/b/c/seed0", "steps": [6]},
    "tokenizer": {"vocabulary": 32},
    "theory": {},
}


@pytest.fixture(scope="module", params=OTHERS)
def written(request, tmp_path_factory):
    """A stage, the place of a manifest of it, and what it holds."""
    stage, path = request.param, tmp_path_factory.mktemp("written") / atomic_files.MANIFEST
    atomic_files.write_manifest(
        path, stage=stage, settings={}, inputs=[], files=[], modules=[], facts=OTHERS[stage]
    )
    return stage, path, manifests.read(path, stage)


@settings(max_examples=200)
@given(data=st.data())
def test_what_is_read_of_a_manifest_has_its_type(written, data):
    stage, path, whole = written
    path.write_text(data.draw(edited(whole)), encoding="utf-8")
    with contextlib.suppress(InputError):
        found = manifests.read(path, stage)
        assert all(type(found[key]) is type(value) for key, value in OTHERS[stage].items())


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["source", "corpus", "run", "checkpoint"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_edit_of_a_manifest_ends_in_a_traceback(made, stage, data):
    folder, asked = commands(made)[stage]
    path = folder / atomic_files.MANIFEST
    before = path.read_text(encoding="utf-8")
    text = data.draw(edited(json.loads(before)))
    command = data.draw(st.sampled_from(asked))
    try:
        path.write_text(text, encoding="utf-8")
        assert main(list(map(str, command))) in (0, 2)
    finally:
        path.write_text(before, encoding="utf-8")


def test_all_that_is_wrong_is_told_with_its_place(tmp_path):
    path = tmp_path / atomic_files.MANIFEST
    found = {"documents": 1, "bytes": 9, "tokens": -1, "shards": [{"file": 3, "tokens": 1}]}
    atomic_files.write_json(path, found)
    with pytest.raises(InputError) as caught:
        manifests.require(found, manifests.FACTS["pack"]["splits"]["train"], path, "pack anew")
    assert str(caught.value) == (
        f"{path} is not whole (tokens is '-1'; shards[0].file is '3'; "
        "shards[0].sha256 is missing): pack anew"
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
def test_a_run_that_contradicts_itself_is_refused(made, tmp_path, key, value, message):
    found = atomic_files.read_json(made / "run" / atomic_files.MANIFEST)
    atomic_files.write_json(tmp_path / atomic_files.MANIFEST, {**found, key: value})
    with pytest.raises(InputError, match=re.escape(message)):
        manifests.of_run(tmp_path)
