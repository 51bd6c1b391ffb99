import numpy as np
import pytest
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.proxy_average import Average

DOMAINS = ("code", "prose")


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
    with pytest.raises(InputError, match="2 proxy runs are given, the finder 'average' reads"):
        Average().find(Swarm(DOMAINS, [proxy([0.5, 0.5]), proxy([0.5, 0.5], "other")]))
    with pytest.raises(InputError, match="0 proxy runs are given"):
        Average().find(Swarm(DOMAINS, []))


def test_a_run_without_an_average_is_refused():
    with pytest.raises(InputError, match="proxy mix: its method's state has no average_K"):
        Average().find(Swarm(DOMAINS, [Proxy("mix", state={"weights_K": np.ones(2) / 2})]))


@pytest.mark.parametrize("average", [[0.5, 0.3, 0.2], [np.nan, 1], [-0.5, 1.5], [0, 0]])
def test_an_average_that_is_no_mixture_is_refused(average):
    with pytest.raises(InputError, match="is no mixture of 2 domains"):
        Average().find(Swarm(DOMAINS, [proxy(average)]))
