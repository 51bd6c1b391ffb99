import math

import arrays
import numpy as np
import pytest
import torch
from arrays import assert_close, matrix, observed, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.rules.gradnorm import GradNorm

DOMAINS = ("en", "hi", "de")
few = effort(max_examples=30)
triple = st.lists(st.floats(0.1, 10), min_size=3, max_size=3)


def seen(step, norm_K, loss_K):
    """Orthogonal gradients of the given norms."""
    return arrays.seen(step, gram_KxK=np.diag(norm_K**2), loss_K=loss_K)


@pytest.mark.parametrize("scale", [1e-6, 1, 1e6])
def test_one_step_brings_gradients_of_any_unit_together(scale):
    state = observed(GradNorm(rate=0.1, first=0), seen(0, scale * vector(3, 1), vector(2, 2)))
    # G = (3, 1), mean 2, sides + and -: slope_1 = (3 - 0.5 (3 - 1)) / 2 = 1, slope_2 = -1.
    assert_close(state["theta_K"], vector(-0.1, 0.1))


@few
@given(triple, triple, triple)
def test_the_step_is_down_the_gradient_of_the_objective(theta, norm, loss):
    method = GradNorm(rate=1, first=0)
    state = method.init(DOMAINS, 0) | {"theta_K": vector(*theta), "initial_loss_K": vector(3, 3, 3)}
    theta_K = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
    G_K = 3 * theta_K.softmax(dim=0) * torch.tensor(norm, dtype=torch.float64)
    loss_K = torch.tensor(loss, dtype=torch.float64)
    ratio_K = loss_K / loss_K.mean()
    (G_K - G_K.mean().detach() * ratio_K**1.5).abs().sum().backward()
    after = method.observe(state, seen(5, vector(*norm), vector(*loss)))
    expected = (theta_K - theta_K.grad / G_K.mean()).detach()
    assert_close(after["theta_K"], expected.numpy())


def test_until_the_first_step_nothing_is_learned():
    method = GradNorm(first=3)
    state = method.init(("en", "hi"), 0)
    for step in range(3):
        assert method.observe(state, seen(step, vector(3, 1), vector(9, 9))) is state
    state = method.observe(state, seen(3, vector(3, 1), vector(5, 4)))
    assert state["initial_loss_K"].tolist() == [5, 4]
    state = method.observe(state, seen(4, vector(3, 1), vector(2, 2)))
    assert state["initial_loss_K"].tolist() == [5, 4]


def test_an_absent_domain_takes_no_part():
    method, nan = GradNorm(rate=0.1, first=0), math.nan
    state = method.init(DOMAINS, 0)
    gram_KxK = matrix([9, 0, nan], [0, 1, nan], [nan, nan, nan])
    signals = arrays.seen(0, gram_KxK=gram_KxK, loss_K=vector(2, 2, nan))
    assert method.gradient_coefficients(state, signals).tolist() == [0.5, 0.5, 0]
    state = method.observe(state, signals)
    assert_close(state["theta_K"], vector(-0.1, 0.1, 0))
    assert np.isnan(state["initial_loss_K"]).tolist() == [False, False, True]
    # Its rate refers to the first loss that it has.
    state = method.observe(state, seen(1, vector(3, 1, 1), vector(2, 2, 7)))
    assert state["initial_loss_K"].tolist() == [2, 2, 7]


def test_a_loss_that_is_not_positive_is_refused():
    method = GradNorm(first=0)
    with pytest.raises(InputError, match=r"step 3: gradnorm divides by .* \[2.0, 0.0\], and one"):
        observed(method, seen(3, vector(1, 1), vector(2, 0)))
