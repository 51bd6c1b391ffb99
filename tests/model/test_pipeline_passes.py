"""The engine with the pipeline's passes: statistics out of the training pass, and their truth."""

import dataclasses

import numpy as np
import pytest
import torch
from recipes import recipe
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pike_mixing.interface import StatisticsNeed
from pike_mixing.rules.adatask import AdaTask
from pike_mixing.rules.static import Mix
from pike_mixing.rules.surgery import PCGrad
from pike_mixing.torch import PerDomainAdamW, gradient_statistics
from pike_mixing.torch.pass_interface import Passes
from pike_mixing.torch.step_gradient import StepGradient
from pike_mixing.torch.step_rows import DealtRows
from pipeline import settings
from pipeline.model import adamw
from pipeline.model.pipeline_passes import PipelinePasses, row_losses
from pipeline.model.transformer import initial_model, token_losses

SHAPE = settings.Model(layers=1, width=8, heads=2, head_width=4)
RECIPE = recipe()
DOMAINS = ("one", "two", "three", "four")
COUNTS = [[5, 4, 0, 0], [3, 1, 0, 5], [0, 0, 0, 9], [2, 2, 2, 3]]
"""Nine rows of four domains; some have none, some have a single one."""


def batch(counts):
    generator = torch.Generator().manual_seed(3)
    return torch.randint(12, (sum(counts), 7), generator=generator), np.array(counts)


def step(net, given, method, micro_batch_rows=4, statistics_micro_batch_rows=2, max_norm=1e9):
    """The gradient of a step of the library's engine, and its optimizer."""
    passes, (tokens, count_K) = PipelinePasses(net), given
    moments = method.needs().moments_per_domain
    optimizer = (
        adamw.build_per_domain_adamw(net, RECIPE, 4) if moments else adamw.build_adamw(net, RECIPE)
    )
    passing = StepGradient(
        net,
        passes,
        micro_batch_rows=micro_batch_rows,
        statistics_micro_batch_rows=statistics_micro_batch_rows,
        optimizer=optimizer,
        max_norm=max_norm,
    )
    rows = DealtRows(passes, tokens, count_K, micro_batch_rows)
    return passing.compute(method, method.init(DOMAINS, 0), 0, rows), optimizer


def left(method, given, **options):
    """What a pass leaves, and the gradient or moments; weights and rows are always the same."""
    net = initial_model(SHAPE, 12, 0)
    found, optimizer = step(net, given, method, **options)
    moments = method.needs().moments_per_domain
    kept = [p.grad for p in net.parameters()]
    if moments:
        states = [optimizer.state[p] for p in net.parameters()]
        kept = [state[name] for state in states for name in sorted(state) if "exp_avg_" in name]
    return found, torch.cat([part.flatten() for part in kept])


def measuring(method):
    """A method of the same class that wants statistics of the batch, too."""
    needs = dataclasses.replace(
        method.needs(), statistics=StatisticsNeed(first=0, every=1, fresh=False, rows=1)
    )
    kind = type(method)
    return type(f"Measuring{kind.__name__}", (kind,), {"needs": lambda self: needs})()


def by_domain(given):
    tokens, count_K = given
    return tokens.split(count_K.tolist())


def of_rows(tokens_RxL1):
    """Gradient of each row's loss, R x P in float64."""
    net = initial_model(SHAPE, 12, 0)
    found = []
    for row in tokens_RxL1:
        parts = torch.autograd.grad(row_losses(net, row[None]).mean(), list(net.parameters()))
        found.append(torch.cat([part.flatten().double() for part in parts]))
    return torch.stack(found)


def same(ours, theirs):
    torch.testing.assert_close(vars(ours), vars(theirs), rtol=1e-5, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("microbatch", [1, 2, 3])
def test_the_training_pass_measures_what_a_pass_of_its_own_does(counts, microbatch):
    given = batch(counts)
    found, _ = left(measuring(Mix()), given, statistics_micro_batch_rows=microbatch)
    net = initial_model(SHAPE, 12, 0)
    own = gradient_statistics(net, row_losses, by_domain(given), micro_batch_rows=microbatch)
    same(found.signals.statistics, own)
    assert found.signals.statistics.rows_K.tolist() == counts


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("method", [Mix(), PCGrad(), AdaTask()], ids=["mix", "pcgrad", "adatask"])
def test_measuring_leaves_the_gradient_of_an_ordinary_step(method, counts):
    plain, expected = left(method, batch(counts))
    found, gradient = left(measuring(method), batch(counts))
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-7)
    assert plain.signals.statistics is None
    assert found.signals.statistics is not None
    assert found.gradient_norm == pytest.approx(plain.gradient_norm, rel=1e-5)
    torch.testing.assert_close(
        found.signals.loss_K, plain.signals.loss_K, rtol=1e-6, atol=0, equal_nan=True
    )


def test_the_gradient_is_shortened_after_it_is_measured():
    found, gradient = left(measuring(Mix()), batch([5, 4, 0, 0]), max_norm=0.01)
    assert gradient.norm().item() == pytest.approx(0.01, rel=1e-4)
    unclipped, _ = left(measuring(Mix()), batch([5, 4, 0, 0]))
    same(found.signals.statistics, unclipped.signals.statistics)


def test_weights_of_the_losses_count_in_a_measured_pass_too():
    @dataclasses.dataclass(frozen=True)
    class Tilted(Mix):
        def loss_weights(self, state, signals):
            return np.array([0.9, 0.1, 0.0, 0.0])

    given = batch([5, 4, 0, 0])
    found, gradient = left(measuring(Tilted()), given)
    g_RxP = of_rows(given[0])
    expected = 0.9 * g_RxP[:5].mean(dim=0) + 0.1 * g_RxP[5:].mean(dim=0)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-4, atol=1e-6)
    # The statistics are of the domains' own losses, whatever they count.
    assert found.signals.statistics.squared_norm_K[1] == pytest.approx(
        g_RxP[5:].mean(dim=0).square().sum().item(), rel=1e-4
    )


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
    def most(method):
        net = initial_model(SHAPE, 37, 0)
        with Embeddings(net.embedding.weight.nbytes) as watch:
            step(
                net, batch([2, 2, 2, 3]), method, micro_batch_rows=1, statistics_micro_batch_rows=1
            )
        return watch.most

    assert most(measuring(method)) == most(Mix()) + extra


def test_excess_clips_each_token_before_the_mean():
    model, other = initial_model(SHAPE, 16, 0), initial_model(SHAPE, 16, 1)
    tokens = torch.randint(0, 16, (5, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        above = (token_losses(model, tokens) - token_losses(other, tokens)).clamp(min=0)
    expected = [above[:3].mean().item(), above[3:].mean().item()]
    passes = PipelinePasses(model, other)
    for size in (1, 2, 5):
        passing = StepGradient(model, passes, micro_batch_rows=size, statistics_micro_batch_rows=1)
        excess_K = passing.domain_means(
            passes.clipped_excess_losses, DealtRows(passes, tokens, np.array([3, 0, 2]), size)
        )
        assert excess_K[[0, 2]].tolist() == pytest.approx(expected, rel=1e-5)
        assert np.isnan(excess_K[1])


@pytest.mark.parametrize(
    ("own", "base"), [(PipelinePasses, Passes), (adamw.CompiledPerDomainAdamW, PerDomainAdamW)]
)
def test_each_method_replaces_one_that_the_library_calls(own, base):
    """One of another name would never be called, and only a device that compiles would show it."""
    assert {name for name, value in vars(own).items() if callable(value)} <= {*dir(base)}
