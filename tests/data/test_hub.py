from collections import Counter

import pytest

from pipeline.data import sources
from pipeline.errors import InputError

datasets = pytest.importorskip("datasets", reason="the extra `hub` is not installed")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def offline(monkeypatch):
    """What HF_HUB_OFFLINE=1 sets when these packages are imported."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)


def source(**values):
    known = {
        "kind": "huggingface",
        "dataset": "nobody/nothing",
        "split": "train",
        "revision": COMMIT,
        "field": "text",
        "bytes": 1000,
        "licence": "ODC-BY",
    }
    return sources.parse({**known, **values}, "sources.web")


@pytest.fixture
def dataset(tmp_path):
    """A dataset in a folder, which `datasets` reads as it reads one of the Hub."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.jsonl").write_text(
        '{"text": "one", "n": 1}\n{"text": null, "n": 2}\n'
        '{"text": " ", "n": 3}\n{"text": "two", "n": 4}\n'
    )
    return str(tmp_path / "set")


def test_documents_come_in_stored_order(dataset, offline):
    skipped = Counter()
    found = list(source(dataset=dataset).read(skipped))
    assert found == [("train:1", "one"), ("train:4", "two")]
    assert skipped == {"null": 1, "blank": 1}
    assert source(dataset=dataset).facts("")["revision"] == COMMIT


def test_files_may_be_chosen(dataset, offline, tmp_path):
    (tmp_path / "set" / "other.jsonl").write_text('{"text": "other"}\n')
    for chosen in ("other.jsonl", ["other.jsonl"]):
        found = source(dataset=dataset, data_files=chosen).read(Counter())
        assert [text for _, text in found] == ["other"]


@pytest.mark.parametrize("revision", ["main", "v1.0", COMMIT[:39], COMMIT.upper()])
def test_a_revision_that_can_change_is_refused(revision):
    with pytest.raises(InputError, match=r"sources\.web\.revision: .* 40 hex digits"):
        source(revision=revision)


def test_a_stream_needs_a_limit():
    with pytest.raises(InputError, match="bytes: must be at least 1"):
        source(bytes=0)


def test_a_missing_column_is_named_with_those_there_are(dataset, offline):
    with pytest.raises(InputError, match="no column 'content'; columns: 'text', 'n'"):
        list(source(dataset=dataset, field="content").read(Counter()))


def test_a_column_of_numbers_is_no_text(dataset, offline):
    with pytest.raises(InputError, match="train:1: 'n' is 1, not a text"):
        list(source(dataset=dataset, field="n").read(Counter()))


def test_an_unknown_split_is_named_with_those_there_are(dataset, offline):
    with pytest.raises(InputError, match=r"cannot be opened.*trian.*'train'"):
        list(source(dataset=dataset, split="trian").read(Counter()))


def test_without_a_connection_the_message_says_what_to_do(offline):
    with pytest.raises(InputError, match=r"'nobody/nothing' at 0123.*connection.*HF_HUB_OFFLINE"):
        list(source().read(Counter()))
