"""How often a run reads its text: counted, and capped where that is asked for."""

import pytest

from pike_mixing.errors import InputError
from pipeline.data.shards import Corpus
from pipeline.runtime import atomic_files
from pipeline.training import train


def rows(corpora, run):
    values = atomic_files.read_json(run)
    length = values["training"]["length"]
    return {d: Corpus.open(corpora / d, "train").rows(length) for d in values["domains"]}


@pytest.mark.slow
def test_a_finished_run_says_how_often_it_read_each_domain(make_run, corpora):
    run = make_run(rule="single", method={"domain": "hard"})
    train.pretrain(run, corpora, device="cpu", threads=1)
    values, there = atomic_files.read_json(run)["training"], rows(corpora, run)
    epochs = atomic_files.read_json(run.parent / atomic_files.MANIFEST)["epochs"]
    expected = values["rows"] * values["steps"] / there["hard"]
    assert epochs == {"easy": 0.0, "hard": pytest.approx(expected)}


def test_a_run_that_must_exceed_its_cap_does_not_begin(make_run, corpora):
    run = make_run(training={"max_epochs": 0.01})
    with pytest.raises(InputError, match=r"trains on [\d,]+ rows.*may be read 0\.01 times"):
        train.pretrain(run, corpora, device="cpu", threads=1)
    assert not (run.parent / "checkpoints").exists()


@pytest.mark.slow
def test_a_run_stops_at_the_cap_of_a_domain(make_run, corpora):
    probe = make_run("probe")
    values, there = atomic_files.read_json(probe)["training"], rows(corpora, probe)
    # Both domains together suffice; the one that the method takes runs out after three steps.
    cap = 3.5 * values["rows"] / there["hard"]
    training = {"max_epochs": cap, "resume_every": 1}
    run = make_run(rule="single", method={"domain": "hard"}, training=training)
    with pytest.raises(InputError, match=r"'hard': all rows have been read.*last checkpoint"):
        train.pretrain(run, corpora, device="cpu", threads=1)
    assert max(atomic_files.steps(run.parent / "checkpoints")) == 3
