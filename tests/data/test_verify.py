"""Damage to documents and corpora: what each open sees, what verifying does, and `pike verify`."""

import json
import os

import edits
import numpy as np
import pytest
from downloads import manifest

from pike_mixing.errors import InputError
from pipeline.data import shards
from pipeline.data.shards import Corpus
from pipeline.planning.verify import verify_results
from pipeline.runtime import atomic_files, checksums, ownership

LIST = shards.documents_file_name("train")


@pytest.fixture
def corpus(tmp_path, make_corpus):
    """Three shards of train; the only document of a split ends with the end's token."""
    tokens = [*(np.arange(24) % 90 + 2).tolist(), 1]
    return make_corpus(tmp_path / "corpora" / "tok" / "web", tokens, shard_tokens=10)


@pytest.fixture
def source(tmp_path, make_source):
    return make_source(tmp_path / "data" / "web", ["one", "two"])


def test_whole_folders_are_told_with_their_sizes(corpus, source, tmp_path):
    told = verify_results([str(tmp_path)], workers=2)
    assert f"{corpus}: corpus, 8 files" in told
    assert f"{source}: documents, 1 files" in told
    assert "all is whole" in told
    by_folder = {
        one.pop("folder"): one for one in json.loads(verify_results([tmp_path], format="json"))
    }
    assert by_folder[str(corpus)].items() >= {"kind": "corpus", "files": 8}.items()
    assert by_folder[str(source)]["bytes"] == (source / "documents.parquet").stat().st_size


@pytest.mark.parametrize("workers", [1, 4])
def test_every_damaged_file_is_named_with_what_to_do(corpus, source, tmp_path, workers):
    edits.flip("train-00001.bin")(corpus)
    (corpus / "train-00002.bin").write_bytes(b"")
    edits.flip("documents.parquet")(source)
    with pytest.raises(InputError) as told:
        verify_results([str(tmp_path)], workers=workers)
    text = str(told.value)
    assert text.startswith("3 problems in 9 files:")
    assert "train-00001.bin was changed: its SHA-256 is not the manifest's: pack it anew" in text
    assert "train-00002.bin has 0 bytes, the manifest says 10" in text
    assert "documents.parquet was changed" in text
    assert "download it anew" in text
    assert "train-00000.bin" not in text


def test_what_lies_behind_a_link_is_verified_too_and_a_circle_ends(corpus, tmp_path):
    place = tmp_path / "results"
    place.mkdir()
    # Somebody's own, above.
    (tmp_path / "experiment.json").write_text('{"loss": NaN}')
    (place / "corpora").symlink_to(tmp_path / "corpora")
    (corpus / "again").symlink_to(tmp_path / "corpora")
    assert f"{place / 'corpora' / 'tok' / 'web'}: corpus, 8 files" in verify_results([place])
    edits.flip("train-00001.bin")(corpus)
    (corpus / "foreign.txt").touch()
    with pytest.raises(InputError, match=r"train-00001\.bin was changed") as told:
        verify_results([place])
    assert "foreign.txt is foreign" in str(told.value)


@pytest.mark.parametrize("above", ["mixtures", "tokenizers"])
def test_results_may_lie_below_any_folder(make_source, tmp_path, above):
    place = tmp_path / above / "results"
    atomic_files.write_json(place / "experiment.json", {"started_with": ["no.yaml"]})
    source = make_source(place / "data" / above, ["one", "two"])
    ownership.write_mark(source, "download", source)
    assert "all is whole" in verify_results([place])
    # Neither is a folder of that name in the root.
    atomic_files.write_json(source / "notes.json", {})
    atomic_files.write_json(place / "tokenizers" / "tok.json", {})
    with pytest.raises(InputError) as told:
        verify_results([place])
    assert "tok.json is no manifest of a stage" in str(told.value)
    assert "notes.json is no manifest" not in str(told.value)
    assert "notes.json is foreign" in str(told.value)


@pytest.mark.parametrize("name", ["train-00001.bin", LIST])
def test_a_damaged_file_of_a_split_is_named(corpus, name):
    path, whole = corpus / name, (corpus / name).read_bytes()
    edits.flip(name)(corpus)
    Corpus.open(corpus, "train")
    # The bytes are compared where a number is to be made of them.
    with pytest.raises(InputError, match=f"{name} was changed"):
        Corpus.open(corpus, "train", verify=True)
    path.write_bytes(whole[:-1])
    with pytest.raises(InputError, match=f"{name} has {len(whole) - 1} bytes, the manifest says"):
        Corpus.open(corpus, "train")
    path.unlink()
    with pytest.raises(InputError, match=f"{name} is missing, though the manifest lists it"):
        Corpus.open(corpus, "train")
    Corpus.open(corpus, "validation")


def test_a_file_is_hashed_once_until_somebody_writes_to_it(corpus, monkeypatch):
    hashed, sha256 = [], atomic_files.sha256
    monkeypatch.setattr(
        atomic_files, "sha256", lambda path: hashed.append(path.name) or sha256(path)
    )

    def opened():
        hashed.clear()
        Corpus.open(corpus, "train", verify=True)
        return sorted(hashed)

    shards = [f"train-0000{n}.bin" for n in range(3)]
    # What was written a moment ago could be written to again within a tick of its times.
    assert opened() == opened() == [*shards, LIST]
    monkeypatch.setattr(checksums, "RECENT", 0)
    assert (opened(), opened()) == ([*shards, LIST], [])
    (corpus / shards[1]).write_bytes((corpus / shards[1]).read_bytes())
    assert (opened(), opened()) == ([shards[1]], [])
    # Whoever verifies trusts no memory.
    memory = corpus.parent / ".web.sha256.json"
    edits.flip(shards[2])(corpus)
    known = atomic_files.read_json(memory)
    place = str(corpus / shards[2])
    known[place] = [*atomic_files.file_stamp(corpus / shards[2]), known[place][-1]]
    atomic_files.write_json(memory, known)
    assert opened() == []
    with pytest.raises(InputError, match=rf"(?s)1 problems in 8 files:.*{shards[2]} was changed"):
        verify_results([str(corpus.parent)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"files": edits.GONE}, "files is missing"),
        ({"splits/train/tokens": 24}, "says 24 train tokens, but its shards have 25"),
        ({"fingerprint": "0" * 64}, "a fingerprint that is not that"),
        ({"format": 0}, "is not a corpus of format 2"),
        ({f"files/{LIST}": edits.GONE}, f"does not list {LIST}"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused_at_every_open(corpus, change, message):
    edits.values(atomic_files.MANIFEST, change)(corpus)
    for read in (lambda: verify_results([str(corpus)]), lambda: Corpus.open(corpus, "train")):
        with pytest.raises(InputError, match=message):
            read()


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"started_with": 5}', None])
def test_a_root_that_says_nothing_of_its_experiment_is_told(make_source, tmp_path, content):
    source = make_source(tmp_path / "results" / "data" / "web", ["one", "two"])
    ownership.write_mark(source, "download", source)
    stamp = tmp_path / "results" / "experiment.json"
    (stamp.mkdir if content is None else lambda: stamp.write_text(content))()
    with pytest.raises(InputError) as told:
        verify_results([tmp_path / "results"])
    assert f"delete it with `rm -r {stamp}`, and the workflow writes it anew" in str(told.value)
    atomic_files.remove_path(stamp)
    assert "all is whole" in verify_results([tmp_path / "results"])


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to(path.name)])
@pytest.mark.parametrize("name", [atomic_files.MANIFEST, "documents.parquet", "notes.txt"])
def test_what_is_no_file_is_named_and_not_opened(source, tmp_path, make, name):
    (source / name).unlink(missing_ok=True)
    make(source / name)
    with pytest.raises(InputError, match=rf"{name} is (a pipe|a link that leads nowhere|foreign)"):
        verify_results([str(tmp_path)])


def test_a_tokenizer_that_was_replaced_is_refused(corpus):
    model = corpus.parents[2] / "tokenizers" / "tok.model"
    model.parent.mkdir()
    model.write_bytes(b"pieces")
    sha256 = atomic_files.sha256(model)
    packed_with = {"../../../tokenizers/tok.model": sha256}

    def refuse():
        shards.refuse_replaced_tokenizer(corpus, manifest(corpus))

    changes = {"tokenizer/sha256": sha256, "inputs": packed_with}
    edits.values(atomic_files.MANIFEST, changes)(corpus)
    refuse()
    assert "whole" in verify_results([str(corpus)])
    model.write_bytes(b"other pieces")
    for read in (refuse, lambda: verify_results([str(corpus)])):
        with pytest.raises(InputError, match=r"was packed with the tokenizer of SHA-256.*tok\.mod"):
            read()
    # Moved without its tokenizer, a corpus is as good as before.
    model.unlink()
    refuse()
