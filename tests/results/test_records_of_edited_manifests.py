"""Manifests below a database that were edited: a message, and the database of before stays."""

import contextlib
import json
from pathlib import Path

import pytest
from edits import edited
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up import build

from pike_mixing.errors import InputError
from pipeline.results import experiment, lineage
from pipeline.runtime import atomic_files

PLACES = {
    "source": "data/code/manifest.json",
    "tokenizer": "tokenizers/real.json",
    "corpus": "corpora/real/code/manifest.json",
    "run": "runs/real/tiny/mix/seed0/manifest.json",
    "checkpoint": "runs/real/tiny/mix/seed0/checkpoints/step40/manifest.json",
    "evaluation": "runs/real/tiny/mix/seed0/evaluations/manifest.json",
    "probe": "runs/real/tiny/mix/seed0/probes/manifest.json",
}


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    root = tmp_path_factory.mktemp("edited")
    return experiment.read_experiment(
        build(root, seeds=(0,), scenarios=("real",), methods=("mix",))
    )


@contextlib.contextmanager
def manifest(named, kind):
    """The place of a manifest and its text, which is there again afterwards."""
    path = Path(named.results) / PLACES[kind]
    before = path.read_text(encoding="utf-8")
    try:
        yield path, before
    finally:
        path.write_text(before, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_edit_of_a_manifest_ends_in_a_traceback(named, kind, data):
    with manifest(named, kind) as (path, before), contextlib.suppress(InputError):
        path.write_text(data.draw(edited(json.loads(before))), encoding="utf-8")
        lineage.read_lineage(named)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "key", "other"),
    [("corpus", "source", "web"), ("evaluation", "run", "a/b/c/seed1"), ("probe", "run", "x")],
)
def test_a_manifest_of_something_else_is_refused(named, kind, key, other):
    with manifest(named, kind) as (path, before):
        atomic_files.write_json(path, {**json.loads(before), key: other})
        with pytest.raises(InputError, match=f"is of '{other}', not of "):
            lineage.read_lineage(named)
