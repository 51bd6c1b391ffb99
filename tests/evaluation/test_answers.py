"""A model's answers: by hand, by models of known behaviour, and by single forward passes."""

import math

import numpy as np
import pytest
import torch
from test_log_likelihoods import alone

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.evaluation import answers, held_out_choices
from pipeline.evaluation.answers import CONTINUATION, DOWNSTREAM, QuestionSet
from pipeline.evaluation.held_out_choices import Choice
from pipeline.evaluation.prompt_encoding import EncodedItem
from pipeline.evaluation.questions import task_questions
from pipeline.model.transformer import initial_model
from pipeline.tasks.prepared_task import prepare_task

ALL = np.ones(64, bool)
EOS = 1
NANO = settings.Model(2, 16, 2, 8)


def item(gold, texts, tokens, context=(1,)):
    """An item whose candidates have so many tokens, or just these."""
    return EncodedItem(
        id="i",
        cluster="c",
        gold=gold,
        context_C=context,
        candidates=tuple((7,) * n if isinstance(n, int) else n for n in tokens),
        unconditional_C=(1,),
        characters=tuple(map(len, texts)),
        bytes=tuple(len(text.encode()) for text in texts),
        shots=0,
    )


def question_set(items, metrics):
    return QuestionSet("name", "t", 0, "cf", metrics, items, {})


def graded(asked, sums, alone, metrics=DOWNSTREAM):
    told = ([np.array(v, float) for v in values] for values in (sums, alone))
    return answers.grade_answers(question_set(asked, metrics), *told)


def accuracies(asked, sums, alone, metrics=DOWNSTREAM):
    found = graded(asked, sums, alone, metrics).accuracy
    return {name: value for name, (value, _) in found.items()}


# By hand.


def test_every_normalisation_by_hand():
    # Candidates of 1, 1 and 4 tokens, of 1, 2 and 4 characters, of 1, 4 and 4 bytes.
    texts, tokens = ["a", "éé", "cccc"], [1, 1, 4]
    sums, alone = [-3.0, -3.5, -8.0], [-1.0, -3.2, -7.5]
    asked = [item(gold, texts, tokens) for gold in range(3)]
    found = [accuracies([one], [sums], [alone]) for one in asked]
    right = {name: [value[name] for value in found].index(100) for name in DOWNSTREAM}
    assert right == {
        "per_token": 2,  # -3, -3.5, -2
        "sum": 0,
        "per_character": 1,  # -3, -1.75, -2
        "per_byte": 1,  # -3, -0.875, -2
        "per_character_olmes": 1,  # -1.5, -1.167, -1.6
        "unconditional": 1,  # -2, -0.3, -0.5
    }
    assert all(sum(value[name] for value in found) == 100 for name in DOWNSTREAM)
    assert graded(asked[:1], [sums], [alone]).pick_I.tolist() == [2]


def test_items_may_have_different_numbers_of_options():
    asked = [item(2, "abc", [1] * 3), item(4, "abcde", [1] * 5), item(0, "ab", [1] * 2)]
    sums = [[-3, -2, -1], [-5, -4, -3, -2, -1], [-2, -1]]
    found = graded(asked, sums, [np.zeros(len(s)) for s in sums])
    assert found.pick_I.tolist() == [2, 4, 1]
    # All of one cluster, of which there is no error.
    assert found.accuracy["per_token"] == (pytest.approx(200 / 3), None)


def test_overlap_counts_tokens_shared_with_the_context():
    # Of (5, 5) both, of (6, 7) one occurs in (5, 6).
    one = item(0, "ab", [(5, 5), (6, 7)], context=(5, 6))
    found = accuracies([one], [[-1, -9]], [[-1, -1]], CONTINUATION)
    assert found == {"pmi": 100, "raw": 100, "answer_only": 50, "overlap": 100}


# Items made from corpora, and models of known behaviour.


def of_corpus(packed, documents, **choice):
    made = held_out_choices.build_items(
        *packed(documents), Choice(**{"candidate": 4, **choice}), ALL
    )
    return question_set(made.encoded_items(unconditional_token=EOS), CONTINUATION)


def noise(packed, count=300):
    """Items of a language in which every symbol is as likely as any other, whatever came before."""
    documents = np.random.default_rng(0).integers(2, 64, (count, 60)).tolist()
    return of_corpus(packed, documents, items=count, context=12, candidate=8)


def answered(model, asked, budget=512):
    return answers.ask_model(model, asked, batch_tokens=budget)


def test_a_model_that_can_count_is_always_right(packed, counter):
    # Each document counts upwards from a place of its own, so every stretch does: only the
    # context tells which one is next. (None has a 2, which the model expects after EOS, 1.)
    documents = [list(range(start, start + 50)) for start in range(3, 15)]
    asked = of_corpus(packed, documents, items=40, context=6)
    found = answered(counter, asked)
    assert found.accuracy["pmi"] == found.accuracy["raw"] == (100.0, 0.0)
    assert found.pick_I.tolist() == [one.gold for one in asked.items]
    assert found.accuracy["answer_only"][0] < 50


def test_a_model_that_copies_wins_where_the_words_give_the_topic_away(packed, copier):
    # Each document uses five symbols of its own.
    random = np.random.default_rng(0)
    documents = [(2 + 5 * d + random.integers(0, 5, 60)).tolist() for d in range(12)]
    easy, hard = (
        answered(copier, of_corpus(packed, documents, items=24, context=20, distractors_from=place))
        for place in ("other", "same")
    )
    assert easy.accuracy["pmi"][0] == easy.accuracy["overlap"][0] == 100.0
    assert hard.accuracy["pmi"][0] < 60


@pytest.mark.slow
def test_noise_cannot_be_guessed(packed, copier, counter):
    asked = noise(packed)
    for model in (copier, counter, *(initial_model(NANO, 64, seed) for seed in range(3))):
        for value, stderr in answered(model, asked, budget=4096).accuracy.values():
            assert abs(value - 25) < 3 * stderr


# Downstream tasks.


@pytest.fixture(scope="session")
def questions(benchmarks, tokenizer, asked):
    """The questions of a task; `asked` says how."""

    def make(*way, **more):
        return task_questions(prepare_task(benchmarks, asked(*way, **more)), tokenizer, 10**6)

    return make


@pytest.fixture(scope="session")
def model(tokenizer):
    return initial_model(NANO, tokenizer.vocabulary, 0)


def test_sums_are_those_of_the_model_read_one_by_one(questions, model, packed):
    small = initial_model(NANO, 64, 0)
    for net, asked in ((model, questions("csqa", 2, items=3)), (small, noise(packed, 20))):
        found = answered(net, asked)
        for one, sums, without in zip(asked.items, found.sums, found.alone, strict=True):
            for context, values in ((one.context_C, sums), (one.unconditional_C, without)):
                expected = [alone(net, context, c) for c in one.candidates]
                np.testing.assert_allclose(values, expected, atol=1e-4)


def test_a_model_that_diverged_is_named_with_the_task(questions, tokenizer):
    broken = initial_model(NANO, tokenizer.vocabulary, 0)
    torch.nn.init.constant_(broken.embedding.weight, math.nan)
    with pytest.raises(InputError, match=r"^piqa, 0-shot, cf: question 0.*diverged"):
        answered(broken, questions("piqa"))


def test_a_model_that_knows_nothing_has_exactly_chance(packed, constant):
    found = answered(constant, noise(packed, 40))
    for metric in ("pmi", "raw", "answer_only"):
        assert found.accuracy[metric][0] == 25.0
    assert np.stack(found.sums) == pytest.approx(-8 * math.log(64), rel=1e-6)
