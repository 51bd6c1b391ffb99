import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation import shared_contexts

DEMONSTRATIONS = list(range(100, 400))


def grouped(contexts):
    found = shared_contexts.groups([np.array(context, np.int64) for context in contexts])
    return sorted((group.members, group.prefix_P.tolist()) for group in found)


def test_what_all_contexts_begin_with_is_shared():
    assert grouped([[1, 2, 3], [1, 2, 4, 5], [1, 2, 3, 3]]) == [([0, 1, 2], [1, 2])]


@pytest.mark.parametrize(
    ("contexts", "prefix"),
    [
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


def test_no_contexts_make_no_groups():
    assert shared_contexts.groups([]) == []


def test_contexts_that_dropped_a_demonstration_are_read_apart():
    # Behind the 1 that all share, three that begin with 250 tokens more save 3 * 250 - 251, which
    # is too little; four save 749.
    whole = [[1, *DEMONSTRATIONS, n] for n in range(4)]
    dropped = [[1, *DEMONSTRATIONS[50:], n] for n in range(4)]
    assert shared_contexts.WORTH_TOKENS == 512
    assert grouped([*whole, *dropped]) == [
        ([0, 1, 2, 3], [1, *DEMONSTRATIONS]),
        ([4, 5, 6, 7], [1, *DEMONSTRATIONS[50:]]),
    ]
    assert grouped([*whole, *dropped[:3]]) == [
        ([0, 1, 2, 3], [1, *DEMONSTRATIONS]),
        ([4, 5, 6], [1]),
    ]


def test_a_worthwhile_group_is_found_within_one_that_is_not():
    # (1, 2) is shared by all but one, the demonstrations by all but two.
    contexts = [[1, 3], [1, 2, 3], *([1, 2, *DEMONSTRATIONS, n] for n in range(3))]
    assert grouped(contexts) == [([0, 1], [1]), ([2, 3, 4], [1, 2, *DEMONSTRATIONS])]


@pytest.mark.slow
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=30),
    st.integers(0, 12),
)
def test_every_context_is_in_one_group_and_begins_with_its_prefix(contexts, worth):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_contexts, "WORTH_TOKENS", worth)
        found = grouped(contexts)
    assert sorted(i for members, _ in found for i in members) == list(range(len(contexts)))
    for members, prefix in found:
        for member in members:
            assert contexts[member][: len(prefix)] == prefix
            assert len(contexts[member]) > len(prefix)


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=30))
def test_groups_never_read_more_tokens_than_one(contexts):
    def tokens(found):
        own = sum(len(contexts[i]) - len(prefix) for members, prefix in found for i in members)
        return own + sum(len(prefix) for _, prefix in found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_contexts, "WORTH_TOKENS", 10**9)
        together = grouped(contexts)
        patch.setattr(shared_contexts, "WORTH_TOKENS", 8)
        apart = grouped(contexts)
    assert len(together) <= 1
    assert tokens(apart) <= tokens(together)
