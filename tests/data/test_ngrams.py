from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.data import ngrams
from pipeline.data.shards import Corpus

BASE = 0x9E3779B97F4A7C15


@pytest.mark.parametrize("width", [1, 2, 3, 7, 16, 20, 21])
def test_a_hash_is_the_polynomial_of_its_window(width):
    tokens = np.arange(20) ** 3 % 17
    found = ngrams.window_hashes(tokens, width)
    assert len(found) == 20 - width + 1
    for start, value in enumerate(found):
        expected = 0
        for token in tokens[start : start + width]:
            expected = (expected * BASE + int(token)) % 2**64
        assert int(value) == expected


@pytest.mark.slow
@given(
    stream=st.lists(st.integers(2, 5), min_size=1, max_size=60),
    asked=st.lists(st.integers(2, 5), min_size=1, max_size=30),
    width=st.integers(1, 6),
    chunk=st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_windows_are_found_across_pieces_and_shards(
    tmp_path_factory, make_corpus, stream, asked, width, chunk
):
    asked = np.array(asked)
    folder = tmp_path_factory.mktemp("property") / "c"
    corpus = Corpus.open(make_corpus(folder, [*stream, 1], shard_tokens=7), "train")
    with mock.patch.object(ngrams, "CHUNK_TOKENS", chunk):
        found = ngrams.occurrence_mask(ngrams.window_hashes(asked, width), corpus, width)
    there = {tuple(stream[i : i + width]) for i in range(len(stream) - width + 1)}
    windows = [tuple(asked[i : i + width].tolist()) for i in range(len(asked) - width + 1)]
    assert found.tolist() == [window in there for window in windows]
