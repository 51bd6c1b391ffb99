import math

import numpy as np
import pytest
import torch

from pipeline import settings
from pipeline.evaluation import choice, items
from pipeline.evaluation.items import Choice, DomainItems
from pipeline.model.transformer import initialised, token_losses

CPU = torch.device("cpu")
ALL = np.ones(64, bool)
EOS = 1
NANO = settings.Model(2, 16, 2, 8)


def answers(model, made, budget=512):
    return choice.answer(model, made, EOS, batch_tokens=budget, device=CPU)


def noise(packed, count=300):
    """Items of a language in which every symbol is as likely as any other, whatever came before."""
    documents = np.random.default_rng(0).integers(2, 64, (count, 60)).tolist()
    return items.build(*packed(documents), Choice(items=count, context=12, candidate=8), ALL)


def by_hand(golds, documents):
    """Items of two candidates; the context is (5, 6)."""
    count = len(golds)
    return DomainItems(
        names=[str(n) for n in range(count)],
        documents=documents,
        context_IxC=np.array([[5, 6]] * count),
        candidate_IxNxW=np.array([[[5, 5], [6, 7]]] * count),
        gold_I=np.array(golds),
        digest="",
    )


def test_the_model_is_asked_with_and_without_the_context():
    asked = choice.questions(by_hand([0], ["a"]), EOS)
    assert [(list(q.context_C), q.candidates.tolist()) for q in asked] == [
        ([5, 6], [[5, 5], [6, 7]]),
        ([1], [[5, 5], [6, 7]]),
    ]


def test_scores_are_those_of_each_candidate_alone(packed):
    model, made = initialised(NANO, 64, seed=0), noise(packed, 20)
    found = answers(model, made)
    for item, candidate in np.ndindex(made.candidate_IxNxW.shape[:2]):
        behind = made.candidate_IxNxW[item, candidate]
        for context, value_IxN in (
            (made.context_IxC[item], found.conditional_IxN),
            ([EOS], found.unconditional_IxN),
        ):
            tokens = torch.tensor([*context, *behind])
            with torch.no_grad():
                nll = token_losses(model, tokens[None])[0, -len(behind) :].sum().item()
            assert value_IxN[item, candidate] == pytest.approx(-nll, abs=1e-4)


def test_a_model_that_knows_nothing_has_exactly_chance(packed, constant):
    made = noise(packed, 40)
    found = answers(constant, made)
    for metric in ("pmi", "raw", "answer_only"):
        assert found.accuracy[metric][0] == 25.0
    assert found.conditional_IxN == pytest.approx(-8 * math.log(64), rel=1e-6)


def test_a_model_that_can_count_is_always_right(packed, counter):
    # Each document counts upwards from a place of its own, so every stretch does: only the
    # context tells which one is next. (None has a 2, which the model expects after EOS, 1.)
    documents = [list(range(start, start + 50)) for start in range(3, 15)]
    held_out, train = packed(documents)
    made = items.build(held_out, train, Choice(items=40, context=6, candidate=4), ALL)
    found = answers(counter, made)
    assert found.accuracy["pmi"] == (100.0, 0.0)
    assert found.accuracy["raw"] == (100.0, 0.0)
    assert found.pick_I.tolist() == made.gold_I.tolist()
    assert found.accuracy["answer_only"][0] < 50


def test_a_model_that_copies_wins_where_the_words_give_the_topic_away(packed, copier):
    # Each document uses five symbols of its own.
    random = np.random.default_rng(0)
    documents = [(2 + 5 * d + random.integers(0, 5, 60)).tolist() for d in range(12)]
    easy = Choice(items=24, context=20, candidate=4, distractors_from="other")
    found = answers(copier, items.build(*packed(documents), easy, ALL))
    assert found.accuracy["pmi"][0] == 100.0
    assert found.accuracy["overlap"][0] == 100.0
    hard = Choice(items=24, context=20, candidate=4, distractors_from="same")
    found = answers(copier, items.build(*packed(documents), hard, ALL))
    assert found.accuracy["pmi"][0] < 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_untrained_model_is_at_chance(packed, seed):
    found = answers(initialised(NANO, 64, seed), noise(packed), budget=4096)
    for value, stderr in found.accuracy.values():
        assert 1 < stderr < 4
        assert abs(value - 25) < 3 * stderr


@pytest.mark.slow
def test_noise_cannot_be_guessed_by_copying_or_counting(packed, copier, counter):
    made = noise(packed)
    for model in (copier, counter):
        for value, stderr in answers(model, made, budget=4096).accuracy.values():
            assert abs(value - 25) < 3 * stderr


def test_the_budget_changes_no_pick(packed):
    model, made = initialised(NANO, 64, seed=0), noise(packed, 40)
    one, every = answers(model, made, budget=64), answers(model, made, budget=10**6)
    np.testing.assert_allclose(one.conditional_IxN, every.conditional_IxN, atol=1e-4)
    np.testing.assert_allclose(one.unconditional_IxN, every.unconditional_IxN, atol=1e-4)
    assert one.pick_I.tolist() == every.pick_I.tolist()
    assert one.accuracy == every.accuracy


def test_overlap_counts_tokens_shared_with_the_context():
    # Of (5, 5) both, of (6, 7) one occurs in (5, 6).
    assert choice.overlap(by_hand([0], ["a"])).tolist() == [[2.0, 1.0]]


def test_an_accuracy_and_its_error_by_hand():
    # The first is right in documents a and b, both say the second in c: 3 of 4 items right.
    made = by_hand([0, 0, 0, 1], ["a", "a", "b", "c"])
    score_IxN = np.array([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    value, stderr = choice.graded(score_IxN, made)
    assert value == 75.0
    # Residuals 2 - 0.75 * 2, 1 - 0.75 and 0 - 0.75.
    squares = 0.5**2 + 0.25**2 + 0.75**2
    assert stderr == pytest.approx(100 * math.sqrt(3 / 2 * squares) / 4)


def test_candidates_with_the_same_score_share_the_point():
    value, _ = choice.graded(np.array([[1.0, 1.0], [0.0, 1.0]]), by_hand([0, 1], ["a", "b"]))
    assert value == 75.0
