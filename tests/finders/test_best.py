import numpy as np
import pytest
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders.best import Best
from pike_mixing.finders.interface import Proxy, Swarm

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


def test_the_target_weighs_the_losses():
    # 1/4 and 3/4: 2.75, 2.875, 2.5.
    found = Best(target={"prose": 3, "code": 1}).find(Swarm(DOMAINS, RUNS))
    assert found.diagnostics["run"] == "b"
    assert found.diagnostics["loss"] == 2.5


def test_of_equal_losses_the_first_name_wins():
    runs = [run("z", (0.2, 0.8), (1, 2)), run("y", (0.8, 0.2), (2, 1)), run("x", (1, 0), (9, 9))]
    assert Best().find(Swarm(DOMAINS, runs)).diagnostics["run"] == "y"


def test_seeds_of_one_mixture_are_averaged():
    # The luckiest single run is s0 of the first mixture; its mean, 2.5, is not the lowest.
    runs = [
        run("one/seed0", (0.5, 0.5), (1, 1)),
        run("one/seed1", (0.5, 0.5), (4, 4)),
        run("two/seed0", (0.4, 0.6), (2, 2)),
    ]
    found = Best().find(Swarm(DOMAINS, runs[::-1]))
    assert found.diagnostics["run"] == "two/seed0"
    assert found.diagnostics["runner_up"] == "one/seed0"
    assert found.diagnostics["runner_up_loss"] == 2.5
    assert found.diagnostics["mixtures"] == 2


def test_one_mixture_has_no_runner_up():
    found = Best().find(Swarm(DOMAINS, RUNS[:1]))
    assert found.diagnostics["runner_up"] is None
    assert found.diagnostics["spread"] == 0


def test_runs_that_cannot_be_compared_are_refused():
    with pytest.raises(InputError, match=r"0 proxy run\(s\) are too few, at least 1"):
        Best().find(Swarm(DOMAINS, []))
    with pytest.raises(InputError, match="proxy moving has no static mixture"):
        Best().find(Swarm(DOMAINS, [*RUNS, Proxy("moving", loss_K=np.ones(2))]))
    with pytest.raises(InputError, match="proxy d has a loss that is no finite number"):
        Best().find(Swarm(DOMAINS, [*RUNS, run("d", (1, 0), (np.nan, 1))]))
