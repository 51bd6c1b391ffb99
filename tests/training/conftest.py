"""Finished runs that tests look at, or copy and harm."""

import shutil

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Sums differ in the last bits with the number of threads, as they may between processes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def finished(piked, tmp_path):
    """A copy of PiKE's run, to be harmed; its `run.json`."""
    return shutil.copytree(piked, tmp_path / "finished") / "run.json"
