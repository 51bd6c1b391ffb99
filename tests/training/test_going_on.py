"""Beginning a run, going on with it, and beginning anew."""

import shutil

import pytest
from trained import (
    damage,
    manifest,
    outcome,
    refused,
    train,
)

from pipeline.model import checkpoint
from pipeline.runtime import atomic_files


def test_a_finished_run_may_be_run_again(finished, corpora, piked):
    assert train(finished, corpora) == outcome(piked)
    assert manifest(finished)["resumes"] == 1


@pytest.mark.slow
def test_changed_settings_in_the_same_folder_start_anew(finished, make_run, corpora):
    changed = {"training": {"peak_learning_rate": 0.02}}
    run = make_run("finished", **changed)
    assert run == finished
    assert train(run, corpora) == train(make_run("fresh", **changed), corpora)
    assert manifest(run)["resumes"] == 0


@pytest.mark.slow
def test_other_text_in_the_same_place_starts_anew(finished, corpora, tmp_path):
    for domain, other in (("easy", "hard"), ("hard", "easy")):
        shutil.copytree(corpora / other, tmp_path / "corpora" / domain)
    train(finished, tmp_path / "corpora")
    assert manifest(finished)["resumes"] == 0


def test_a_run_that_begins_anew_is_not_complete_until_its_end(finished, make_run, corpora):
    run = make_run("finished", training={"peak_learning_rate": 1e30, "clip_norm": 1e30})
    assert "is not a finite number" in refused(run, corpora)
    assert not (finished.parent / atomic_files.MANIFEST).exists()


@pytest.mark.slow
def test_a_damaged_last_checkpoint_costs_time_but_no_bit(finished, corpora, piked):
    damage(finished.parent / "checkpoints" / "step6" / checkpoint.MODEL)
    assert train(finished, corpora) == outcome(piked)


@pytest.mark.slow
def test_a_deleted_checkpoint_is_made_again(finished, corpora, piked):
    shutil.rmtree(finished.parent / "checkpoints" / "step3")
    assert train(finished, corpora) == outcome(piked)


@pytest.mark.slow
def test_a_run_goes_on_after_a_kill_behind_a_deleted_checkpoint(
    finished, corpora, piked, monkeypatch
):
    """The checkpoint of step 6 is made again too: its records went with those of step 3."""
    shutil.rmtree(finished.parent / "checkpoints" / "step3")
    write = checkpoint.write

    def killed(folder, taken):
        write(folder, taken)
        raise InterruptedError

    monkeypatch.setattr(checkpoint, "write", killed)
    with pytest.raises(InterruptedError):
        train(finished, corpora)
    monkeypatch.undo()
    assert list(atomic_files.steps(finished.parent / "checkpoints")) == [0, 3]
    assert train(finished, corpora) == outcome(piked)
    assert manifest(finished)["resumes"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("broken", [b"", b"{", b"{}"])
def test_checkpoints_that_are_all_broken_start_anew(finished, corpora, piked, broken):
    for path in atomic_files.steps(finished.parent / "checkpoints").values():
        (path / atomic_files.MANIFEST).write_bytes(broken)
    assert train(finished, corpora) == outcome(piked)
    assert manifest(finished)["resumes"] == 0


@pytest.mark.slow
def test_a_damaged_checkpoint_is_not_vouched_for(finished, corpora, piked):
    """Going on reads the last one alone."""
    folder = finished.parent / "checkpoints" / "step3"
    damage(folder / checkpoint.MODEL)
    message = refused(finished, corpora)
    assert "model.safetensors is damaged: " in message
    assert "train again" in message
    assert not (finished.parent / atomic_files.MANIFEST).exists()
    # As the message says.
    shutil.rmtree(folder)
    assert train(finished, corpora) == outcome(piked)
    sums = {n: s["sha256"] for n, s in manifest(finished)["files"].items() if "checkpoints" in n}
    assert sums == {
        f"checkpoints/step{n}/model.safetensors": s
        for n, s in outcome(piked)["checkpoints"].items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["parts", "parts/step3"])
def test_lost_records_are_not_papered_over(finished, corpora, piked, lost):
    shutil.rmtree(finished.parent / lost)
    assert "not hold all records up to step 6: delete " in refused(finished, corpora)
    # As the message says.
    shutil.rmtree(finished.parent / "checkpoints")
    assert train(finished, corpora) == outcome(piked)


def test_what_a_killed_process_left_half_written_is_cleared_away(finished, corpora, piked):
    folder = finished.parent
    for place in (".", "checkpoints", "parts"):
        (folder / place / ".step4.17.part").mkdir()
        (folder / place / ".step4.17.part" / "half").touch()
    # A checkpoint that only served to go on, from a process killed before it deleted it.
    shutil.copytree(folder / "checkpoints" / "step3", folder / "checkpoints" / "step5")
    assert train(finished, corpora) == outcome(piked)
    assert not list(folder.rglob("*.part"))
    assert manifest(finished)["checkpoints"] == [0, 3, 6]


def test_the_newest_few_checkpoints_stay_while_a_run_goes_on(make_run, corpora):
    run = make_run(
        training={"resume_every": 1, "resume_keep": 2, "clip_norm": 1e30, "steps": 7}
        | {"peak_learning_rate": 1e30, "warmup_steps": 6, "initial_learning_rate": 0.01}
    )
    assert "is not a finite number" in refused(run, corpora)
    kept = list(atomic_files.steps(run.parent / "checkpoints"))
    newest = kept[-1]
    assert kept == sorted({*range(0, newest + 1, 3), newest - 1, newest})
    assert not (run.parent / "lease").exists()


def test_a_later_versions_checkpoints_are_never_deleted(finished, corpora):
    path = finished.parent / "checkpoints" / "step6" / atomic_files.MANIFEST
    atomic_files.write_json(path, {**atomic_files.read_json(path), "format": checkpoint.FORMAT + 1})
    assert "use the version that wrote it" in refused(finished, corpora)
    assert path.exists()


@pytest.mark.slow
def test_a_run_says_why_it_starts_anew(finished, make_run, corpora, caplog):
    run = make_run("finished", seed=3)
    with caplog.at_level("INFO", "pike"):
        train(run, corpora)
    assert "checkpoints: of another run: run.seed was 0, is 3" in caplog.text
