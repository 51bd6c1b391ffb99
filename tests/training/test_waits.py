"""What a step costs beside its arithmetic: waits for the device, collectives, graph breaks.

A GPU computes while the host goes on, until the host reads a number. All of this is counted on the
CPU: each read, each collective and the optimizer's launch leave their names in a list.
"""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from trained import loop_of

from pike_mixing import registry
from pike_mixing.errors import InputError
from pike_mixing.torch import parallel
from pike_mixing.torch.engine import Engine
from pike_mixing.torch.passes import Passes
from pike_mixing.torch.step_gradient import StepGradient
from pike_mixing.torch.step_rows import DealtRows
from pipeline import settings
from pipeline.data.batches import Mixture
from pipeline.data.shards import Corpus
from pipeline.model import layers, models, transformer
from pipeline.model.passes import PipelinePasses
from pipeline.training.train import MixedRows

SHAPE = settings.Model(layers=2, width=16, heads=2, head_width=8)
PIKE = {"zeta1": 0.5, "zeta2": 0.1, "every": 2, "rows": 3}
METHODS = {
    "mix": {"rule": "mix"},
    "pike": {"rule": "pike", "method": PIKE},
    "pike-of-the-batch": {"rule": "pike", "method": {**PIKE, "batch": "training"}},
    "famo": {"rule": "famo"},
    "pcgrad": {"rule": "pcgrad"},
    "adatask": {"rule": "adatask"},
}


class Reads(TorchDispatchMode):
    """Notes each number that Python takes out of a tensor."""

    def __init__(self, events):
        super().__init__()
        self.events = events

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        # The loss compares its slope with 1 on a CPU alone; steps are counted in its memory.
        reads = function is torch.ops.aten._local_scalar_dense.default
        if reads and args[0].is_floating_point():
            self.events.append("item")
        return function(*args, **(kwargs or {}))


def noted(events, passes, optimizer):
    """Has transfers, waits for them and the optimizer leave their names."""
    fetch, step = passes.fetch, optimizer.step

    def fetching(tensor):
        wait = fetch(tensor.clone())
        number = sum(event.startswith("fetch") for event in events)
        events.append(f"fetch {number}")

        def waiting():
            events.append(f"wait {number}")
            # What is on the host is no wait any more.
            with torch.utils._python_dispatch._disable_current_modes():
                return wait()

        return waiting

    passes.fetch = fetching
    optimizer.step = lambda: (events.append("optimizer"), step())


def events_of(run, corpora):
    """What happens in each step of a run: lists of events, each ending with the optimizer."""
    with loop_of(run, corpora) as loop:
        events = []
        noted(events, loop.engine.gradient.passes, loop.optimizer)
        with Reads(events):
            loop.run()
    result = [[]]
    for event in events:
        result[-1].append(event)
        if event == "optimizer":
            result.append([])
    return result


def stalls(events):
    """Waits for what was fetched last, after which a device has nothing to do."""
    result, newest, before = 0, None, None
    for event in events:
        kind, _, number = event.partition(" ")
        newest = number if kind == "fetch" else newest
        # A tensor that is here is read as often as one likes.
        result += kind == "wait" and number in (newest, None) and event != before
        before = event
    return result


@pytest.mark.parametrize("name", METHODS)
def test_a_step_waits_at_most_once_and_without_measurements_not_at_all(make_run, corpora, name):
    steps = events_of(make_run(**METHODS[name]), corpora)
    assert len(steps) == 6 + 1
    for number, events in enumerate(steps[:6]):
        assert "item" not in events, events
        # Losses before the pass and after the update are two measurements.
        assert stalls(events) <= 1 + (name == "famo"), (number, events)
    if name == "mix":
        # Step 4 is launched before anything of step 3 is waited for. Step 3 ends in a checkpoint.
        assert steps[4] == ["fetch 4", "optimizer"]
        assert steps[5] == ["wait 3", "fetch 5", "optimizer"]


class Ones:
    """Rows of equal tokens; of the meta device, rows without numbers."""

    domains, batch_rows, seed = ("one", "two"), 4, 0

    def __init__(self, passes, micro_batch=1, device="cpu"):
        self.passes, self.micro_batch, self.device = passes, micro_batch, device

    def rows_of(self, purpose, positions_K, count_K):
        batch = torch.ones((int(count_K.sum()), 9), dtype=torch.int64, device=self.device)
        return DealtRows(self.passes, batch, count_K, self.micro_batch)


def test_a_step_of_mix_is_launched_where_no_number_can_be_read():
    with torch.device("meta"):
        model = transformer.Transformer(SHAPE, 128)
    passes = PipelinePasses(model)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    gradient = StepGradient(model, passes, micro_batch=2, statistics_micro_batch=1, max_norm=1.0)
    engine = Engine(registry.build("mix", {}, "mix"), Ones(passes, 2, "meta"), gradient)
    for _ in range(3):
        result = engine.backward()
        optimizer.step()
        engine.observe(result)
    with pytest.raises(NotImplementedError, match="meta"):
        _ = result.norm


def test_a_block_has_no_graph_breaks():
    block = torch.compile(layers.Block(SHAPE), backend="eager", fullgraph=True)
    x = torch.randn(2, 8, 16, requires_grad=True)
    block(x, layers.turns(torch.arange(8, device=x.device), 8)).sum().backward()
    assert x.grad is not None


@pytest.fixture
def two_ranks(monkeypatch):
    """One process that believes it is the first of two; the names of its collectives."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    events, all_reduce = [], dist.all_reduce

    def noting(tensor, *args, **kwargs):
        events.append(tensor.numel())
        return all_reduce(tensor, *args, **kwargs)

    monkeypatch.setattr(dist, "all_reduce", noting)
    yield events
    dist.destroy_process_group()


def test_gradients_are_summed_in_buckets_while_the_pass_goes_on(two_ranks, monkeypatch):
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4, bias=False) for _ in range(4)))
    # Two weights of 16 numbers each.
    monkeypatch.setattr(parallel, "BUCKET_BYTES", 2 * 16 * 4)
    hooks = [
        parameter.register_post_accumulate_grad_hook(
            lambda _, number=number: two_ranks.append(f"gradient {number}")
        )
        for number, parameter in enumerate(model.parameters())
    ]
    with parallel.summing([*model.parameters()]):
        model(torch.ones(1, 4)).sum().backward()
    assert two_ranks == ["gradient 3", "gradient 2", 32, "gradient 1", "gradient 0", 32]
    del hooks


def test_a_bucket_without_some_gradient_is_as_large_as_on_other_processes(two_ranks):
    idle, used = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 2, bias=False)
    with parallel.summing([idle.weight, used.weight]):
        used(torch.ones(1, 4)).sum().backward()
    assert two_ranks == [8 + 16]
    assert idle.weight.grad.tolist() == torch.zeros(4, 4).tolist()


def test_a_gradient_in_several_parts_is_not_summed(two_ranks):
    layer, x = torch.nn.Linear(4, 4), torch.ones(1, 4, requires_grad=True)
    for _ in range(2):
        x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=True)
    with (
        pytest.raises(InputError, match="use_reentrant=False"),
        parallel.summing([*layer.parameters()]),
    ):
        x.sum().backward()


def test_a_step_of_two_processes_makes_two_collectives(two_ranks):
    model = transformer.Transformer(SHAPE, 128)
    passes = PipelinePasses(model)
    gradient = StepGradient(model, passes, micro_batch=1, statistics_micro_batch=1, max_norm=1.0)
    engine = Engine(registry.build("mix", {}, "mix"), Ones(passes), gradient)
    engine.backward()
    # All gradients together, then the losses of four rows; one for each of 18 tensors before.
    assert two_ranks == [sum(p.numel() for p in model.parameters()), 4]


@pytest.fixture
def traffic(two_ranks, monkeypatch):
    """The kind of number and the count of each gathering and each scattered sum."""
    seen = {"all_gather_single": [], "reduce_scatter_single": []}
    for name, noted in seen.items():
        collective = getattr(dist, name)

        def noting(output, input, *args, collective=collective, noted=noted, **kwargs):
            noted.append((input.dtype, max(input.numel(), output.numel())))
            return collective(output, input, *args, **kwargs)

        monkeypatch.setattr(dist, name, noting)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("accumulates", [True, False])
def test_a_model_in_shards_is_summed_once_in_a_step_of_several_passes(traffic, accumulates):
    """Blocks travel in bfloat16 and are summed in float32; the embedding is in float32."""
    model = transformer.Transformer(SHAPE, 128)
    model.precision = torch.bfloat16
    block, whole = (transformer.parameter_count(part) for part in (model.blocks[0], model))
    ends = whole - 2 * block
    models.shard(model, torch.device("cpu"))
    passes = PipelinePasses(model)
    passes.accumulates_whole = accumulates
    gradient = StepGradient(model, passes, micro_batch=1, statistics_micro_batch=1, max_norm=1.0)
    engine = Engine(registry.build("mix", {}, "mix"), Ones(passes), gradient)
    assert len(gradient.target.units) == 3
    for noted in traffic.values():
        noted.clear()
    engine.backward()
    # Four rows are two passes of each of two processes.
    sums = 1 if accumulates else 2
    half, full = torch.bfloat16, torch.float32
    assert sorted(traffic["reduce_scatter_single"], key=str) == sorted(
        [(full, block), (full, block), (full, ends)] * sums, key=str
    )
    # A block is put together for the forward and for the backward pass.
    assert traffic["all_gather_single"].count((half, block)) == 2 * 4
    assert {kind for kind, size in traffic["all_gather_single"] if size == ends} == {full}


@pytest.mark.parametrize("micro_batch", [1, 2, 3])
def test_each_process_reads_the_rows_that_it_passes(corpora, monkeypatch, micro_batch):
    """And once each, where no row stands in for those that another process has more."""
    read, read_into = [], Corpus.read_into
    monkeypatch.setattr(
        Corpus,
        "read_into",
        lambda corpus, tokens, row_R: (read.extend(row_R), read_into(corpus, tokens, row_R))[1],
    )
    opened = {domain: Corpus.open(corpora / domain, "train") for domain in ("easy", "hard")}
    mixture = Mixture(opened, 8, 0, "train")
    count_K, start_K = np.array([5, 3]), np.array([2, 0])
    expected = mixture.batch(count_K, start_K)
    rows = MixedRows(
        {"train": mixture},
        Passes(None),
        rows=8,
        seed=0,
        micro_batch=micro_batch,
        device=torch.device("cpu"),
    )
    passed = []
    monkeypatch.setattr(parallel, "world_size", lambda group=None: 2)
    for rank in range(2):
        monkeypatch.setattr(parallel, "rank", lambda group=None, rank=rank: rank)
        read.clear()
        passed += [
            piece.rows for piece in rows.rows_of("train", start_K, count_K).pieces() if piece.counts
        ]
        assert len(read) == 4
    assert sorted(torch.cat(passed).tolist()) == sorted(expected.tolist())
