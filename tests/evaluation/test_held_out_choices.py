import dataclasses

import hand_corpora
import numpy as np
import pytest

from pipeline.evaluation import held_out_choices
from pipeline.evaluation.held_out_choices import Choice

ALL = np.ones(64, bool)
SMALL = Choice(items=30, context=6, candidate=4)


def texts(count, length, seed=0):
    return np.random.default_rng(seed).integers(2, 64, (count, length)).tolist()


TEXTS = texts(12, 60)


@pytest.fixture
def built(packed):
    """Items of documents, beside a training text; settings are laid over `SMALL`."""

    def make(documents, word_start_V=ALL, *, train=((2, 3) * 8,), shard_tokens=1000, **choice):
        corpora = packed(documents, train, shard_tokens=shard_tokens)
        return held_out_choices.build_items(
            *corpora, dataclasses.replace(SMALL, **choice), word_start_V
        )

    return make


def places(document, stretch):
    """Where a stretch of tokens begins in a document."""
    size = len(stretch)
    stretch = [int(t) for t in stretch]
    return [i for i in range(len(document) - size + 1) if document[i : i + size] == stretch]


def documents_of(made):
    """The text of each item's document, of `TEXTS`."""
    by_name = {hand_corpora.name_of(text): text for text in TEXTS}
    return [by_name[name] for name in made.documents]


@pytest.mark.parametrize("source", ["same", "other"])
def test_the_true_continuation_follows_its_context(built, source):
    made = built(TEXTS, distractors_from=source)
    assert made.context_IxC.shape == (30, 6)
    assert made.candidate_IxNxW.shape == (30, 4, 4)
    for number, document in enumerate(documents_of(made)):
        true = made.candidate_IxNxW[number, made.gold_I[number]]
        assert len(places(document, [*made.context_IxC[number], *true])) == 1


def test_distractors_come_from_elsewhere_in_the_same_document(built):
    made = built(TEXTS)
    for number, document in enumerate(documents_of(made)):
        gold = made.gold_I[number]
        true = made.candidate_IxNxW[number, gold]
        begin = places(document, [*made.context_IxC[number], *true])[0]
        taken = [(begin, begin + 10)]
        for index in set(range(4)) - {int(gold)}:
            (place,) = places(document, made.candidate_IxNxW[number, index])
            assert all(place >= end or place + 4 <= start for start, end in taken)
            taken.append((place, place + 4))


def test_easy_distractors_come_from_three_other_documents(built):
    made = built(TEXTS, items=12, distractors_from="other")
    for number, document in enumerate(documents_of(made)):
        false = [c for n, c in enumerate(made.candidate_IxNxW[number]) if n != made.gold_I[number]]
        assert not any(places(document, c) for c in false)
        assert len({i for c in false for i, text in enumerate(TEXTS) if places(text, c)}) == 3


def test_long_items_are_made_of_long_documents(built):
    # 4000 + 4 x 50 tokens are more than is read of a document for short held_out_choices.
    made = built(texts(4, 9000), context=4000, candidate=50)
    assert len(set(made.documents)) == 4
    long = dataclasses.replace(SMALL, context=4000, candidate=50)
    assert made.document_minimum_problem(long) is None


def test_items_of_one_document_do_not_overlap(built):
    made = built(texts(4, 120))
    ends = {}
    for name in made.names:
        document, gold = name.split("-")
        ends.setdefault(document, []).append(int(gold))
    assert max(map(len, ends.values())) > 3
    for golds in ends.values():
        assert np.diff(sorted(golds)).min() >= 10


@pytest.mark.parametrize(("wanted", "documents"), [(8, 8), (14, 12)])
def test_every_document_gives_one_item_before_any_gives_two(built, wanted, documents):
    assert len(set(built(texts(12, 60), items=wanted).documents)) == documents


def test_no_candidate_occurs_in_the_training_text(built):
    # All but the last twenty tokens of each document are training text too.
    made = built(TEXTS, train=[text[:40] for text in TEXTS], distractors=2)
    assert len(made.names) >= 12
    for candidates in made.candidate_IxNxW:
        for candidate in candidates:
            assert not any(places(text[:40], candidate) for text in TEXTS)


def test_a_document_that_is_all_training_text_gives_no_item(built):
    assert len(set(built(TEXTS, train=TEXTS[:5]).documents)) == 7


def test_candidates_begin_where_words_do(built):
    made = built(texts(12, 80), np.arange(64) % 4 == 0)
    assert len(made.names)
    assert (made.candidate_IxNxW[:, :, 0] % 4 == 0).all()


def test_a_language_without_words_is_cut_anywhere(built):
    only_one_piece = np.arange(64) == 5
    made = built(texts(12, 80), only_one_piece)
    assert len(np.unique(made.candidate_IxNxW[:, :, 0])) > 20


@pytest.mark.slow
@pytest.mark.parametrize("source", ["same", "other"])
def test_the_same_candidate_is_not_offered_twice(built, source):
    # Few symbols: stretches of three occur again and again.
    documents = np.random.default_rng(3).integers(2, 5, (40, 60)).tolist()
    sizes = {"items": 40, "context": 5, "candidate": 3}
    made = built(documents, train=[[60] * 16], **sizes, distractors_from=source)
    assert len(made.names) == 40
    for candidates in made.candidate_IxNxW:
        assert len(np.unique(candidates, axis=0)) == 4


@pytest.mark.slow
def test_the_true_one_stands_anywhere(built):
    made = built(texts(400, 30), items=400)
    # 100 expected at each place, standard deviation 8.7.
    assert np.bincount(made.gold_I).tolist() == pytest.approx([100] * 4, abs=30)


def test_items_are_a_function_of_the_texts_alone(built):
    first, turned = built(TEXTS), built(TEXTS[::-1], shard_tokens=100)
    assert first.digest == turned.digest
    assert first.names == turned.names
    assert built(texts(12, 60, seed=1)).digest != first.digest


def test_the_items_of_a_known_corpus_stay_what_they_are(built):
    documents = [[2 + (7 * d + i * i) % 61 for i in range(50)] for d in range(8)]
    assert built(documents, items=8).digest[:16] == "aa1549c5a7311f5a"


def test_a_text_that_occurs_twice_is_asked_once(built):
    assert built(TEXTS[:5]).digest == built(TEXTS[:5] * 2).digest


@pytest.mark.parametrize(("long", "enough"), [(0, False), (3, False), (4, True)])
def test_a_domain_of_few_long_documents_has_no_task(built, long, enough):
    # An item of the same document needs 6 + 4 * 4 = 22 tokens.
    shortage = built(texts(long, 40) + texts(20, 21, seed=1)).document_minimum_problem(SMALL)
    if enough:
        assert shortage is None
    else:
        assert f"from {long} validation documents" in shortage
        assert "22 tokens" in shortage
