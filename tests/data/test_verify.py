import json

import numpy as np
import pytest

from pike_mixing.errors import InputError
from pipeline.data import corpus_manifest
from pipeline.data.shards import Corpus
from pipeline.data.verify import verify
from pipeline.runtime import atomic_files


@pytest.fixture
def corpus(tmp_path, make_corpus):
    """Three shards of train; the only document of a split ends with the end's token."""
    tokens = [*(np.arange(24) % 90 + 2).tolist(), 1]
    return make_corpus(tmp_path / "corpora" / "tok" / "web", tokens, shard_tokens=10)


@pytest.fixture
def source(tmp_path, make_source):
    return make_source(tmp_path / "data" / "web", ["one", "two"])


def rewrite(folder, change):
    manifest = atomic_files.read_json(folder / atomic_files.MANIFEST)
    change(manifest)
    (folder / atomic_files.MANIFEST).write_text(json.dumps(manifest))


def flip(path, place=3, bit=0):
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def test_whole_folders_are_told_with_their_sizes(corpus, source, tmp_path):
    told = verify([str(tmp_path)], workers=2)
    assert f"{corpus}: corpus, 6 files" in told
    assert f"{source}: documents, 1 files" in told
    assert "all is whole" in told


@pytest.mark.parametrize("workers", [1, 4])
def test_every_damaged_file_is_named_with_what_to_do(corpus, source, tmp_path, workers):
    flip(corpus / "train-00001.bin")
    (corpus / "train-00002.bin").write_bytes(b"")
    flip(source / "documents-00000.parquet", place=20)
    with pytest.raises(InputError) as told:
        verify([str(tmp_path)], workers=workers)
    text = str(told.value)
    assert text.startswith("3 problems in 7 files:")
    assert "train-00001.bin was changed: its SHA-256 is not the manifest's: pack it anew" in text
    assert "train-00002.bin has 0 bytes, the manifest says 10" in text
    assert "documents-00000.parquet was changed" in text
    assert "download it anew" in text
    assert "train-00000.bin" not in text


@pytest.mark.parametrize("name", ["train-00000.bin", "validation-documents.npy"])
@pytest.mark.parametrize("bit", [0, 7])
def test_one_flipped_bit_anywhere_is_found(corpus, name, bit):
    for place in (0, -1):
        flip(corpus / name, place, bit)
        with pytest.raises(InputError, match=f"{name} was changed"):
            verify([str(corpus)])
        flip(corpus / name, place, bit)
    assert "whole" in verify([str(corpus)])


def test_a_missing_file_is_named(corpus):
    (corpus / "train-00001.bin").unlink()
    with pytest.raises(InputError, match=r"train-00001\.bin is missing, though the manifest"):
        verify([str(corpus)])


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no documents or corpus"):
        verify([str(tmp_path)])
    atomic_files.write_json(tmp_path / atomic_files.MANIFEST, {"stage": "pretrain", "files": {}})
    with pytest.raises(InputError, match="neither of documents nor of a corpus"):
        verify([str(tmp_path)])


def test_a_manifest_without_files_is_refused(corpus):
    rewrite(corpus, lambda manifest: manifest.pop("files"))
    with pytest.raises(InputError, match="files is missing"):
        verify([str(corpus)])


def test_a_manifest_that_contradicts_its_shards_is_refused_at_every_open(corpus):
    rewrite(corpus, lambda manifest: manifest["splits"]["train"].update(tokens=24))
    for read in (lambda: verify([str(corpus)]), lambda: Corpus.open(corpus, "train")):
        with pytest.raises(InputError, match="says 24 train tokens, but its shards have 25"):
            read()


def test_a_fingerprint_of_other_shards_is_refused(corpus):
    rewrite(corpus, lambda manifest: manifest.update(fingerprint="0" * 64))
    with pytest.raises(InputError, match="a fingerprint that is not that of its shards"):
        Corpus.open(corpus, "train")


def reseal(folder, name):
    """A manifest that vouches for a file as it is."""

    def change(manifest):
        path = folder / name
        manifest["files"][name] = {
            "bytes": path.stat().st_size,
            "sha256": atomic_files.sha256(path),
        }

    rewrite(folder, change)


@pytest.mark.parametrize(
    ("lengths", "problem"),
    [([20], "documents do not add up"), ([5, 20], "document does not end with the end's token")],
)
def test_documents_must_fit_the_stream(corpus, lengths, problem):
    name = corpus_manifest.documents_file("train")
    found = np.zeros(len(lengths), np.load(corpus / name).dtype)
    found["tokens"] = lengths
    np.save(corpus / name, found)
    reseal(corpus, name)
    with pytest.raises(InputError, match=problem):
        verify([str(corpus)])


def test_a_token_outside_the_vocabulary_is_found(tmp_path, make_corpus):
    folder = make_corpus(tmp_path / "web", [2, 100, 1], vocabulary=100)
    with pytest.raises(InputError, match="a train token lies outside the vocabulary"):
        verify([str(folder)])


def test_a_tokenizer_that_was_replaced_is_refused(corpus):
    model = corpus.parents[2] / "tokenizers" / "tok.model"
    model.parent.mkdir()
    model.write_bytes(b"pieces")

    def change(manifest):
        manifest["tokenizer"]["sha256"] = atomic_files.sha256(model)
        manifest["inputs"] = {"../../../tokenizers/tok.model": atomic_files.sha256(model)}

    rewrite(corpus, change)
    manifest = atomic_files.read_json(corpus / atomic_files.MANIFEST)
    corpus_manifest.refuse_other_tokenizer(corpus, manifest)
    assert "whole" in verify([str(corpus)])
    model.write_bytes(b"other pieces")
    with pytest.raises(InputError, match=r"was packed with the tokenizer of SHA-256.*tok\.model"):
        corpus_manifest.refuse_other_tokenizer(corpus, manifest)
    with pytest.raises(InputError, match="was packed with the tokenizer"):
        verify([str(corpus)])
    # Moved without its tokenizer, a corpus is as good as before.
    model.unlink()
    corpus_manifest.refuse_other_tokenizer(corpus, manifest)
