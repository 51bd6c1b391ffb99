"""Finished runs that tests look at, or copy and harm."""

import shutil

import pytest
import torch

from pipeline.training import train


@pytest.fixture(autouse=True)
def one_thread():
    """Sums differ in the last bits with the number of threads, as they may between processes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def mixed(tmp_path_factory, write_run, corpora):
    """Folder of a finished run of Mix."""
    run = write_run(tmp_path_factory.mktemp("mixed"))
    train.pretrain(run, corpora, device="cpu", threads=1)
    return run.parent


@pytest.fixture(scope="session")
def piked(tmp_path_factory, write_run, corpora, pike):
    """Folder of a finished run of PiKE."""
    run = write_run(tmp_path_factory.mktemp("piked"), **pike)
    train.pretrain(run, corpora, device="cpu", threads=1)
    return run.parent


@pytest.fixture
def finished(piked, tmp_path):
    """A copy of PiKE's run, to be harmed; its `run.json`."""
    return shutil.copytree(piked, tmp_path / "finished") / "run.json"
