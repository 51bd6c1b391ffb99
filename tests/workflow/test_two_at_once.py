"""Two workflows, or two trainings of one run, at once: one is refused and harms nothing."""

import pytest

pytestmark = pytest.mark.workflow


def test_a_second_workflow_and_a_second_training_are_refused(untrained, unbroken):
    target = untrained.manifest("mix")
    first = untrained.start("--cores", 1, target)
    untrained.reach("mix", 10, first)
    with untrained.paused(first):
        second = untrained.snakemake("--cores", 1, target)
        assert second.returncode == 1
        assert "Directory cannot be locked" in second.stdout
        assert "Traceback" not in second.stdout

        run = untrained.path(target).with_name("run.json")
        training = untrained.pike("pretrain", run, "--corpora", "results/corpora/letters")
        assert training.returncode == 2
        assert "is being written by process" in training.stdout
        assert "Traceback" not in training.stdout
    assert first.wait() == 0
    assert untrained.outcomes() == {"mix": unbroken["mix"]}
