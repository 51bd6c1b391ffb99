"""Tiny runs of the loop, and what they end with."""

import contextlib

import pyarrow.parquet as pq
import pytest
import torch
from faults import outcome
from safetensors.numpy import load_file

from pike_mixing import method_registry
from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files, locks, pick_device
from pipeline.runtime.validate_settings import validate
from pipeline.training import inputs
from pipeline.training import train as pretrain


def train(run, corpora):
    pretrain.pretrain(run, corpora, device="cpu")
    return outcome(run.parent)


@contextlib.contextmanager
def loop_of(run, corpora, *, method=None, reference=None, device="cpu", shard=False):
    """The loop of a run that has not begun; `method` stands in for that of its settings."""
    values = atomic_files.read_json(run)
    work = validate(settings.Run, values, str(run))
    method = method or method_registry.build_method(work.rule, work.method, str(run))
    with locks.acquire_lease(run.parent) as held:
        given = inputs.read_inputs(work, method, corpora, reference, None)
        place = pick_device.claim_device(device)
        loop = pretrain._Training(work, method, values, given, place, held, shard=shard)
        with loop.folder.writer:
            yield loop


def train_with(method, run, corpora):
    """The loop with a method that is in no table."""
    with loop_of(run, corpora, method=method) as loop:
        loop.run()
    return outcome(run.parent)


def apart(ours, theirs, table, column):
    """Largest difference of a record's column, relative to the larger value of each pair."""
    a, b = (
        torch.tensor(
            [float("nan") if v is None else v for v in pq.read_table(p)[column].to_pylist()],
            dtype=torch.float64,
        )
        for p in (ours / f"{table}.parquet", theirs / f"{table}.parquet")
    )
    assert a.shape == b.shape
    assert torch.equal(a.isnan(), b.isnan())
    largest = torch.maximum(a.abs(), b.abs()).clamp(min=1e-12)
    return float(((a - b).abs() / largest).nan_to_num().max()) if len(a) else 0.0


def manifest(run):
    return atomic_files.read_json(run.parent / atomic_files.MANIFEST)


def last_state(run):
    """What the checkpoint after six steps holds beside the weights, by dotted names."""
    return load_file(run.parent / "checkpoints" / "step6" / checkpoint.TRAINING)


def rows(result, table):
    return result[table].to_pylist()


def refused(run, corpora):
    with pytest.raises(InputError) as caught:
        train(run, corpora)
    return str(caught.value)
