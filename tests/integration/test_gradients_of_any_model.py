"""Statistics of any model's gradients, against those of single rows computed one by one."""

import copy
import importlib.util
import itertools

import numpy as np
import pytest
import torch
from ranks import on_two_ranks
from tiny import (
    CNN,
    gpt2,
    halves,
    image_losses,
    images,
    language_loss,
    single_gradients,
    tokens,
)
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pike_mixing.errors import InputError
from pike_mixing.torch import gradient_statistics, gramian
from pike_mixing.torch.domain_gradient import inner_product

KINDS = {
    "gpt2": (gpt2, language_loss, tokens),
    "cnn": (lambda: CNN().eval(), image_losses, images),
}


def made(kind):
    if kind != "cnn":
        pytest.importorskip("transformers")
    model, loss_fn, rows = KINDS[kind]
    return model(), loss_fn, rows


def check(statistics, k, g_RxP, loss, rel=1e-4):
    """The k-th domain against the gradients of its rows."""
    rows, squared_norm = len(g_RxP), float(g_RxP.mean(dim=0).square().sum())
    variance = float(g_RxP.var(dim=0).sum())
    assert statistics.rows_K[k] == rows
    assert statistics.squared_norm_K[k] == pytest.approx(squared_norm, rel=rel)
    assert statistics.variance_K[k] == pytest.approx(variance, rel=rel)
    unbiased = squared_norm - variance / rows
    assert statistics.squared_norm_unbiased_K[k] == pytest.approx(unbiased, rel=rel, abs=1e-5)
    assert statistics.loss_K[k] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("kind", [pytest.param("gpt2", marks=pytest.mark.slow), "cnn"])
def test_statistics_and_inner_products_are_those_of_single_rows(kind):
    model, loss_fn, rows = made(kind)
    domains = {"a": rows(5), "none": None, "b": rows(3, seed=2)}
    gram_KxK, of_gramian = gramian(model, loss_fn, domains)
    (a_RxP, a_loss), (b_RxP, b_loss) = (
        single_gradients(model, loss_fn, domains[name]) for name in "ab"
    )
    for found in (gradient_statistics(model, loss_fn, domains), of_gramian):
        check(found, 0, a_RxP, a_loss)
        check(found, 2, b_RxP, b_loss)
        assert found.rows_K.tolist() == [5, 0, 3]
        assert np.isnan([found.squared_norm_K[1], found.variance_K[1], found.loss_K[1]]).all()
    product = pytest.approx(float(a_RxP.mean(dim=0) @ b_RxP.mean(dim=0)), rel=1e-4)
    assert gram_KxK[0, 2] == gram_KxK[2, 0] == product
    assert gram_KxK.diagonal()[::2] == pytest.approx(of_gramian.squared_norm_K[::2])
    assert np.isnan(gram_KxK[1]).all()


def test_nothing_remains_of_a_measurement_though_it_fails():
    model = CNN(dropout=0.5).train()
    model.register_buffer("expanded", torch.ones(1).expand(4))
    image_losses(model, images(4)).mean().backward()
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    gradients = [p.grad for p in model.parameters()]
    numbers = [g.clone() for g in gradients]

    def breaks(model, rows):
        image_losses(model, rows)
        raise RuntimeError("out of memory")

    # The same draws of dropout: the passes are in the mode of the model.
    found, again = (
        gradient_statistics(model, image_losses, [images(6)], micro_batch_rows=2) for _ in range(2)
    )
    assert np.isfinite(found.variance_K).all()
    assert again.squared_norm_K == found.squared_norm_K
    with pytest.raises(RuntimeError, match="out of memory"):
        gradient_statistics(model, breaks, [images(4)])
    assert torch.equal(torch.get_rng_state(), random)
    assert model.training
    assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(gradients, numbers, strict=True))
    after = model.state_dict()
    assert all(torch.equal(before[n], after[n]) for n in before)


def test_frozen_and_idle_parameters():
    model, rows = CNN().eval(), images(4)
    model.convolution.requires_grad_(False)
    model.idle = nn.Linear(3, 3)
    found = gradient_statistics(model, image_losses, [rows])
    check(found, 0, *single_gradients(model, image_losses, rows))


@pytest.mark.slow
@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(reentrant):
    pytest.importorskip("transformers")
    rows = tokens(4)
    truth = single_gradients(gpt2(), language_loss, rows)
    model = gpt2().train()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()
    check(gradient_statistics(model, language_loss, [rows]), 0, *truth)


@pytest.mark.slow
def test_a_gradient_in_several_parts_is_refused():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            for _ in range(2):
                x = torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=True)
            return x

    x = torch.randn(2, 3, requires_grad=True)
    with pytest.raises(InputError, match="use_reentrant=False"):
        gradient_statistics(Shared(), lambda m, rows: m(rows).mean(), [x])


def test_autocast_whose_cache_holds_weights_without_gradient():
    model, rows = CNN().eval(), images(4)
    expected = gradient_statistics(model, image_losses, [rows])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            model(rows[0])
        found = gradient_statistics(model, image_losses, [rows])
    assert found.squared_norm_K != expected.squared_norm_K
    assert found.squared_norm_K == pytest.approx(expected.squared_norm_K, rel=0.05)


def stepping():
    """A model whose optimizer steps within the backward pass."""
    model = CNN()
    model.out.weight.register_post_accumulate_grad_hook(lambda p: p.data.zero_())
    return model


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rows_by_domain": [["text"]]}, "rows hold a str"),
        ({"rows_by_domain": torch.zeros(3)}, "one for each domain"),
        ({"rows_by_domain": [(torch.zeros(3, 1, 6, 6), torch.zeros(2))]}, r"\[2, 3\] rows"),
        ({"micro_batch_rows": 0}, "at least 1"),
        ({"coefficients": [1, 2]}, "2 for 1 domains"),
        ({"loss_fn": torch.no_grad()(image_losses)}, "no graph"),
        ({"model": CNN().requires_grad_(False)}, "no trainable parameter"),
        ({"model": stepping()}, "steps within the backward pass"),
    ],
)
def test_what_cannot_be_measured_is_refused(wrong, said):
    given = {"model": CNN(), "loss_fn": image_losses, "rows_by_domain": [images(2)]} | wrong
    with pytest.raises(InputError, match=said):
        gradient_statistics(**given)


def test_statistics_out_of_the_passes_of_a_step():
    model, domains = CNN().eval(), [images(5), images(3, seed=2)]
    truth = [single_gradients(model, image_losses, rows) for rows in domains]
    # The mean over all rows; a second step adds to what is there.
    expected = torch.cat([g_RxP for g_RxP, _ in truth]).mean(dim=0)
    for times in (1, 2):
        found = gradient_statistics(model, image_losses, domains, coefficients=[5 / 8, 3 / 8])
        for k, of_rows in enumerate(truth):
            check(found, k, *of_rows)
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        torch.testing.assert_close(gradient.double(), times * expected, rtol=1e-4, atol=1e-6)


def test_both_estimates_are_right_on_average():
    """Over all 27 ways to draw 3 rows from a population of 3; in twos, the last has one."""
    model, (pixels, label) = CNN().eval(), images(3, seed=5)
    g_3xP, _ = single_gradients(model, image_losses, (pixels, label))
    mean_P = g_3xP.mean(dim=0)
    true_variance = float((g_3xP - mean_P).square().sum() / 3)
    for micro_batch_rows in (1, 2):
        found = [
            gradient_statistics(
                model,
                image_losses,
                [(pixels[list(d)], label[list(d)])],
                micro_batch_rows=micro_batch_rows,
            )
            for d in itertools.product(range(3), repeat=3)
        ]
        variance, unbiased, plug_in = (
            np.mean([getattr(s, name)[0] for s in found])
            for name in ("variance_K", "squared_norm_unbiased_K", "squared_norm_K")
        )
        assert variance == pytest.approx(true_variance, rel=1e-4)
        assert unbiased == pytest.approx(float(mean_P.square().sum()), rel=1e-3)
        # The plug-in norm is larger by the variance of the mean.
        assert plug_in == pytest.approx(float(mean_P.square().sum()) + true_variance / 3, rel=1e-4)


def test_inner_products_of_many_numbers_keep_their_digits():
    # One float32 sum of ten million squares is off by 1e-4 on a CPU.
    part = torch.rand(10_000_000, generator=torch.Generator().manual_seed(0))
    exact = float(part.double().square().sum())
    assert float(inner_product([part], [-2 * part])) == pytest.approx(-2 * exact, rel=2e-6)


# On two ranks, each with every second row; the first has one row more.

COUNTS, SHARES = (5, 3), (5 / 8, 3 / 8)


def sharded(model):
    from torch.distributed.fsdp import fully_shard

    for module in list(model.modules()):
        if isinstance(module, nn.ModuleList):
            for layer in module:
                fully_shard(layer)
    return fully_shard(model)


def domains_of(kind, rank):
    rows = KINDS[kind][2]
    return {
        n: halves(rows(c, seed=k + 1), rank)
        for k, (n, c) in enumerate(zip("ab", COUNTS, strict=True))
    }


def whole(model):
    """The gradient in the parameters."""
    parts = [p.grad for p in model.parameters()]
    parts = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in parts]
    return torch.cat([p.flatten() for p in parts])


def measured_on_rank(rank, ways):
    found = {}
    for kind, how in ways:
        model, loss_fn, _ = made(kind)
        model = DistributedDataParallel(model) if how == "ddp" else sharded(model)
        domains = domains_of(kind, rank)
        statistics = gradient_statistics(model, loss_fn, domains)
        gram_KxK, _ = gramian(model, loss_fn, domains)
        # The training goes on: its own pass reduces as if nothing had been.
        loss_fn(model, domains["a"]).mean().backward()
        trained = whole(model)
        model.zero_grad()
        counted = gradient_statistics(model, loss_fn, domains, coefficients=SHARES)
        found[kind, how] = (statistics, counted), gram_KxK, trained, whole(model)
        if how == "ddp":
            with pytest.raises(InputError, match=r"processes \[1\] have no rows"):
                gradient_statistics(model, loss_fn, [domains["a"] if rank == 0 else None])
            model.static_graph = True
            with pytest.raises(InputError, match="leave static_graph away"):
                gradient_statistics(model, loss_fn, domains)
    return found


WAYS = [("cnn", "ddp"), ("cnn", "fsdp"), ("gpt2", "ddp"), ("gpt2", "fsdp")]


@pytest.mark.slow
def test_two_ranks_measure_all_rows(tmp_path):
    ways = WAYS if importlib.util.find_spec("transformers") else WAYS[:2]
    first, second = on_two_ranks(measured_on_rank, tmp_path, ways)
    for kind, how in ways:
        model, loss_fn, rows = made(kind)
        truth = [
            single_gradients(model, loss_fn, rows(c, seed=k + 1)) for k, c in enumerate(COUNTS)
        ]
        means = [g_RxP.mean(dim=0) for g_RxP, _ in truth]
        step = sum(share * g for share, g in zip(SHARES, means, strict=True)).float()
        for measured, gram_KxK, _, accumulated in (first[kind, how], second[kind, how]):
            for statistics, (k, of_rows) in itertools.product(measured, enumerate(truth)):
                check(statistics, k, *of_rows)
            assert gram_KxK[0, 1] == pytest.approx(float(means[0] @ means[1]), rel=1e-4)
            torch.testing.assert_close(accumulated, step, rtol=1e-3, atol=1e-5)
        same, other = first[kind, how][0][0], second[kind, how][0][0]
        for name in vars(same):
            assert getattr(same, name).tolist() == getattr(other, name).tolist()
        # Each rank's mean over its own rows, and the mean of the two.
        own = [single_gradients(model, loss_fn, domains_of(kind, r)["a"])[0] for r in range(2)]
        expected = (sum(g_RxP.mean(dim=0) for g_RxP in own) / 2).float()
        torch.testing.assert_close(first[kind, how][2], expected, rtol=1e-3, atol=1e-5)
