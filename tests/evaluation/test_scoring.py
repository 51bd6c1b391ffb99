import math

import numpy as np
import pytest
import torch

from pipeline import settings
from pipeline.evaluation import scoring
from pipeline.model import initialised

CPU = torch.device("cpu")


@pytest.fixture
def model():
    return initialised(settings.Model(2, 16, 2, 8), 64, seed=1)


@pytest.fixture
def requests():
    """Forty requests with prefixes of 1-9 and continuations of 1-6 tokens."""
    random = np.random.default_rng(0)
    sizes = random.integers(1, [10, 7], (40, 2))
    return [tuple(random.integers(2, 64, size) for size in pair) for pair in sizes]


def alone(model, prefix, continuation):
    """The definition: one forward pass over everything, one sum."""
    tokens = torch.from_numpy(np.concatenate([prefix, continuation]))
    with torch.no_grad():
        log_p_LxV = torch.log_softmax(model(tokens[None, :-1])[0], dim=-1)
    at = range(len(prefix) - 1, len(tokens) - 1)
    return sum(float(log_p_LxV[i, tokens[i + 1]]) for i in at)


def test_a_model_that_knows_nothing_gives_every_token_one_in_v(constant):
    requests = [(np.array([5]), np.array([6, 7])), (np.array([5, 6]), np.array([7]))]
    found = scoring.log_likelihoods(constant, requests, batch_tokens=100, device=CPU)
    assert found.tolist() == pytest.approx([-2 * math.log(64), -math.log(64)])


def test_values_are_those_of_each_request_alone(model, requests):
    found = scoring.log_likelihoods(model, requests, batch_tokens=64, device=CPU)
    expected = [alone(model, *request) for request in requests]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("budget", [1, 16, 50, 10_000])
def test_neither_budget_nor_order_changes_a_value(model, requests, budget):
    expected = scoring.log_likelihoods(model, requests, batch_tokens=100, device=CPU)
    order = np.random.default_rng(budget).permutation(len(requests))
    shuffled = [requests[i] for i in order]
    found = scoring.log_likelihoods(model, shuffled, batch_tokens=budget, device=CPU)
    np.testing.assert_allclose(found, expected[order], atol=1e-5)


def test_batches_keep_within_the_budget_and_lose_nothing():
    lengths = [3, 9, 1, 4, 4, 20]
    batches = list(scoring._batches(lengths, 10))
    assert batches == [[5], [1], [3, 4], [0, 2]]
