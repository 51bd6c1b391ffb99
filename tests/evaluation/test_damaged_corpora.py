"""Changed validation data: no number is made of it."""

import shutil

import numpy as np
import pytest

from pipeline.__main__ import main
from pipeline.data.corpus_manifest import documents_file
from pipeline.runtime import atomic_files

EVALUATION = {
    "rows": 30,
    "batch_tokens": 64,
    "checkpoints": "last",
    "choice": {"items": 20, "context": 5, "candidate": 4},
}
PROBE = {"rows": 12, "microbatch": 3, "checkpoints": "last"}


@pytest.fixture
def asked(tmp_path, corpora, make_run, finish_untrained, capsys):
    """Copies the corpora, damages them, asks a command; returns what it says and what is left."""
    run = finish_untrained(make_run(), 32)
    own = shutil.copytree(corpora, tmp_path / "corpora")

    def ask(command, damage):
        damage(own / "hard")
        path = tmp_path / "settings.json"
        atomic_files.write_json(path, EVALUATION if command == "evaluate" else PROBE)
        further = ["--tokenizer", corpora.parent / "symbols.model"] * (command == "evaluate")
        given = [command, path, "--run", run, "--corpora", own, "--device", "cpu", *further]
        assert main(list(map(str, given))) == 2
        assert not (run / "evaluations").exists()
        assert not (run / "probes").exists()
        return capsys.readouterr().err

    return ask


def flip_a_token(folder, split="validation"):
    """Swaps two neighbours that differ: both ids stay in the vocabulary."""
    path = folder / f"{split}-00000.bin"
    tokens = np.fromfile(path, "<u2")
    place = int(np.flatnonzero(tokens[:-1] != tokens[1:])[0])
    tokens[[place, place + 1]] = tokens[[place + 1, place]]
    tokens.tofile(path)


def halve_the_bytes(folder):
    path = folder / documents_file("validation")
    documents = np.load(path)
    documents["bytes"] //= 2
    np.save(path, documents)


def leave_the_vocabulary(folder):
    path = folder / "validation-00000.bin"
    tokens = np.fromfile(path, "<u2")
    tokens[-1] = 65_535
    tokens.tofile(path)


@pytest.mark.parametrize("command", ["evaluate", "probe"])
@pytest.mark.parametrize("damage", [flip_a_token, halve_the_bytes, leave_the_vocabulary])
def test_changed_validation_data_is_named_and_nothing_is_measured(asked, command, damage):
    message = asked(command, damage)
    assert "was changed: its SHA-256 is not the manifest's: pack it anew" in message
    assert "hard" in message


def test_the_training_text_that_items_must_not_occur_in_is_checked_too(asked):
    message = asked("evaluate", lambda folder: flip_a_token(folder, "train"))
    assert "train-00000.bin was changed" in message
