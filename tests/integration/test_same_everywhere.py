"""One rule on the same rows: the same weights and counts in every training loop."""

import itertools

import numpy as np
import pytest
import torch
import ways
from ranks import on_two_ranks

from pipeline.model import checkpoint
from pipeline.runtime import atomic_files
from pipeline.training import train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=ways.METHODS)
def run(request, write_run, tmp_path_factory, corpora, reference):
    """A run of the pipeline's own loop; weights and counts of its steps, and the trained model."""
    path = write_run(tmp_path_factory.mktemp(request.param), **ways.changes(request.param))
    train.pretrain(path, corpora, device="cpu", reference=of_rule(request.param, reference))
    return path, recorded(path), of_rule(request.param, last(reference))


@pytest.fixture(scope="module")
def reference(write_run, tmp_path_factory, corpora):
    """Folder of a finished run of Mix, DoReMi's reference."""
    path = write_run(tmp_path_factory.mktemp("reference"))
    train.pretrain(path, corpora, device="cpu")
    return path.parent


def of_rule(rule, reference):
    """The reference, where the rule has one."""
    return reference if rule == "doremi" else None


def last(folder):
    """The last checkpoint of a run."""
    return max(atomic_files.steps(folder / "checkpoints").items())[1]


def recorded(path):
    import pyarrow.parquet as pq

    domains = atomic_files.read_json(path)["domains"]
    rows = pq.read_table(path.parent / "weights.parquet").to_pylist()
    found = {(row["step"], row["domain"]): row for row in rows}
    steps = [
        [[found[step, d][what] for d in domains] for what in ways.WHAT]
        for step in range(ways.STEPS)
    ]
    return steps, checkpoint.load_model(last(path.parent)).state_dict()


def same(outcome, expected):
    (seen, model), (expected, expected_model) = outcome, expected
    torch.testing.assert_close(model, expected_model, rtol=0, atol=1e-6)
    weights, counts = (np.array(seen)[:, i] for i in range(2))
    wanted_weights, wanted_counts = (np.array(expected)[:, i] for i in range(2))
    np.testing.assert_array_equal(counts, wanted_counts)
    np.testing.assert_allclose(weights, wanted_weights, atol=1e-6)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_a_plain_loop(run, corpora, accumulation):
    path, expected, reference = run
    way = ways.Way(path, corpora, ways.ROWS // accumulation, reference=reference)
    same(ways.plain(way), expected)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_trainer_of_transformers(run, corpora, accumulation, tmp_path):
    pytest.importorskip("accelerate")
    path, expected, reference = run
    way = ways.Way(path, corpora, ways.ROWS // accumulation, reference=reference)
    same(ways.trained(way, tmp_path), expected)
    assert len(way.logged) == ways.STEPS
    assert way.logged[-1]["mixing/weight/easy"] == way.seen[-1][0][0]


@pytest.mark.parametrize("accumulation", [1, 4])
def test_lightning(run, corpora, accumulation, tmp_path):
    pytest.importorskip("lightning")
    path, expected, reference = run
    way = ways.Way(path, corpora, ways.ROWS // accumulation, reference=reference)
    same(ways.lightning(way, tmp_path), expected)


@pytest.mark.parametrize(
    ("package", "loop"), [("accelerate", "accelerated"), ("lightning", "fabric")]
)
def test_accelerate_and_fabric(run, corpora, package, loop):
    pytest.importorskip(package)
    path, expected, reference = run
    way = ways.Way(path, corpora, ways.ROWS // 4, reference=reference)
    same(getattr(ways, loop)(way), expected)


def of_rank(rank, path, corpora, reference, folder):
    """A rule in six loops."""

    def way(micro_batch):
        return ways.Way(path, corpora, micro_batch, world=2, reference=reference)

    return {
        "accelerate": ways.accelerated(way(2)),
        "ddp": ways.distributed_plain(way(4)),
        "fsdp": ways.distributed_sharded(way(4)),
        "fabric": ways.fabric(way(2)),
        "lightning": ways.distributed_lightning(way(2), folder),
        "trainer": ways.trained(way(2), folder),
    }


def test_two_ranks(run, tmp_path, corpora):
    pytest.importorskip("accelerate")
    pytest.importorskip("lightning")
    pytest.importorskip("transformers")
    path, expected, reference = run
    answers = on_two_ranks(of_rank, tmp_path, path, corpora, reference, tmp_path / "out")
    for outcome in itertools.chain(*(found.values() for found in answers)):
        same(outcome, expected)
