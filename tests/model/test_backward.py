"""Statistics out of the training pass, against a pass of their own and single rows' gradients."""

import dataclasses

import numpy as np
import pytest
import torch
from recipes import recipe
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pike_mixing.interface import Statistics
from pike_mixing.rules.adatask import AdaTask
from pike_mixing.rules.mix import Mix
from pike_mixing.rules.pcgrad import PCGrad
from pipeline import settings
from pipeline.model import adamw, gradients, per_domain_adamw
from pipeline.model.backward import Batch, GradientComputer
from pipeline.model.transformer import initialised, token_losses

SHAPE = settings.Model(layers=1, width=8, heads=2, head_width=4)
RECIPE = recipe()
DOMAINS = ("one", "two", "three", "four")
COUNTS = [[5, 4, 0, 0], [3, 1, 0, 5], [0, 0, 0, 9], [2, 2, 2, 3]]
"""Nine rows of four domains; some have none, some have a single one."""


def batch(counts):
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(12, (sum(counts), 7), generator=generator)
    return Batch(tokens, np.array(counts))


def left(method, given, measured_by, microbatch=4, clip_norm=1e9):
    """What a pass leaves, and the gradient or moments; weights and rows are always the same."""
    net = initialised(SHAPE, 12, 0)
    moments = method.needs().moments_per_domain
    optimizer = per_domain_adamw.optimizer(net, RECIPE, 4) if moments else adamw.adamw(net, RECIPE)
    passing = GradientComputer(net, optimizer, clip_norm, microbatch)
    found = passing.compute_gradients(method, method.init(DOMAINS, 0), 0, given, measured_by)
    kept = [optimizer.state[p]["exp_avg"] if moments else p.grad for p in net.parameters()]
    return found, torch.cat([part.flatten() for part in kept])


def of_rows(tokens_RxL1):
    """Gradient of each row's loss, R x P in float64."""
    net = initialised(SHAPE, 12, 0)
    found = []
    for row in tokens_RxL1:
        parts = torch.autograd.grad(token_losses(net, row[None]).mean(), list(net.parameters()))
        found.append(torch.cat([part.flatten().double() for part in parts]))
    return torch.stack(found)


def same(ours, theirs, rtol=1e-5):
    for field in dataclasses.fields(Statistics):
        torch.testing.assert_close(
            getattr(ours, field.name),
            getattr(theirs, field.name),
            rtol=rtol,
            atol=1e-7,
            equal_nan=True,
        )


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("microbatch", [1, 2, 3])
def test_the_training_pass_measures_what_a_pass_of_its_own_does(counts, microbatch):
    given = batch(counts)
    found, _ = left(Mix(), given, microbatch)
    net = initialised(SHAPE, 12, 0)
    same(found.seen.statistics, gradients.gradient_statistics(net, given.by_domain(), microbatch))
    assert found.seen.statistics.rows_K.tolist() == counts


@pytest.mark.parametrize("counts", COUNTS)
def test_measured_row_by_row_it_is_the_truth_of_the_rows(counts):
    given = batch(counts)
    found, _ = left(Mix(), given, 1)
    for k, rows in enumerate(given.by_domain()):
        if len(rows) > 1:
            g_RxP = of_rows(rows)
            expected = [g_RxP.mean(dim=0).square().sum(), g_RxP.var(dim=0).sum()]
            ours = [found.seen.statistics.squared_norm_K[k], found.seen.statistics.variance_K[k]]
            assert ours == pytest.approx([float(e) for e in expected], rel=1e-4)


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("method", [Mix(), PCGrad(), AdaTask()], ids=["mix", "pcgrad", "adatask"])
def test_measuring_leaves_the_gradient_of_an_ordinary_step(method, counts):
    plain, expected = left(method, batch(counts), None)
    found, gradient = left(method, batch(counts), 2)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-7)
    assert plain.seen.statistics is None
    assert found.seen.statistics is not None
    assert found.norm == pytest.approx(plain.norm, rel=1e-5)
    torch.testing.assert_close(
        found.seen.loss_K, plain.seen.loss_K, rtol=1e-6, atol=0, equal_nan=True
    )


def test_the_gradient_is_shortened_after_it_is_measured():
    found, gradient = left(Mix(), batch([5, 4, 0, 0]), 2, clip_norm=0.01)
    assert gradient.norm().item() == pytest.approx(0.01, rel=1e-4)
    unclipped, _ = left(Mix(), batch([5, 4, 0, 0]), 2)
    same(found.seen.statistics, unclipped.seen.statistics)


def test_weights_of_the_losses_count_in_a_measured_pass_too():
    @dataclasses.dataclass(frozen=True)
    class Tilted(Mix):
        def loss_weights(self, state, signals):
            return np.array([0.9, 0.1, 0.0, 0.0])

    given = batch([5, 4, 0, 0])
    found, gradient = left(Tilted(), given, 2)
    g_RxP = of_rows(given.tokens_BxL1)
    expected = 0.9 * g_RxP[:5].mean(dim=0) + 0.1 * g_RxP[5:].mean(dim=0)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-4, atol=1e-6)
    # The statistics are of the domains' own losses, whatever they count.
    assert found.seen.statistics.squared_norm_K[1] == pytest.approx(
        g_RxP[5:].mean(dim=0).square().sum().item(), rel=1e-4
    )


def test_no_row_passes_twice(monkeypatch):
    seen = []
    plain = gradients._backward

    def counting(model, piece, *others):
        seen.append(piece.rows)
        return plain(model, piece, *others)

    monkeypatch.setattr(gradients, "_backward", counting)
    for method in (Mix(), PCGrad(), AdaTask()):
        seen.clear()
        left(method, batch([3, 1, 0, 5]), 2)
        assert seen == [2, 1, 1, 2, 2, 1]


class Embeddings(TorchDispatchMode):
    """Counts the tensors as large as the embedding that live at the same time."""

    def __init__(self, size):
        super().__init__()
        self.size, self.alive, self.most = size, {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf.untyped_storage().nbytes() == self.size:
                storage = leaf.untyped_storage()
                self.alive[storage._cdata] = StorageWeakRef(storage)
        self.alive = {key: ref for key, ref in self.alive.items() if not ref.expired()}
        self.most = max(self.most, len(self.alive))
        return out


@pytest.mark.parametrize(("method", "extra"), [(Mix(), 1), (PCGrad(), 3)])
def test_measuring_takes_one_gradient_of_memory_and_a_gramian_one_per_domain(method, extra):
    def most(method, measured_by):
        net = initialised(SHAPE, 37, 0)
        passing = GradientComputer(net, adamw.adamw(net, RECIPE), 1.0, 1)
        state, given = method.init(DOMAINS, 0), batch([2, 2, 2, 3])
        with Embeddings(net.embedding.weight.nbytes) as watch:
            passing.compute_gradients(method, state, 0, given, measured_by)
        return watch.most

    assert most(method, 1) == most(Mix(), None) + extra


def test_without_a_need_nothing_listens():
    # The norms of micro-batches cost as much as adding them up: only the variance wants them.
    net = initialised(SHAPE, 12, 0)
    _, _, measured = gradients.gramian(net, batch([5, 4, 0, 0]).by_domain(), 2, with_variance=False)
    assert np.isnan(measured.variance_K).all()
    assert not np.isnan(measured.squared_norm_K[:2]).any()
