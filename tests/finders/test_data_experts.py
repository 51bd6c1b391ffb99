"""Mixtures from predictions of models of one domain each: MDE and MixMin."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from known_law import grid
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders import mixmin
from pike_mixing.finders.data_experts import MDE, Features
from pike_mixing.finders.interface import Proxy, Swarm

DOMAINS = ("code", "prose", "web")
random = np.random.default_rng(0)
WORDS_KxV = random.dirichlet(np.full(12, 0.4), 3) * 0.9 + 0.1 / 12
"""Domains of independent words: the model that is as good as its data gives each its share."""
TOKENS_KxE = np.stack([random.choice(12, 4000, p=p) for p in WORDS_KxV])


def losses(weights_SxK):
    """Of models of each mixture on each domain, nats per token: [S, K]."""
    predicted_SxV = weights_SxK @ WORDS_KxV
    return np.stack([-np.log(predicted_SxV[:, t]).mean(axis=1) for t in TOKENS_KxE], axis=1)


def swarm(count=12, bend=lambda loss_SxK, weights_SxK: loss_SxK):
    """Three experts and `count` proxies of mixtures."""
    weights_NxK = np.concatenate([np.eye(3), np.random.default_rng(1).dirichlet(np.ones(3), count)])
    experts = [[-np.log(WORDS_KxV[k, t]) for t in TOKENS_KxE] for k in range(3)]
    loss_NxK = bend(losses(weights_NxK), weights_NxK)
    return [
        Proxy(f"{n:02}", weights_K=w, loss_K=loss, token_loss=experts[n] if n < 3 else None)
        for n, (w, loss) in enumerate(zip(weights_NxK, loss_NxK, strict=True))
    ]


def test_features_by_hand():
    # Two tokens of one domain, which the experts give 0.8 and 0.2, then 0.5 and 0.1.
    one = Proxy("a", token_loss=[-np.log([0.8, 0.5])])
    other = Proxy("b", token_loss=[-np.log([0.2, 0.1])])
    features = Features([one, other], np.array([1.0]))
    feature_SxC, base_S = features.features_and_mean_losses(np.array([[0.5, 0.5], [1, 0]]))
    expected_S = [-np.log(0.5 * 0.3) / 2, -np.log(0.8 * 0.5) / 2]
    assert_allclose(feature_SxC, np.column_stack([[0.5, 1], [0.5, 0], expected_S]))
    assert_allclose(base_S, expected_S)
    # The first slope is the mean of 0.8 / 0.5 and 0.5 / 0.3, the second of 0.2 / 0.5 and 0.1 / 0.3.
    assert_allclose(features.expert_loss_slope(np.array([0.5, 0.5])), [[-49 / 30, -11 / 30]])


@pytest.mark.parametrize("target", [{"code": 2, "prose": 5, "web": 3}, None])
def test_the_mixture_of_words_is_the_target_itself(target):
    # The cross-entropy of words drawn by sum u_k p_k is lowest for the model of that mixture.
    found = MDE(target=target).find(Swarm(DOMAINS, swarm()))
    expected_K = np.array([0.2, 0.5, 0.3]) if target else np.full(3, 1 / 3)
    assert_allclose(found.weights_K, expected_K, atol=0.03)
    assert found.diagnostics["predicted_loss"] == pytest.approx(
        losses(found.weights_K[None])[0] @ expected_K, abs=1e-6
    )
    assert found.diagnostics["held_out_r_squared"] > 0.999999


def bent(loss_SxK, weights_SxK):
    """Losses that training bends: other slopes, and a price of the first domain."""
    return 0.3 + loss_SxK * [0.7, 0.9, 0.6] + 0.2 * weights_SxK[:, :1]


@pytest.mark.slow
def test_the_regression_mends_what_the_features_miss():
    found = MDE().find(Swarm(DOMAINS, swarm(16, bent)))
    weights_SxK = grid(0.01)
    true_S = bent(losses(weights_SxK), weights_SxK).mean(axis=1)
    mine = bent(losses(found.weights_K[None]), found.weights_K[None]).mean()
    assert mine <= true_S.min() + 1e-4
    # Features alone would end at equal weights, which cost more.
    alone_K = np.full((1, 3), 1 / 3)
    assert bent(losses(alone_K), alone_K).mean() > true_S.min() + 0.003
    assert found.diagnostics["held_out_r_squared"] > 0.999


def test_noise_leads_back_to_the_features_alone():
    def noisy(loss_SxK, weights_SxK):
        return loss_SxK + np.random.default_rng(2).normal(0, 3, loss_SxK.shape)

    found = MDE().find(Swarm(DOMAINS, swarm(12, noisy)))
    assert found.diagnostics["penalty"] >= 10
    assert_allclose(found.weights_K, np.full(3, 1 / 3), atol=0.1)


def test_what_is_missing_is_named():
    runs = swarm()
    with pytest.raises(InputError, match="0 proxies train on 'prose' alone, one is needed"):
        MDE().find(Swarm(DOMAINS, [r for r in runs if r.name != "01"]))
    with pytest.raises(InputError, match=r"5 proxy run.* are too few, at least 6"):
        MDE().find(Swarm(DOMAINS, runs[:5]))
    runs[2] = dataclasses.replace(runs[2], token_loss=None)
    with pytest.raises(InputError, match="proxy 02 has no losses of tokens"):
        MDE().find(Swarm(DOMAINS, runs))


VECTORS = Path(__file__).parent / "vectors"


def test_shares_of_domains_that_do_not_overlap_are_those_of_the_target():
    # Each example has probability 0.5 under one proxy alone: three of four are of the first.
    log_probability_ExK = np.log(np.array([[0.5, 0], [0.5, 0], [0, 0.5], [0.5, 0]]) + 1e-300)
    found = mixmin.find_weights(log_probability_ExK)
    assert_allclose(found.weights_K, [0.75, 0.25], rtol=1e-6)
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert found.loss == pytest.approx(entropy + np.log(2))


def test_lengths_weigh_examples():
    # Slope of w: sum over examples of 1 / (length w_k); the long one counts half of the short.
    log_probability_ExK = np.log(np.array([[1.0, 1e-300], [1e-300, 1.0]]))
    found = mixmin.find_weights(log_probability_ExK, np.array([1.0, 2.0]))
    assert_allclose(found.weights_K, [2 / 3, 1 / 3], rtol=1e-6)


def test_very_small_probabilities_are_no_zeros_and_the_best_proxy_takes_all():
    found = mixmin.find_weights(np.array([[-5000.0, -5001.0], [-4000.0, -3999.0]]))
    assert_allclose(found.weights_K, [0.5, 0.5], atol=1e-4)
    found = mixmin.find_weights(np.array([[-5000.0, -5001.0], [-4000.0, -4002.0]]))
    assert found.weights_K[0] > 0.999
    assert found.loss == pytest.approx(4500, abs=1e-6)


def test_the_minimum_is_that_of_the_authors_code():
    """The recorded descent of Anvith-Thudi/MixMin (7212abe), `LLM_DataMixing/mixmin_gen.py`."""
    recorded = json.loads((VECTORS / "mixmin.json").read_text())
    log_probability_ExK = np.array(recorded["log_probability_ExK"])
    found = mixmin.find_weights(log_probability_ExK, np.array(recorded["length_E"]), tolerance=1e-9)
    assert found.loss == pytest.approx(recorded["loss"], abs=1e-8)
    assert_allclose(found.weights_K, recorded["weights_K"], atol=1e-4)
    uniform = mixmin.find_weights(log_probability_ExK, np.array(recorded["length_E"]), tolerance=9)
    assert uniform.loss == pytest.approx(recorded["loss_uniform"])


@effort(max_examples=20)
@given(st.integers(0, 10**6))
def test_no_mixture_is_better_than_the_gap_allows(seed):
    random = np.random.default_rng(seed)
    log_probability_ExK = -random.exponential(3, (30, 4))
    found = mixmin.find_weights(log_probability_ExK, tolerance=1e-3)
    assert found.gap <= 1e-3
    others_S = mixmin.mixture_losses(log_probability_ExK, random.dirichlet(np.ones(4), 200))
    assert found.loss <= others_S.min() + found.gap


@pytest.mark.parametrize(
    ("log_probability", "changes", "message"),
    [
        ([0.0], {}, "log_probability_ExK: give a finite number"),
        ([[np.nan, 0.0]], {}, "log_probability_ExK: give a finite number"),
        ([[-np.inf, -np.inf]], {}, "no proxy gives example 0 any probability"),
        ([[0.0, 0.0]], {"length_E": np.zeros(1)}, "length_E: give one positive length"),
        ([[0.0, -1.0], [-1.1, 0.0]], {"steps": 2}, "above the minimum after 2 steps"),
    ],
)
def test_what_has_no_answer_is_refused(log_probability, changes, message):
    with pytest.raises(InputError, match=message):
        mixmin.find_weights(np.array(log_probability), **changes)
