"""The user's mistakes."""

import re
import shutil

import edits
import pytest
from trained import outcome, refused

from pike_mixing.errors import InputError
from pipeline.__main__ import main
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files
from pipeline.training import train


def test_a_loss_that_is_no_number_stops_the_run(make_run, corpora, capsys):
    run = make_run(training={"peak_learning_rate": 1e30, "clip_norm": 1e30, "steps": 12})
    assert main(["pretrain", str(run), "--corpora", str(corpora), "--device", "cpu"]) == 2
    message = capsys.readouterr().err
    assert "the loss of easy, hard is not a finite number at step 2" in message
    assert "lower training.peak_learning_rate or lengthen training.warmup_steps" in message
    assert "Traceback" not in message
    for path in atomic_files.step_entries(run.parent / "checkpoints").values():
        weights = checkpoint.load_model(path).state_dict().values()
        assert all(weight.isfinite().all() for weight in weights)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"training": {"rows": 10_000}},
            [
                r"domain 'easy' has .* fewer than one batch of 10000 .*: give its",
                "domain 'hard' has",
            ],
        ),
        ({"training": {"max_epochs": 0.01}}, [r"trains on [\d,]+ rows.*be read 0\.01 times"]),
        (
            {"model": {"heads": 10**8}},
            [r"model '.*' has [\d,]+ parameters, which take [\d,.]+ GiB.*lower its layers, width"],
        ),
        ({"domains": ["easy", "missing"]}, ["missing holds no finished corpus", "pack it first"]),
        (
            {
                "rule": "pike",
                "method": {"zeta1": 0.5, "zeta2": 0.1, "rows": 3},
                "training": {"statistics_microbatch": 6},
            },
            [r"in micro-batches of 6 \(training.statistics_microbatch\).*lower the latter"],
        ),
        (
            {"rule": "doremi", "method": {"reference": "mix"}},
            ["needs reference 'mix': give it with --reference"],
        ),
        (
            {"rule": "fixed", "method": {"mixture": "doremi"}},
            ["needs mixture 'doremi': give it with --mixture"],
        ),
    ],
)
def test_what_cannot_be_trained_is_named_and_nothing_is_written(
    make_run, corpora, changes, expected
):
    run = make_run(**changes)
    message = refused(run, corpora)
    for part in expected:
        assert re.search(part, message), message
    assert {path.name for path in run.parent.iterdir()} <= {"run.json", "lease.json"}


@pytest.mark.parametrize("how", ["shard", "recompute"])
def test_a_model_of_transformers_is_neither_divided_nor_computed_again(make_run, corpora, how):
    run = make_run(model={"architecture": {"model_type": "llama"}})
    with pytest.raises(InputError, match="a model of transformers is neither divided nor"):
        train.pretrain(run, corpora, device="cpu", **{how: True})


def test_a_shard_that_changes_while_it_is_trained_on_ends_the_run(
    make_run, corpora, tmp_path, monkeypatch, mixed
):
    """The checkpoints of before stay; with the shard as it was the run goes on from them."""
    own = shutil.copytree(corpora, tmp_path / "corpora")
    shard, begun = own / "hard" / "train-00000.bin", train._Training._train_step
    content = shard.read_bytes()

    def step(self):
        if self.engine.step == 4:
            shard.write_bytes(content[:2] + b"\xff\xff" + content[4:])
        return begun(self)

    run = make_run()
    with monkeypatch.context() as patched:
        patched.setattr(train._Training, "_train_step", step)
        message = refused(run, own)
    assert f"{shard} was changed" in message or "holds the token id 65,535" in message
    assert max(atomic_files.step_entries(run.parent / "checkpoints")) <= 4
    assert not (run.parent / atomic_files.MANIFEST).exists()
    assert f"{shard} was changed" in refused(run, own)
    shard.write_bytes(content)
    train.pretrain(run, own, device="cpu", threads=1)
    assert outcome(run.parent) == outcome(mixed)


@pytest.mark.parametrize("name", ["checkpoints/epoch1.pt", "log.jsonl", "manifest.json"])
def test_what_no_training_wrote_is_not_cleared_away(make_run, corpora, name):
    run = make_run()
    edits.put(name, '{"stage": "pack"}')(run.parent)
    told = refused(run, corpora)
    assert f"{run.parent} holds {run.parent / name}, which no training wrote" in told
    assert (run.parent / name).read_text() == '{"stage": "pack"}'


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            edits.values("run.json", {"rule": "single", "method": {"domain": "none"}}),
            "'none' is unknown",
        ),
        (edits.put("starts.json", "null"), "starts.json is not whole"),
        (edits.remove("log.jsonl"), "not hold all records"),
    ],
    ids=["settings of no rule", "damaged starts", "lost records"],
)
def test_a_refused_training_deletes_nothing_of_a_run(finished, corpora, change, says):
    # Killed before its end.
    (finished.parent / "manifest.json").unlink()
    change(finished.parent)
    before = _contents(finished.parent)
    assert says in refused(finished, corpora)
    assert _contents(finished.parent) == before


def _contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
