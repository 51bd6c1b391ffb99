import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.evaluation import log_likelihoods
from pipeline.evaluation.log_likelihoods import Question
from pipeline.model.transformer import initial_model

VOCABULARY = 64


@pytest.fixture
def model():
    return initial_model(settings.Model(2, 16, 2, 8), 64, seed=1)


def alone(model, prefix, continuation):
    """The definition: one forward pass over everything, one sum."""
    tokens = torch.from_numpy(np.concatenate([prefix, continuation]))
    with torch.no_grad():
        log_p_LxV = torch.log_softmax(model(tokens[None, :-1])[0], dim=-1)
    at = range(len(prefix) - 1, len(tokens) - 1)
    return sum(float(log_p_LxV[i, tokens[i + 1]]) for i in at)


def score(model, questions, budget=512):
    return log_likelihoods.score_questions(model, questions, batch_tokens=budget)


def naive(model, question):
    """Each candidate in a forward pass of its own, behind the whole context."""
    return [alone(model, question.context_C, candidate) for candidate in question.candidates]


def drawn(seed, count, shared, *, own=9, longest=7, candidates=5):
    """Questions of random lengths whose contexts begin with the same `shared` tokens."""
    random = np.random.default_rng(seed)

    def tokens(low, high):
        return random.integers(2, VOCABULARY, random.integers(low, high + 1))

    start = tokens(shared, shared)
    return [
        Question(
            np.concatenate([start, tokens(1, own)]),
            [tokens(1, longest) for _ in range(random.integers(1, candidates + 1))],
        )
        for _ in range(count)
    ]


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    shared=st.integers(0, 12),
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    budget=st.sampled_from([1, 40, 300]),
)
@hypothesis_settings(max_examples=20, deadline=None)
def test_scores_are_those_of_a_naive_scorer(seed, shared, layers, heads, budget):
    """Of three contexts and more with the same four tokens at the start these are read once."""
    shape = settings.Model(layers, 16, heads, 8)
    model = initial_model(shape, VOCABULARY, seed)
    questions = drawn(seed, 5, shared) + drawn(seed + 1, 4, shared)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_likelihoods, "BEGINNING_TOKENS", 4)
        patch.setattr(log_likelihoods, "FEWEST", 3)
        scored = score(model, questions, budget)
    for found, question in zip(scored, questions, strict=True):
        np.testing.assert_allclose(found, naive(model, question), atol=1e-4, rtol=0)


def test_no_token_is_read_twice_and_none_that_predicts_nothing(model):
    # Two shared tokens; one and two of the contexts' own; of candidates all but the last.
    read = []
    model.embedding.register_forward_hook(lambda *given: read.append(given[1][0].flatten()))
    questions = [Question([5, 6, 7], [[8, 9], [3]]), Question([5, 6, 8, 9], [[3, 4, 5], [7, 6]])]
    score(model, questions, budget=1)
    assert sorted(torch.cat(read).tolist()) == [3, 4, 5, 6, 7, 7, 8, 8, 9]


def test_models_of_known_behaviour_score_as_computed_by_hand(counter, copier, constant):
    question = [Question([5, 6, 7], [[8, 9], [5, 6], [8]])]
    other = math.log(math.exp(5) + 63)
    # After 7 the counter expects 8, then 9; 5 is a surprise, and 6 behind it is not.
    assert score(counter, question)[0] == pytest.approx([10 - 2 * other, 5 - 2 * other, 5 - other])
    # The copier expects each of the three it has seen, and of four once it has seen an 8.
    three, four = (math.log(n * math.exp(5) + 64 - n) for n in (3, 4))
    assert score(copier, question)[0] == pytest.approx([-three - four, 10 - 2 * three, -three])
    assert score(constant, question)[0].tolist() == pytest.approx(
        [-2 * math.log(64), -2 * math.log(64), -math.log(64)]
    )


def test_the_log_sum_exp_is_in_float32_whatever_the_model_is(constant):
    # Next to ln 64 = 4.1589 bfloat16 has nothing nearer than 4.15625.
    found = score(constant.bfloat16(), [Question([5], [[6, 7]])])
    assert found[0].dtype == np.float64
    assert found[0].tolist() == pytest.approx([-2 * math.log(64)], abs=1e-6)


PRODUCTS = ("aten.matmul", "aten.mm", "mkldnn._linear")


class Logits(TorchDispatchMode):
    """Rows of every tensor made that has a column per piece."""

    def __init__(self, vocabulary):
        super().__init__()
        self.vocabulary, self.products, self.others = vocabulary, [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        logits = isinstance(out, torch.Tensor) and out.shape[-1:] == (self.vocabulary,)
        if logits and not out._is_view():
            made = self.products if str(func).startswith(PRODUCTS) else self.others
            made.append(out.numel() // self.vocabulary)
        return out


@pytest.mark.slow
def test_logits_are_made_for_scored_places_alone_and_a_few_at_a_time(monkeypatch):
    # Thirty shared tokens and more, ten places at a time: never tokens x vocabulary.
    vocabulary = 5000
    monkeypatch.setattr(log_likelihoods, "LOGITS_AT_ONCE", 10 * vocabulary)
    model, questions = initial_model(settings.Model(1, 8, 1, 8), vocabulary, 0), drawn(6, 10, 30)
    with Logits(vocabulary) as seen:
        score(model, questions)
    # The last token of each context, and all but the last of each candidate.
    places = sum(1 + sum(len(c) - 1 for c in q.candidates) for q in questions)
    assert sum(seen.products) == places
    assert max(seen.products) == 10
    assert max(seen.others) == 10


def test_nothing_asked_is_nothing_answered(model):
    assert score(model, []) == []
    assert score(model, [Question([5], [])])[0].tolist() == []


def test_a_question_that_breaks_the_model_does_not_take_others_with_it(model):
    # Only the token 60 breaks it where it is read; the head is spared.
    head = model.embedding.weight.detach().clone()
    with torch.no_grad():
        model.embedding.weight[60] = math.nan
    model.embedding = Embedding(model.embedding, head)
    questions = [Question([5, 6], [[7, 8], [9]]), Question([5, 7, 60], [[6, 7]])]
    with pytest.raises(InputError, match=r"question 1: the log-.* not all finite"):
        score(model, questions)
    assert len(score(model, questions[:1])) == 1


class Embedding(torch.nn.Module):
    """Reads with one matrix, predicts with another."""

    def __init__(self, inside, weight):
        super().__init__()
        self.inside, self.weight = inside, weight

    def forward(self, tokens):
        return self.inside(tokens)
