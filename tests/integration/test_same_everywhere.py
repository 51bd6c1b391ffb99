"""One rule on the same rows: the same weights and counts in every training loop."""

import numpy as np
import pytest
import ways
from ranks import on_two_ranks

from pipeline.runtime import atomic_files
from pipeline.training import train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=ways.METHODS)
def run(request, write_run, tmp_path_factory, corpora):
    """A run of the pipeline's own loop, and the weights and counts of its steps."""
    folder = tmp_path_factory.mktemp(request.param)
    path = write_run(folder, **ways.changes(request.param))
    train.pretrain(path, corpora, device="cpu")
    return path, recorded(path)


def recorded(path):
    import pyarrow.parquet as pq

    domains = atomic_files.read_json(path)["domains"]
    rows = pq.read_table(path.parent / "weights.parquet").to_pylist()
    found = {(row["step"], row["domain"]): row for row in rows}
    return [
        [[found[step, d][what] for d in domains] for what in ways.WHAT]
        for step in range(ways.STEPS)
    ]


def same(seen, expected):
    weights, counts = (np.array(seen)[:, i] for i in range(2))
    wanted_weights, wanted_counts = (np.array(expected)[:, i] for i in range(2))
    np.testing.assert_array_equal(counts, wanted_counts)
    np.testing.assert_allclose(weights, wanted_weights, atol=1e-6)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_a_plain_loop(run, corpora, accumulation):
    path, expected = run
    same(ways.plain(ways.Way(path, corpora, ways.ROWS // accumulation)), expected)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_trainer_of_transformers(run, corpora, accumulation, tmp_path):
    pytest.importorskip("accelerate")
    path, expected = run
    way = ways.Way(path, corpora, ways.ROWS // accumulation)
    same(ways.trained(way, tmp_path), expected)
    assert len(way.logged) == ways.STEPS
    assert way.logged[-1]["mixing/weight/easy"] == way.seen[-1][0][0]


@pytest.mark.parametrize("accumulation", [1, 4])
def test_lightning(run, corpora, accumulation, tmp_path):
    pytest.importorskip("lightning")
    path, expected = run
    way = ways.Way(path, corpora, ways.ROWS // accumulation)
    same(ways.lightning(way, tmp_path), expected)


def test_accelerate(run, corpora):
    pytest.importorskip("accelerate")
    path, expected = run
    same(ways.accelerated(ways.Way(path, corpora, ways.ROWS // 4)), expected)


def of_rank(rank, paths, corpora, folder):
    """Every rule in five loops."""
    found = {}
    for rule, path in paths.items():
        found[rule] = {
            "accelerate": ways.accelerated(ways.Way(path, corpora, 2, world=2)),
            "ddp": ways.distributed_plain(ways.Way(path, corpora, 4, world=2)),
            "fsdp": ways.distributed_sharded(ways.Way(path, corpora, 4, world=2)),
            "lightning": ways.distributed_lightning(ways.Way(path, corpora, 2, world=2), folder),
            "trainer": ways.trained(ways.Way(path, corpora, 2, world=2), folder),
        }
    return found


def test_two_ranks(write_run, tmp_path, corpora):
    pytest.importorskip("accelerate")
    pytest.importorskip("lightning")
    pytest.importorskip("transformers")
    paths = {}
    for rule in ways.METHODS:
        paths[rule] = write_run(tmp_path / rule, **ways.changes(rule))
        train.pretrain(paths[rule], corpora, device="cpu")
    for found in on_two_ranks(of_rank, tmp_path, paths, corpora, tmp_path / "out"):
        for rule, ways_of_rule in found.items():
            for seen in ways_of_rule.values():
                same(seen, recorded(paths[rule]))
