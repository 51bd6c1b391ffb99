import itertools
import os
from types import SimpleNamespace

import edits
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pipeline.data.shards import Corpus


def test_a_row_is_its_tokens_and_the_target_of_its_last_one(tmp_path, make_corpus):
    corpus = Corpus.open(make_corpus(tmp_path / "c", range(10)), "train")
    # 10 tokens give (10 - 1) // 3 = 3 rows of 3 tokens; neighbours share one token.
    assert corpus.row_count(3) == 3
    assert corpus.read_rows(np.array([0, 2]), 3).tolist() == [[0, 1, 2, 3], [6, 7, 8, 9]]
    assert corpus.read_rows(np.array([0, 2]), 3).dtype == np.int64
    assert corpus.read_rows(np.array([], np.int64), 3).shape == (0, 4)
    for row in (-1, 3):
        with pytest.raises(AssertionError):
            corpus.read_rows(np.array([row]), 3)


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65_536, "<u2"), (65_537, "<u4")])
def test_a_corpus_says_what_its_manifest_says(tmp_path, make_corpus, vocabulary, dtype):
    folder = make_corpus(tmp_path / "c", range(10), vocabulary=vocabulary, eos=7)
    corpus = Corpus.open(folder, "train")
    assert (corpus.tokens, corpus.vocabulary, corpus.eos) == (10, vocabulary, 7)
    # Ids take two bytes while they fit.
    assert corpus.dtype == np.dtype(dtype)
    assert corpus.fingerprint == corpus.manifest["fingerprint"]
    assert corpus.document_records()["tokens"].tolist() == [10]


@pytest.mark.slow
@settings(deadline=None)
@given(
    tokens=st.lists(st.integers(0, 99), min_size=2, max_size=60),
    shard_tokens=st.integers(1, 25),
    length=st.integers(1, 12),
    cut=st.integers(0, 60),
)
def test_rows_across_shards_equal_the_flat_stream(
    tmp_path_factory, make_corpus, tokens, shard_tokens, length, cut
):
    folder = make_corpus(
        tmp_path_factory.mktemp("property") / "c", tokens, shard_tokens=shard_tokens
    )
    corpus = Corpus.open(folder, "train", verify=True)
    assert len(list(folder.glob("train-*.bin"))) == -(-len(tokens) // shard_tokens)
    rows = corpus.row_count(length)
    assert rows == (len(tokens) - 1) // length
    order = np.arange(rows)[::-1]
    expected = [tokens[i * length : i * length + length + 1] for i in order]
    assert corpus.read_rows(order, length).tolist() == expected
    start, stop = sorted((min(cut, len(tokens)), len(tokens) // 2))
    assert corpus.read_tokens(start, stop).tolist() == tokens[start:stop]


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, make_corpus):
    folder = make_corpus(tmp_path / "c", range(10))
    corpus, shard = Corpus.open(folder, "train", verify=True), folder / "train-00000.bin"
    os.utime(shard)
    corpus.watched.refuse_changed()  # The same bytes at another time.
    times, content = shard.stat(), shard.read_bytes()
    shard.write_bytes(content[:-2] + content[:2])
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(InputError, match=r"train-00000\.bin was changed: .* while it was read"):
            corpus.watched.refuse_changed()
    shard.unlink()
    with pytest.raises(InputError, match="is missing"):
        corpus.watched.refuse_changed()


def test_an_id_outside_the_vocabulary_reaches_no_model(tmp_path, make_corpus):
    folder = make_corpus(tmp_path / "c", range(10))
    edits.values("manifest.json", {"tokenizer/vocabulary": 9})(folder)
    corpus = Corpus.open(folder, "train")
    assert corpus.read_rows(np.array([0]), 8).max() == 8
    for read in (lambda: corpus.read_rows(np.array([0]), 9), lambda: corpus.read_tokens(9, 10)):
        with pytest.raises(InputError, match="holds the token id 9, but the tokenizer has 9 piec"):
            read()


def test_rows_that_come_from_the_disk_are_the_same(tmp_path, make_corpus, monkeypatch):
    # Shards of 7 tokens: rows of 4 lie in one or in two of them.
    corpus = Corpus.open(make_corpus(tmp_path / "c", range(50), shard_tokens=7), "train")
    order, waits = np.array([11, 0, 3]), itertools.count()
    there = corpus.read_rows(order, 4)
    # Whoever looked at the first row had to wait, so that the others are asked for at once.
    monkeypatch.setattr("resource.getrusage", lambda _: SimpleNamespace(ru_majflt=next(waits)))
    assert corpus.read_rows(order, 4).tolist() == there.tolist()
