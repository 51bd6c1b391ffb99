"""One rule on the same rows: the same weights and counts in every training loop."""

import importlib.util

import numpy as np
import pytest
import torch
import ways
from ranks import on_two_ranks

from pipeline.model import checkpoint
from pipeline.runtime import atomic_files
from pipeline.training import train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(write_run, tmp_path_factory, corpora):
    """By rule: a run of the pipeline's own loop, what came of it, and DoReMi's reference."""
    reference = write_run(tmp_path_factory.mktemp("reference"))
    train.pretrain(reference, corpora, device="cpu")
    found = {}
    for rule in ways.METHODS:
        path = write_run(tmp_path_factory.mktemp(rule), **ways.changes(rule))
        over = reference.parent if rule == "doremi" else None
        train.pretrain(path, corpora, device="cpu", reference=over)
        found[rule] = path, recorded(path), over and last(over)
    return found


@pytest.fixture(params=ways.METHODS)
def run(request, runs):
    """The run of a rule."""
    return runs[request.param]


def last(folder):
    """The last checkpoint of a run."""
    return max(atomic_files.step_entries(folder / "checkpoints").items())[1]


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


ALONE = {
    "plain": ("torch", ways.plain),
    "trainer": ("accelerate", ways.trained),
    "lightning": ("lightning", ways.lightning),
    "accelerate": ("accelerate", ways.accelerated),
    "fabric": ("lightning", ways.fabric),
}
"""Loops of one process: a package that each needs, and what trains."""
TOGETHER = ALONE | {
    "plain": ("torch", ways.distributed_plain),
    "sharded": ("torch", ways.distributed_sharded),
    "lightning": ("lightning", ways.distributed_lightning),
}
"""Those of two processes."""


@pytest.mark.parametrize(
    ("loop", "accumulation"),
    [
        ("plain", 1),
        *((loop, 4) for loop in ALONE),
    ],
)
def test_one_process(run, corpora, loop, accumulation, tmp_path):
    package, trained = ALONE[loop]
    pytest.importorskip(package)
    path, expected, reference = run
    way = ways.Way(path, corpora, ways.ROWS // accumulation, tmp_path, reference=reference)
    same(trained(way), expected)
    if loop == "trainer":
        assert len(way.logged) == ways.STEPS
        assert way.logged[-1]["mixing/weight/easy"] == way.seen[-1][0][0]


def of_rank(rank, runs, corpora, folder):
    """Every rule in every loop whose packages are here."""
    found = {}
    for rule, (path, _, reference) in runs.items():
        for loop, (package, trained) in TOGETHER.items():
            if importlib.util.find_spec(package):
                rows = 4 if package == "torch" else 2
                way = ways.Way(path, corpora, rows, folder, world=2, reference=reference)
                found[rule, loop] = trained(way)
    return found


def test_two_ranks(runs, tmp_path, corpora):
    for found in on_two_ranks(of_rank, tmp_path, runs, corpora, tmp_path / "out"):
        assert len(found) >= 2 * len(runs)
        for (rule, _), outcome in found.items():
            same(outcome, runs[rule][1])
