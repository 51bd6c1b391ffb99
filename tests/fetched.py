"""The stand-ins of all tasks, fetched, and real tokenizers of their three languages."""

import pytest

from benchmarks import standins


@pytest.fixture(scope="session")
def standin():
    """Arguments of `fetch` that take a task's stand-in."""
    return lambda task: {"revision": standins.OTHER, "taken": standins.taken(task)}


@pytest.fixture(scope="session")
def benchmarks(tmp_path_factory):
    """Folder with the stand-ins of all tasks, fetched."""
    return standins.fetched(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="session")
def asked():
    """Settings of a stand-in."""
    return standins.asked


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory):
    """Unigram and BPE models of English, German and Hindi, with and without line breaks."""
    return standins.tokenizers(tmp_path_factory.mktemp("tokenizers"))
