"""What a step does not do beside its arithmetic: wait for the device, break graphs, read twice."""

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pike_mixing import method_registry
from pike_mixing.errors import InputError
from pike_mixing.torch import parallel
from pike_mixing.torch.engine import Engine
from pike_mixing.torch.pass_interface import Passes
from pike_mixing.torch.step_gradient import StepGradient
from pike_mixing.torch.step_rows import DealtRows
from pipeline import settings
from pipeline.data.batches import DomainRows
from pipeline.data.shards import Corpus
from pipeline.model import transformer
from pipeline.model.pipeline_passes import PipelinePasses
from pipeline.training.train import MixedRows

SHAPE = settings.Model(layers=2, width=16, heads=2, head_width=8)


class Ones:
    """Rows of equal tokens; of the meta device, rows without numbers."""

    domains, batch_rows, seed = ("one", "two"), 4, 0

    def __init__(self, passes, micro_batch_rows=1, device="cpu"):
        self.passes, self.micro_batch_rows, self.device = passes, micro_batch_rows, device

    def draw_rows(self, purpose, positions_K, count_K):
        batch = torch.ones((int(count_K.sum()), 9), dtype=torch.int64, device=self.device)
        return DealtRows(self.passes, batch, count_K, self.micro_batch_rows)


def test_a_step_of_mix_is_launched_where_no_number_can_be_read():
    with torch.device("meta"):
        model = transformer.Transformer(SHAPE, 128)
    passes = PipelinePasses(model)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    gradient = StepGradient(
        model, passes, micro_batch_rows=2, statistics_micro_batch_rows=1, max_norm=1.0
    )
    engine = Engine(
        method_registry.build_method("mix", {}, "mix"), Ones(passes, 2, "meta"), gradient
    )
    for _ in range(3):
        result = engine.backward()
        optimizer.step()
        engine.observe_and_end_step(result)
    with pytest.raises(NotImplementedError, match="meta"):
        _ = result.gradient_norm


def test_a_block_has_no_graph_breaks():
    block = torch.compile(transformer.Block(SHAPE), backend="eager", fullgraph=True)
    x = torch.randn(2, 8, 16, requires_grad=True)
    block(
        x, transformer.rotary_cosines_and_sines(torch.arange(8, device=x.device), 8)
    ).sum().backward()
    assert x.grad is not None


@pytest.fixture
def two_ranks():
    """One process that believes it is the first of two."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("two_ranks")
def test_a_gradient_in_several_parts_is_not_summed():
    layer, x = torch.nn.Linear(4, 4), torch.ones(1, 4, requires_grad=True)
    for _ in range(2):
        x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=True)
    with (
        pytest.raises(InputError, match="use_reentrant=False"),
        parallel.summing_gradients([*layer.parameters()]),
    ):
        x.sum().backward()


@pytest.mark.parametrize("micro_batch_rows", [1, 2, 3])
def test_each_process_reads_the_rows_that_it_passes(corpora, monkeypatch, micro_batch_rows):
    """And once each, where no row stands in for those that another process has more."""
    read, read_rows = [], Corpus.read_rows_into
    monkeypatch.setattr(
        Corpus,
        "read_rows_into",
        lambda corpus, tokens, row_R: (read.extend(row_R), read_rows(corpus, tokens, row_R))[1],
    )
    opened = {domain: Corpus.open(corpora / domain, "train") for domain in ("easy", "hard")}
    mixture = DomainRows(opened, 8, 0, "train")
    count_K, start_K = np.array([5, 3]), np.array([2, 0])
    expected = mixture.read_tokens_at(count_K, start_K)
    rows = MixedRows(
        {"train": mixture},
        Passes(None),
        rows=8,
        seed=0,
        micro_batch_rows=micro_batch_rows,
        device=torch.device("cpu"),
    )
    passed = []
    monkeypatch.setattr(parallel, "world_size", lambda group=None: 2)
    for rank in range(2):
        monkeypatch.setattr(parallel, "rank", lambda group=None, rank=rank: rank)
        read.clear()
        passed += [
            piece.rows
            for piece in rows.draw_rows("train", start_K, count_K).pieces()
            if piece.counts
        ]
        assert len(read) == 4
    assert sorted(torch.cat(passed).tolist()) == sorted(expected.tolist())
