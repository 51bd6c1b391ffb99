"""Mixtures that are read off runs or off another mixture, without a fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders.best_run import Best
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.mixture_reuse import expand_mixture, kept_weights
from pike_mixing.finders.proxy_average import Average

DOMAINS = ("code", "prose")


def run(name, weights, loss):
    return Proxy(name, weights_K=np.array(weights), loss_K=np.array(loss))


RUNS = [
    run("c", (0.5, 0.5), (2.0, 3.0)),
    run("a", (0.9, 0.1), (1.0, 3.5)),
    run("b", (0.1, 0.9), (4.0, 2.0)),
]


def test_the_lowest_mean_loss_wins():
    # Means 2.5, 2.25, 3.
    found = Best().find(Swarm(DOMAINS, RUNS))
    assert_allclose(found.weights_K, [0.9, 0.1])
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert found.diagnostics == {
        "run": "a",
        "loss": 2.25,
        "runner_up": "c",
        "runner_up_loss": 2.5,
        "spread": 0.75,
        "runs": 3,
        "mixtures": 3,
        "effective_domains": pytest.approx(np.exp(entropy)),
    }


def test_seeds_of_one_mixture_are_averaged():
    # The luckiest single run is s0 of the first mixture; its mean, 2.5, is not the lowest.
    runs = [
        run("one/seed0", (0.5, 0.5), (1, 1)),
        run("one/seed1", (0.5, 0.5), (4, 4)),
        run("two/seed0", (0.4, 0.6), (2, 2)),
    ]
    found = Best().find(Swarm(DOMAINS, runs[::-1])).diagnostics
    assert (found["run"], found["mixtures"]) == ("two/seed0", 2)
    assert (found["runner_up"], found["runner_up_loss"]) == ("one/seed0", 2.5)


def test_of_equal_losses_the_first_name_wins_and_one_mixture_has_no_runner_up():
    runs = [run("z", (0.2, 0.8), (1, 2)), run("y", (0.8, 0.2), (2, 1)), run("x", (1, 0), (9, 9))]
    assert Best().find(Swarm(DOMAINS, runs)).diagnostics["run"] == "y"
    alone = Best().find(Swarm(DOMAINS, runs[:1])).diagnostics
    assert (alone["runner_up"], alone["spread"]) == (None, 0)


def test_runs_that_cannot_be_compared_are_refused():
    with pytest.raises(InputError, match=r"0 proxy run\(s\) are too few, at least 1"):
        Best().find(Swarm(DOMAINS, []))
    with pytest.raises(InputError, match="proxy moving has no static mixture"):
        Best().find(Swarm(DOMAINS, [*RUNS, Proxy("moving", loss_K=np.ones(2))]))
    with pytest.raises(InputError, match="proxy d has a loss that is no finite number"):
        Best().find(Swarm(DOMAINS, [*RUNS, run("d", (1, 0), (np.nan, 1))]))


def proxy(average, name="doremi"):
    return Proxy(name, state={"average_K": np.array(average), "updates": np.array(7)})


def test_the_average_is_the_mixture():
    # Divided by its sum.
    found = Average().find(Swarm(DOMAINS, [proxy([1.5, 0.5])]))
    assert_allclose(found.weights_K, [0.75, 0.25])
    assert found.diagnostics["run"] == "doremi"
    # exp of the entropy: 4 / 27^(1/4) = 1.7548 domains.
    assert found.diagnostics["effective_domains"] == pytest.approx(4 / 27**0.25)


def test_exactly_one_run_is_read():
    for runs in ([], [proxy([0.5, 0.5]), proxy([0.5, 0.5], "other")]):
        told = f"{len(runs)} proxy runs are given, the finder 'average' reads"
        with pytest.raises(InputError, match=told):
            Average().find(Swarm(DOMAINS, runs))


@pytest.mark.parametrize("average", [[0.5, 0.3, 0.2], [np.nan, 1], [-0.5, 1.5], [0, 0]])
def test_an_average_that_is_no_mixture_is_refused(average):
    with pytest.raises(InputError, match="is no mixture of 2 domains"):
        Average().find(Swarm(DOMAINS, [proxy(average)]))
    with pytest.raises(InputError, match="proxy mix: its method's state has no average_K"):
        Average().find(Swarm(DOMAINS, [Proxy("mix", state={"weights_K": np.ones(2) / 2})]))


OLD = {"code": 0.5, "prose": 0.3, "web": 0.2}


def test_the_mixtures_of_the_released_case_study():
    """allenai/olmix (9586977), configs/mixture_reuse_case_study/generate, files 1, 2, 3 and 5.

    Two of 24 topics, the others as one: stack-edu came beside them with 1 - 0.68761. Two of 44
    domains before and after algebraicstack was removed.
    """
    first = {"art_and_design": 0.01778366638911771, "software_development": 0.31774061939010495}
    first["others"] = 1 - sum(first.values())
    second = expand_mixture(
        {"dclm": 0.6876104286652704, "stack-edu": 0.3123895713347296}, "dclm", kept_weights(first)
    )
    assert second["art_and_design"] == pytest.approx(0.012228234469129571, rel=1e-9)
    third = {"algebraicstack": 0.020601879388687547, "finemath-3plus": 0.13974017958785154}
    third["others"] = 1 - sum(third.values())
    fifth = kept_weights(third, {"algebraicstack"})
    assert fifth["finemath-3plus"] == pytest.approx(0.14267964849741566, rel=1e-9)


weights = st.floats(1e-6, 1)


@given(st.dictionaries(st.sampled_from("abcdef"), weights, min_size=2), st.data(), st.floats(0, 1))
def test_odds_within_the_virtual_domain_stay(old, data, share):
    changed = data.draw(st.sets(st.sampled_from(sorted(old)), max_size=len(old) - 1))
    new = expand_mixture({"rest": share, "new": 1 - share}, "rest", kept_weights(old, changed))
    assert new.keys() == (old.keys() - changed) | {"new"}
    assert sum(new.values()) == pytest.approx(1)
    total = sum(old[domain] for domain in old.keys() - changed)
    assert all(new[d] == pytest.approx(share * old[d] / total) for d in new if d != "new")


@pytest.mark.parametrize(
    ("old", "changed", "message"),
    [
        (OLD, {"wed"}, "changed: 'wed' is unknown: did you mean 'web'"),
        (OLD, OLD, "old: the unchanged domains have no ratios"),
        ({"code": -1, "web": 2}, set(), "old: the unchanged domains have no ratios"),
    ],
)
def test_ratios_that_cannot_be_kept_are_refused(old, changed, message):
    with pytest.raises(InputError, match=message):
        kept_weights(old, changed)


@pytest.mark.parametrize(
    ("new", "virtual", "message"),
    [
        ({"old": 1}, "odd", "virtual: 'odd' is unknown: did you mean 'old'"),
        ({"old": 0.5, "web": 0.5}, "old", "web also lies within 'old'"),
        ({"old": 1.2, "new": -0.2}, "old", "new=-0.2: weights must not be"),
    ],
)
def test_mixtures_that_cannot_be_expanded_are_refused(new, virtual, message):
    with pytest.raises(InputError, match=message):
        expand_mixture(new, virtual, OLD)
