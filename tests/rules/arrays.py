"""Arrays that tests compare, and what a rule makes of gradients and of their statistics."""

import json
import string
from pathlib import Path

import numpy as np

from pike_mixing.interface import Signals, Statistics

NAMES = ("en", "hi", "de", "code", "web", "wiki", *string.ascii_lowercase)


def recorded(rule):
    """A run of the rule's own code: see vectors/README.md."""
    path = Path(__file__).parent / "vectors" / f"{rule}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def vector(*values):
    return np.array(values, dtype=np.float64)


def matrix(*rows):
    return np.array(rows, dtype=np.float64)


def assert_close(found, expected, rtol=1e-7, atol=1e-7):
    """Equal shapes, and numbers that differ by rounding alone; NaN is equal to NaN."""
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def seen(step=0, count_K=None, **signals):
    """Signals of a step; its batch has one row of each domain that is no NaN, unless given."""
    value = next(iter(signals.values()))
    own_K = value if value.ndim == 1 else value.diagonal()
    count_K = (~np.isnan(own_K)).astype(np.int64) if count_K is None else np.array(count_K)
    return Signals(step, int(count_K.sum()), count_K=count_K, **signals)


def observed(method, *steps, domains=None):
    """A rule's state after such signals."""
    K = next(len(v) for v in vars(steps[0]).values() if isinstance(v, np.ndarray))
    state = method.init(domains or NAMES[:K], 0)
    for signals in steps:
        state = method.observe(state, signals)
    return state


def combined(method, gradient_KxD, *, step=4, seed=3, loss_K=None):
    """A rule's coefficients of these gradients, at its first step; losses are 1, 2, ... K."""
    K, gram_KxK = len(gradient_KxD), gradient_KxD @ gradient_KxD.T
    loss_K = np.arange(1.0, K + 1) if loss_K is None else loss_K
    signals = seen(step, gram_KxK=gram_KxK, loss_K=loss_K)
    return method.gradient_coefficients(method.init(NAMES[:K], seed), signals)


def measured(squared_norm, variance=0.0, *, rows=4, loss=1.0):
    """Statistics of K domains by their plug-in norms; a number stands for K of them."""
    columns = (vector(*squared_norm), variance, loss, rows)
    return Statistics.of_moments(*(np.array(c) for c in np.broadcast_arrays(*columns)))


def weights_after(method, *statistics, b=4):
    """A rule's weights after updates with such statistics."""
    state = method.init(NAMES[: len(statistics[0].loss_K)], 0)
    for step, one in enumerate(statistics):
        state = method.observe(state, Signals(step, b, statistics=one))
    return method.weights(state, len(statistics))
