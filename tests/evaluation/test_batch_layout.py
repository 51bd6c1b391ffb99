import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation import log_likelihoods
from pipeline.evaluation.log_likelihoods import row, side_by_side


def laid_out(context, candidates, shared=0):
    arrays = [np.array(candidate, np.int64) for candidate in candidates]
    return row(np.array(context, np.int64), arrays, shared)


def test_a_row_by_hand():
    # a = 1, b = 2 and so on: the example of the module.
    made = laid_out([1, 2, 3], [[4, 5, 6], [7, 8]], shared=1)
    assert made.token_L.tolist() == [2, 3, 4, 5, 7]
    assert made.position_L.tolist() == [1, 2, 3, 4, 3]
    assert made.block_L.tolist() == [0, 0, 1, 1, 2]
    # At c, d and e of the first and g of the second candidate.
    assert made.places == 4
    assert made.place_N.tolist() == [0, 0, 1, 2, 3]
    assert made.target_N.tolist() == [4, 7, 5, 6, 8]
    assert made.candidate_N.tolist() == [0, 1, 0, 0, 1]


def test_rows_are_padded_on_the_right_and_counted_through():
    made = side_by_side([laid_out([1], [[3], [4]]), laid_out([5], [[6], [7, 8, 9]])])
    assert made.token_BxL.tolist() == [[1, 1, 1], [5, 7, 8]]
    assert made.position_BxL.tolist() == [[0, 0, 0], [0, 1, 2]]
    assert made.block_BxL.tolist() == [[0, -1, -1], [0, 2, 2]]
    assert made.scored_BxL.tolist() == [[True, False, False], [True, True, True]]
    assert made.place_N.tolist() == [0, 0, 1, 1, 2, 3]
    assert made.target_N.tolist() == [3, 4, 6, 7, 8, 9]
    assert made.candidate_N.tolist() == [0, 1, 2, 3, 3, 3]
    assert made.candidates == 4


# What is read together.

DEMONSTRATIONS = list(range(100, 400))


def grouped(contexts):
    found = log_likelihoods.groups([np.array(context, np.int64) for context in contexts])
    return sorted((group.members, group.prefix_P.tolist()) for group in found)


@pytest.mark.parametrize(
    ("contexts", "prefix"),
    [
        ([[1, 2, 3], [1, 2, 4, 5], [1, 2, 3, 3]], [1, 2]),
        ([[1, 2], [3, 4]], []),
        ([[1, 2], [1, 3]], [1]),
        # One token of each context is left over, where it is all shared too.
        ([[1, 2, 3], [1, 2, 3]], [1, 2]),
        ([[1, 2, 3], [1, 2, 3, 4]], [1, 2]),
        ([[1], [1, 2]], []),
        ([[1], [1]], []),
        ([[1, 2, 3]], [1, 2]),
    ],
)
def test_prefixes_by_hand(contexts, prefix):
    assert grouped(contexts) == [(list(range(len(contexts))), prefix)]


def test_contexts_that_dropped_a_demonstration_are_read_apart():
    whole = [[1, *DEMONSTRATIONS, n] for n in range(8)]
    dropped = [[1, *DEMONSTRATIONS[50:], n] for n in range(8)]
    alone = [[1]] * 8
    assert grouped([*whole, *dropped, *alone]) == [
        (list(range(8)), [1, *DEMONSTRATIONS]),
        (list(range(8, 16)), [1, *DEMONSTRATIONS[50:]]),
        (list(range(16, 24)), []),
    ]
    # Seven of a kind are no group of their own.
    assert grouped([*whole, *dropped[:6], [1, 2]]) == [
        (list(range(8)), [1, *DEMONSTRATIONS]),
        (list(range(8, 15)), [1]),
    ]


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=30), st.integers(1, 9)
)
def test_every_context_is_in_one_group_and_begins_with_its_prefix(contexts, beginning):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_likelihoods, "BEGINNING_TOKENS", beginning)
        patch.setattr(log_likelihoods, "FEWEST", 3)
        found = grouped(contexts)
    assert sorted(i for members, _ in found for i in members) == list(range(len(contexts)))
    for members, prefix in found:
        for member in members:
            assert contexts[member][: len(prefix)] == prefix
            assert len(contexts[member]) > len(prefix)
