"""A run under SIGKILL, also while it writes checkpoints, ends with the bits of one never killed."""

import signal

import pytest

from benchmarks import interruption
from pipeline.runtime import atomic_files


@pytest.mark.slow
def test_a_run_killed_while_it_writes_checkpoints_ends_with_the_same_bits(tmp_path):
    corpora = interruption.corpora(tmp_path)
    expected = interruption.train(interruption.run_file(tmp_path / "unbroken", 120), corpora)
    run = interruption.run_file(tmp_path / "broken", 120)
    seen = interruption.kill(run, corpora, 6, seed=1)
    killed = [one for one in seen if one.code == -signal.SIGKILL]
    assert len(killed) >= 4, seen
    assert any(one.writing for one in killed), seen
    assert interruption.train(run, corpora) == expected
    assert atomic_files.read_json(run.parent / atomic_files.MANIFEST)["resumes"] >= 2
    assert atomic_files.read_json(run.parent / atomic_files.MANIFEST)["checkpoints"] == [
        0,
        25,
        50,
        75,
        100,
        120,
    ]
    assert not list(run.parent.rglob("*.part"))
