"""Beginning a run, going on with it, and beginning anew."""

import json
import re
import shutil
from pathlib import Path

import edits
import pytest
from trained import manifest, outcome, refused, train

from pipeline.__main__ import main
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files, code_fingerprint
from pipeline.training.metric_log import LOG

ANEW = {"peak_learning_rate": 0.02}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "resumes"),
    [
        (edits.cut("checkpoints/step6/model.safetensors"), 1),
        (lambda f: [edits.put(str(path), "{}")(f) for path in f.glob("*/step*/manifest.json")], 0),
    ],
    ids=["the last checkpoint cut in half", "all without content"],
)
def test_a_run_ends_with_the_same_bits_whatever_happened_to_its_folder(
    finished, corpora, piked, harm, resumes
):
    harm(finished.parent)
    assert train(finished, corpora) == outcome(piked)
    assert manifest(finished)["resumes"] == resumes
    assert manifest(finished)["checkpoints"] == [0, 3, 6]
    assert not list(finished.parent.rglob("*.part"))


@pytest.mark.slow
def test_a_finished_run_is_trained_anew_and_one_killed_before_its_manifest_is_not(
    finished, corpora, piked, caplog
):
    def trained():
        with caplog.at_level("INFO", "pike"):
            caplog.clear()
            assert train(finished, corpora) == outcome(piked)
        assert json.loads((finished.parent / "starts.json").read_text()) == [0]
        assert manifest(finished)["resumes"] == 0
        return caplog.text

    assert "starting anew" in trained()
    (finished.parent / atomic_files.MANIFEST).unlink()
    assert "going on from" in trained()
    # So does a workflow that is told to (`--forcerun`), which has the manifest deleted.
    for name in (atomic_files.MANIFEST, "starts.json"):
        (finished.parent / name).unlink()
    assert "starting anew" in trained()


MINE = """
import dataclasses, importlib.util
import numpy as np
from pike_mixing.interface import Method

@dataclasses.dataclass(frozen=True)
class Mine(Method):
    def init(self, domains, seed):
        return {"weights_K": np.full(len(domains), 1 / len(domains))}

    def observe(self, state, signals):
        spec = importlib.util.spec_from_file_location("no_name_of_a_file", "late_helper.py")
        helper = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(helper)
        lean_K = 1 + helper.LEAN * np.arange(len(state["weights_K"]))
        return {"weights_K": lean_K / lean_K.sum()}
"""


@pytest.mark.slow
def test_a_helper_that_a_hook_loads_from_a_path_is_what_a_run_is_made_from(
    make_run, corpora, own_modules, monkeypatch
):
    monkeypatch.chdir(own_modules)
    edits.put("mine.py", MINE)(own_modules)
    run = make_run("late", rule="mine:Mine", method={})

    def trained(lean):
        edits.put("late_helper.py", f"LEAN = {lean}\n")(own_modules)
        # As a process of its own.
        monkeypatch.setattr(code_fingerprint, "_run", {})
        shutil.rmtree(own_modules / "__pycache__", ignore_errors=True)
        train(run, corpora)
        # Beside it stand the modules of these tests.
        loaded = manifest(run)["code"]["loaded"]
        assert "mine.py" not in loaded
        return manifest(run)["weights_sha256"], loaded["late_helper.py"]

    def stopped():
        (run.parent / atomic_files.MANIFEST).unlink()
        shutil.rmtree(run.parent / "checkpoints" / "step6")

    first = trained(1)
    stopped()
    assert trained(1) == first
    assert manifest(run)["resumes"] == 1
    stopped()
    second = trained(9)
    assert manifest(run)["resumes"] == 0
    assert {*first}.isdisjoint(second)
    # As Snakemake leaves a finished run that is to be made again.
    (run.parent / atomic_files.MANIFEST).unlink()
    assert trained(1) == first
    assert manifest(run)["resumes"] == 0


@pytest.mark.slow
def test_changed_settings_in_the_same_folder_start_anew_and_say_why(
    finished, make_run, corpora, caplog
):
    run = make_run("finished", training=ANEW)
    assert run == finished
    with caplog.at_level("INFO", "pike"):
        assert train(run, corpora) == train(make_run("fresh", training=ANEW), corpora)
    assert manifest(run)["resumes"] == 0
    assert "run.training.peak_learning_rate was 0.01, is 0.02" in caplog.text


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
def test_a_run_goes_on_after_a_kill_behind_a_deleted_checkpoint(
    finished, corpora, piked, monkeypatch
):
    """The checkpoint of step 6 is made again too: its records went with those of step 3."""
    shutil.rmtree(finished.parent / "checkpoints" / "step3")
    write = checkpoint.write_checkpoint

    def killed(folder, taken):
        write(folder, taken)
        if folder.name == "step3":
            raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_checkpoint", killed)
        with pytest.raises(InterruptedError):
            train(finished, corpora)
    assert list(atomic_files.step_entries(finished.parent / "checkpoints")) == [0, 3]
    assert train(finished, corpora) == outcome(piked)
    assert manifest(finished)["resumes"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "says", "remedy"),
    [
        (
            edits.flip(f"checkpoints/step3/{checkpoint.MODEL}", -1),
            r"step3/model\.safetensors is damaged: .*train again",
            "checkpoints/step3",
        ),
        (edits.remove(LOG), "not hold all records up to step 6: delete ", "checkpoints"),
    ],
    ids=["a checkpoint before the last", "records"],
)
def test_what_is_damaged_is_not_vouched_for_until_it_is_deleted_as_the_message_says(
    finished, corpora, piked, harm, says, remedy
):
    """Going on reads the last checkpoint alone."""
    (finished.parent / atomic_files.MANIFEST).unlink()
    harm(finished.parent)
    assert re.search(says, refused(finished, corpora))
    assert not (finished.parent / atomic_files.MANIFEST).exists()
    shutil.rmtree(finished.parent / remedy)
    assert train(finished, corpora) == outcome(piked)


def test_the_newest_few_checkpoints_stay_while_a_run_goes_on(make_run, corpora):
    run = make_run(
        training={"resume_every": 1, "resume_keep": 2, "clip_norm": 1e30, "steps": 7}
        | {"peak_learning_rate": 1e30, "warmup_steps": 6, "initial_learning_rate": 0.01}
    )
    assert "is not a finite number" in refused(run, corpora)
    kept = list(atomic_files.step_entries(run.parent / "checkpoints"))
    newest = kept[-1]
    assert kept == sorted({*range(0, newest + 1, 3), newest - 1, newest})
    assert not (run.parent / "lease.json").exists()


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_freed_space_lets_it_go_on(
    corpora, small_disk, capsys, piked
):
    """Four KiB more are free at each start, so that the disk is full at every kind of write."""
    disk = small_disk(1024)
    run, filler = disk / "run" / "run.json", disk / "filler"
    run.parent.mkdir()
    shutil.copy(piked / "run.json", run)
    with filler.open("wb") as file:
        while free := shutil.disk_usage(disk).free:
            file.write(b"0" * min(4096, free))
            file.flush()
    messages, code = [], 2
    while code == 2:
        with filler.open("r+b") as file:
            file.truncate(filler.stat().st_size - 4096)
        code = main(["pretrain", str(run), "--corpora", str(corpora), "--device", "cpu"])
        messages.append(capsys.readouterr().err)
    assert code == 0
    assert len(messages) > 20
    for message in messages[:-1]:
        assert "No space left on device" in message
        assert "free some space" in message
        assert "Traceback" not in message
    kinds = ("checkpoint", LOG, "cannot be written")
    assert all(any(kind in message for message in messages) for kind in kinds)
    assert outcome(run.parent) == outcome(piked)
    assert not list(Path(disk).rglob("*.part"))
