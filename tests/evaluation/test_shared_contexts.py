import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation import shared_contexts

DEMONSTRATIONS = list(range(100, 400))


def grouped(contexts):
    found = shared_contexts.groups([np.array(context, np.int64) for context in contexts])
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
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=30),
    st.integers(1, 9),
)
def test_every_context_is_in_one_group_and_begins_with_its_prefix(contexts, beginning):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_contexts, "BEGINNING_TOKENS", beginning)
        patch.setattr(shared_contexts, "FEWEST", 3)
        found = grouped(contexts)
    assert sorted(i for members, _ in found for i in members) == list(range(len(contexts)))
    for members, prefix in found:
        for member in members:
            assert contexts[member][: len(prefix)] == prefix
            assert len(contexts[member]) > len(prefix)
