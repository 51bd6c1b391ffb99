import dataclasses

import numpy as np
import pytest
from known_law import DOMAINS, LAWS, mixtures, optimum, proxies, swarm
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders.cross_validation import is_outside_hull
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.mixing_law import MixingLaw


@pytest.mark.slow
def test_without_noise_the_true_optimum_is_found():
    found = MixingLaw(kl=0).find(swarm())
    assert_allclose(found.weights_K, optimum()[0], atol=0.004)
    diagnostics = found.diagnostics
    assert diagnostics["held_out_rmse"] < 1e-4
    assert diagnostics["held_out_spearman"] == pytest.approx(1)
    assert diagnostics["kkt_residual"] < 1e-6
    assert diagnostics["predicted_loss"] == pytest.approx(optimum()[1], abs=1e-4)
    assert diagnostics["predicted_loss_uniform"] == pytest.approx(
        float(LAWS.losses(np.full((1, 3), 1 / 3)).mean()), abs=1e-5
    )
    assert diagnostics["laws"]["prose"]["c"] == pytest.approx(2, abs=1e-3)
    assert diagnostics["laws"]["code"]["t"]["prose"] == pytest.approx(1.5, abs=1e-3)


@pytest.mark.slow
def test_with_noise_the_mixture_is_nearly_as_good():
    found = MixingLaw(kl=0).find(swarm(noise=0.02))
    truth = float(LAWS.losses(found.weights_K[None]).mean())
    uniform = float(LAWS.losses(np.full((1, 3), 1 / 3)).mean())
    assert truth - optimum()[1] < 0.1 * (uniform - optimum()[1])
    # Held-out errors hold the noise of the data that they are measured on.
    errors = found.diagnostics["held_out_rmse_by_domain"]
    assert set(errors) == set(DOMAINS)
    assert all(0.01 < error < 0.06 for error in errors.values())


@pytest.mark.slow
def test_the_target_moves_the_mixture():
    found = MixingLaw(kl=0.05, target={"code": 3, "prose": 1, "talk": 1}).find(swarm())
    expected = optimum(target_K=np.array([0.6, 0.2, 0.2]), kl=0.05)[0]
    assert_allclose(found.weights_K, expected, atol=0.004)


@pytest.mark.slow
def test_a_large_price_gives_the_prior():
    prior = {"code": 5, "prose": 3, "talk": 2}
    found = MixingLaw(kl=1e6, prior=prior).find(swarm())
    assert_allclose(found.weights_K, [0.5, 0.3, 0.2], atol=1e-6)
    assert found.diagnostics["kl_to_prior"] < 1e-9


@pytest.mark.slow
def test_no_domain_is_read_more_often_than_allowed():
    finder = MixingLaw(
        epochs=4, tokens_by_domain={"code": 250, "prose": 5e4, "talk": 5e4}, budget_tokens=1e4
    )
    found = finder.find(swarm())
    assert_allclose(found.weights_K[0], 4 * 250 / 1e4)
    assert found.diagnostics["capped"] == ["code"]
    assert MixingLaw().find(swarm()).diagnostics["capped"] == []


@pytest.mark.slow
def test_domains_in_another_order_get_the_same_weights():
    def turned(run):
        return dataclasses.replace(
            run, weights_K=run.weights_K[[2, 0, 1]], loss_K=run.loss_K[[2, 0, 1]]
        )

    straight = MixingLaw().find(swarm(noise=0.02)).weights_K
    other = MixingLaw().find(
        Swarm(("talk", "code", "prose"), [turned(r) for r in proxies(noise=0.02)])
    )
    assert_allclose(other.weights_K, straight[[2, 0, 1]], atol=1e-6)


def test_outside_is_told_from_inside():
    triangle = np.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
    assert not is_outside_hull(np.array([1 / 3, 1 / 3, 1 / 3]), triangle)
    assert not is_outside_hull(np.array([0.4, 0.4, 0.2]), triangle)
    assert is_outside_hull(np.array([0.5, 0.4, 0.1]), triangle)


@pytest.mark.slow
def test_diagnostics_say_when_the_law_is_extrapolated():
    # Proxies halfway to equal parts, an optimum at a corner.
    near = 0.5 / 3 + 0.5 * mixtures(24)
    runs = [
        Proxy(f"{n:02}", weights_K=w, loss_K=LAWS.losses(w[None])[0]) for n, w in enumerate(near)
    ]
    target = {"code": 1, "prose": 0, "talk": 0}
    found = MixingLaw(kl=0, target=target).find(Swarm(DOMAINS, runs))
    assert found.diagnostics["outside_proxies"] is True
    assert MixingLaw(kl=1e6).find(swarm()).diagnostics["outside_proxies"] is False


@pytest.mark.slow
def test_too_few_proxies_are_counted():
    # 4 coefficients of 3 domains, one proxy held out at a time.
    with pytest.raises(InputError, match=r"4 proxy run\(s\) are too few, at least 5 are needed"):
        MixingLaw().find(swarm(4))
    MixingLaw().find(swarm(5))
    # Two parts: half of them must suffice.
    with pytest.raises(InputError, match="at least 8 are needed"):
        MixingLaw(folds=2).find(swarm(7))


def test_mixtures_along_a_line_are_refused():
    line = [np.array([a, 0.5 - a / 2, 0.5 - a / 2]) for a in np.linspace(0.1, 0.9, 12)]
    runs = [Proxy(f"{n:02}", weights_K=w, loss_K=np.ones(3)) for n, w in enumerate(line)]
    with pytest.raises(InputError, match="mixtures span 2 of 3 directions"):
        MixingLaw().find(Swarm(DOMAINS, runs))


def test_losses_that_are_not_positive_are_refused():
    runs = [dataclasses.replace(run, loss_K=run.loss_K - 3) for run in proxies()]
    for use in (MixingLaw().find, MixingLaw().fit):
        with pytest.raises(InputError, match="losses must be positive"):
            use(Swarm(DOMAINS, runs))
