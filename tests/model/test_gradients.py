"""Against gradients of single rows, computed one by one."""

import itertools

import numpy as np
import pytest
import torch

from pipeline import settings
from pipeline.model import gradient_vectors, gradients
from pipeline.model.transformer import initialised, token_losses

SHAPE = settings.Model(layers=1, width=6, heads=1, head_width=4)
VOCABULARY = 10


@pytest.fixture(scope="module")
def net():
    return initialised(SHAPE, VOCABULARY, 0)


def rows(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (count, 6), generator=generator)


def flat(parts):
    return torch.cat([part.flatten().double() for part in parts])


def single(net, tokens_RxL1):
    """Gradient of each row's mean loss, R x P in float64."""
    found = []
    for row in tokens_RxL1:
        loss = token_losses(net, row[None]).mean()
        found.append(flat(torch.autograd.grad(loss, list(net.parameters()))))
    return torch.stack(found)


def close(actual, expected, rel=1e-5):
    assert float(actual) == pytest.approx(float(expected), rel=rel)


@pytest.mark.parametrize("microbatch", [1, 2, 3, 7, 100])
def test_the_mean_gradient_does_not_depend_on_the_microbatch(net, microbatch):
    tokens = rows(7)
    g = gradients.domain_gradient(net, tokens, microbatch)
    expected = single(net, tokens).mean(dim=0)
    torch.testing.assert_close(flat(g.parts), expected, rtol=1e-4, atol=1e-6)
    close(g.squared_norm, expected.square().sum())
    with torch.no_grad():
        close(g.loss, token_losses(net, tokens).mean())


def test_the_variance_of_single_rows_is_the_trace_of_their_covariance(net):
    tokens = rows(7)
    g_RxP = single(net, tokens)
    # torch.var divides by R - 1.
    close(gradients.domain_gradient(net, tokens, 1).variance, g_RxP.var(dim=0).sum())


def test_the_variance_of_equal_microbatches_is_their_size_times_that_between_them(net):
    tokens = rows(8)
    means_4xP = single(net, tokens).view(4, 2, -1).mean(dim=1)
    close(gradients.domain_gradient(net, tokens, 2).variance, 2 * means_4xP.var(dim=0).sum())


def test_the_variance_of_uneven_microbatches(net):
    # Seven rows in threes: sizes 3, 3 and 1, and (n - 1) = 2.
    tokens = rows(7)
    g_RxP = single(net, tokens)
    squares = [
        size * g_RxP[begin : begin + size].mean(dim=0).square().sum()
        for begin, size in ((0, 3), (3, 3), (6, 1))
    ]
    expected = (sum(squares) - 7 * g_RxP.mean(dim=0).square().sum()) / 2
    close(gradients.domain_gradient(net, tokens, 3).variance, expected, rel=1e-4)


@pytest.mark.parametrize("microbatch", [1, 2])
def test_both_estimates_are_right_on_average(net, microbatch):
    """Over all 27 ways to draw 3 rows from a population of 3, with replacement."""
    population = rows(3, seed=5)
    g_3xP = single(net, population)
    mean_P = g_3xP.mean(dim=0)
    true_variance = (g_3xP - mean_P).square().sum() / 3
    found = [
        gradients.gradient_statistics(net, [population[list(draw)]], microbatch)
        for draw in itertools.product(range(3), repeat=3)
    ]
    assert len(found) == 27
    close(sum(s.variance_K[0] for s in found) / 27, true_variance, rel=1e-4)
    unbiased = sum(s.squared_norm_unbiased_K[0] for s in found) / 27
    close(unbiased, mean_P.square().sum(), rel=1e-3)
    # The plug-in norm is larger by the variance of the mean.
    plug_in = sum(s.squared_norm_K[0] for s in found) / 27
    close(plug_in, mean_P.square().sum() + true_variance / 3, rel=1e-4)


def test_statistics_of_several_domains_stand_in_their_order(net):
    first, second = rows(4, seed=1), rows(5, seed=2)
    both = gradients.gradient_statistics(net, [first, second], 1)
    for k, tokens in enumerate((first, second)):
        alone = gradients.domain_gradient(net, tokens, 1)
        close(both.squared_norm_K[k], alone.squared_norm)
        close(both.variance_K[k], alone.variance)
        close(both.loss_K[k], alone.loss)
    close(
        both.squared_norm_unbiased_K[1], both.squared_norm_K[1] - both.variance_K[1] / 5, rel=1e-9
    )
    assert both.rows_K.tolist() == [4, 5]


def test_a_domain_without_rows_is_nan_and_leaves_the_others_as_they_are(net):
    tokens = rows(4)
    with_absent = gradients.gradient_statistics(net, [tokens, tokens[:0]], 1)
    alone = gradients.gradient_statistics(net, [tokens], 1)
    for name in ("squared_norm_K", "squared_norm_unbiased_K", "variance_K", "loss_K"):
        assert np.isnan(getattr(with_absent, name)[1])
        assert getattr(with_absent, name)[0] == getattr(alone, name)[0]
        assert getattr(with_absent, name).dtype == np.float64
    assert with_absent.rows_K.tolist() == [4, 0]


def test_one_microbatch_tells_no_variance(net):
    measured = gradients.gradient_statistics(net, [rows(4)], 4)
    assert np.isnan(measured.variance_K).all()
    assert np.isnan(measured.squared_norm_unbiased_K).all()
    assert not np.isnan(measured.squared_norm_K).any()


def test_statistics_leave_the_gradient_of_the_batch_alone(net):
    for weight in net.parameters():
        weight.grad = torch.full_like(weight, 2.0)
    gradients.gradient_statistics(net, [rows(4)], 2)
    assert all((weight.grad == 2).all() for weight in net.parameters())


def left_gradient(net):
    return flat([weight.grad for weight in net.parameters()])


def of_batch(net, tokens, domain_B, share, microbatch):
    net.zero_grad()
    domain_B = torch.tensor(domain_B)
    weight_B = (torch.tensor(share) / torch.bincount(domain_B, minlength=len(share)))[domain_B]
    loss_B = gradients.batch_gradient(net, tokens, weight_B, microbatch)
    return loss_B, left_gradient(net)


@pytest.mark.parametrize("microbatch", [1, 2, 3, 5])
def test_microbatches_of_a_batch_change_nothing(net, microbatch):
    tokens, domain_B, share = rows(8), [0] * 5 + [1] * 3, [0.2, 0.8]
    whole_loss_B, whole = of_batch(net, tokens, domain_B, share, 8)
    loss_B, gradient = of_batch(net, tokens, domain_B, share, microbatch)
    torch.testing.assert_close(gradient, whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(loss_B, whole_loss_B, rtol=1e-6, atol=0)


def test_any_weights_give_the_weighted_sum_of_the_domains_mean_gradients(net):
    tokens, domain_B = rows(8), [0, 1, 1, 0, 0, 1, 0, 0]
    g_RxP, domain = single(net, tokens), torch.tensor(domain_B)
    _, gradient = of_batch(net, tokens, domain_B, [2.0, -0.5], 3)
    expected = 2 * g_RxP[domain == 0].mean(dim=0) - 0.5 * g_RxP[domain == 1].mean(dim=0)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_the_rows_losses_come_with_their_gradient(net):
    tokens = rows(5)
    loss_B, gradient = of_batch(net, tokens, [0, 0, 2, 2, 2], [0.4, 0.0, 0.6], 2)
    with torch.no_grad():
        torch.testing.assert_close(loss_B, token_losses(net, tokens).mean(dim=1))
    assert not loss_B.requires_grad
    assert not gradient.isnan().any()


def test_the_gramian_holds_all_inner_products(net):
    domains = [rows(3, seed=1), rows(4, seed=2), rows(2, seed=3)]
    parts_K, gram_KxK, measured = gradients.gramian(net, domains, 2)
    g_KxP = torch.stack([single(net, tokens).mean(dim=0) for tokens in domains])
    assert gram_KxK.dtype == np.float64
    assert np.array_equal(gram_KxK, gram_KxK.T)
    np.testing.assert_allclose(gram_KxK, g_KxP @ g_KxP.T, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(torch.stack([flat(p) for p in parts_K]), g_KxP, rtol=1e-4, atol=1e-6)
    assert measured.rows_K.tolist() == [3, 4, 2]
    np.testing.assert_allclose(gram_KxK.diagonal(), measured.squared_norm_K, rtol=1e-12)


def test_a_domain_without_rows_has_no_gradient_and_no_inner_products(net):
    parts_K, gram_KxK, measured = gradients.gramian(net, [rows(3), rows(0)], 2)
    assert parts_K[1] is None
    assert gram_KxK[0, 0] == measured.squared_norm_K[0]
    assert np.isnan(gram_KxK).tolist() == [[False, True], [True, True]]
    net.zero_grad()
    gradient_vectors.add_all(net, parts_K, np.array([1.0, 0.0]))
    torch.testing.assert_close(left_gradient(net), flat(parts_K[0]))
    with pytest.raises(AssertionError, match="without rows has a coefficient"):
        gradient_vectors.add_all(net, parts_K, np.array([0.5, 0.5]))


def test_losses_without_gradients_are_those_of_the_batch(net):
    tokens = rows(5)
    expected_B, _ = of_batch(net, tokens, [0, 0, 2, 2, 2], [0.4, 0.0, 0.6], 5)
    net.zero_grad()
    loss_B = gradients.losses(net, tokens, 2)
    torch.testing.assert_close(loss_B, expected_B, rtol=1e-6, atol=0)
    assert all(p.grad is None for p in net.parameters())


def test_the_combination_is_added_to_what_lies_there(net):
    domains = [rows(3, seed=1), rows(4, seed=2)]
    parts_K, _, _ = gradients.gramian(net, domains, 4)
    expected = 0.5 * flat(parts_K[0]) - 2 * flat(parts_K[1])
    for weight in net.parameters():
        weight.grad = torch.ones_like(weight)
    gradient_vectors.add_all(net, parts_K, np.array([0.5, -2.0]))
    torch.testing.assert_close(left_gradient(net), 1 + expected, rtol=1e-6, atol=1e-6)


def test_inner_products_of_many_numbers_keep_their_digits():
    # One float32 sum of ten million squares is off by 1e-4 on a CPU.
    part = torch.rand(10_000_000, generator=torch.Generator().manual_seed(0))
    exact = float(part.double().square().sum())
    close(gradient_vectors.squared([part]), exact, rel=2e-6)
    close(gradient_vectors.inner([part], [-2 * part]), -2 * exact, rel=2e-6)
