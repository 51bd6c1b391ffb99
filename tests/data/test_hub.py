"""The real clients of the Hub against a small hub on loopback."""

import gzip
import hashlib
import random
import shutil
import time
from collections import Counter
from importlib.util import find_spec
from types import SimpleNamespace

import hub_server
import pyarrow.parquet as pq
import pytest
import yaml
from downloads import download, lines, manifest, parquet, read
from hub_server import COMMIT
from repository import ROOT

from pike_mixing.errors import InputError
from pipeline.data import document_store as store
from pipeline.data import sources, tokenizer
from pipeline.runtime import atomic_files

# Imported by the process alone that runs these tests: it takes seconds.
pytestmark = pytest.mark.skipif(find_spec("datasets") is None, reason="needs the extra `hub`")

NAME = "multilingual/c4-de.tfrecord-{:05d}-of-00004.json.gz"
"""As allenai/c4 names its files."""


def texts(number, count=40):
    draw = random.Random(number)
    return [" ".join(draw.choices("abcdefgh", k=draw.randrange(5, 60))) for _ in range(count)]


def json_lines(values):
    return gzip.compress(lines(*({"text": v, "url": "-"} for v in values)), mtime=0)


def records(values):
    ids = [f"doc {n}" for n in range(len(values))]
    return parquet({"id": ids, "text": values}, row_group_size=7)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The hub, and clients that know no other."""
    impatient = SimpleNamespace(sleep=lambda _: None, time=time.time)
    with hub_server.running() as running:
        for constant, value in {
            "huggingface_hub.constants.ENDPOINT": running.url,
            "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE": running.url
            + "/{repo_id}/resolve/{revision}/{filename}",
            "huggingface_hub.constants.HF_HUB_CACHE": str(tmp_path / "cache"),
            "huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT": 0.3,
            "huggingface_hub.constants.HF_HUB_DISABLE_XET": True,
            "datasets.config.HF_ENDPOINT": running.url,
            "datasets.config.HUB_DATASETS_URL": running.url
            + "/datasets/{repo_id}/resolve/{revision}/{path}",
            "datasets.config.HF_DATASETS_CACHE": tmp_path / "datasets",
            "pipeline.runtime.hub_downloads.FIRST_WAIT": 0.01,
            # The clients themselves wait, before they go on with a file and between pages.
            "huggingface_hub.file_download.time": impatient,
            "huggingface_hub.utils._http.time": impatient,
        }.items():
            monkeypatch.setattr(constant, value)
        running.repositories["datasets/owner/c4"] = {
            **{NAME.format(n): json_lines(texts(n)) for n in range(4)},
            "multilingual/c4-de-validation.tfrecord-00000-of-00001.json.gz": json_lines(texts(9)),
            "multilingual/c4-de-Latn.tfrecord-00000-of-00001.json.gz": json_lines(texts(8)),
            "wiki/20231101.en/train-00000-of-00002.parquet": records(texts(5)),
            "wiki/20231101.en/train-00001-of-00002.parquet": records(texts(6)),
            "README.md": b"---\nconfigs:\n- config_name: de\n  data_files:\n"
            b"  - {split: train, path: 'multilingual/c4-de.*.json.gz'}\n"
            b"  - {split: validation, path: 'multilingual/c4-de-validation.*.json.gz'}\n"
            b"- config_name: wiki\n  data_files: 'wiki/20231101.en/*.parquet'\n---\n",
        }
        yield running


def settings(**values):
    known = {"kind": "huggingface", "dataset": "owner/c4", "revision": COMMIT, "licence": "ODC-BY"}
    return {**known, "field": "text", "bytes": 10**9, **values}


DE = settings(data_files="multilingual/c4-de.*.json.gz")
EVERY = [text for n in range(4) for text in texts(n)]


def content(out):
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.slow
def test_files_come_in_the_order_of_their_names(hub, tmp_path):
    out = download(tmp_path / "a", DE)
    assert read(out) == EVERY
    ids = [name for name, _ in store.read_training_documents(out)]
    assert (ids[0], ids[-1]) == (f"{NAME.format(0)}:1", f"{NAME.format(3)}:40")
    facts = manifest(out)
    assert (facts["revision"], facts["licence"]) == (COMMIT, "ODC-BY")
    assert [file["file"] for file in facts["source_files"]] == [NAME.format(n) for n in range(4)]
    identity = hashlib.sha256(json_lines(texts(0))).hexdigest()
    assert facts["source_files"][0]["identity"] == identity
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["web", "web.json"]


@pytest.mark.slow
def test_files_that_a_budget_does_not_need_are_not_fetched(hub, tmp_path):
    out = download(tmp_path / "a", {**DE, "bytes": 500})
    assert read(out) == EVERY[: len(read(out))]
    assert 500 <= manifest(out)["bytes"] < 500 + 120
    assert set(hub.sent) == {"README.md", NAME.format(0)}


@pytest.mark.slow
def test_a_configuration_names_its_files(hub, tmp_path):
    assert read(download(tmp_path / "a", settings(config="de"))) == EVERY
    other = settings(config="de", split="validation")
    assert read(download(tmp_path / "b", other)) == texts(9)
    wiki = download(tmp_path / "c", settings(config="wiki"))
    assert read(wiki) == texts(5) + texts(6)
    assert [name for name, _ in store.read_training_documents(wiki)][:2] == ["doc 0", "doc 1"]


@pytest.mark.slow
def test_the_validation_split_of_a_dataset_is_its_validation_text(hub, tmp_path):
    beside = DE | {"validation_data_files": "multilingual/c4-de-validation.*.json.gz"}
    limited = beside | {"validation_bytes": 1}
    split = settings(config="de", validation_split="validation")
    for name, values, expected in (
        ("files", beside, texts(9)),
        ("bytes", limited, texts(9)[:1]),
        ("split", split, texts(9)),
    ):
        out = download(tmp_path / name, values)
        assert read(out) == EVERY
        assert pq.read_table(out / "validation.parquet")["text"].to_pylist() == expected
        facts = manifest(out)
        (file,) = facts["validation"]["source_files"]
        assert "c4-de-validation" in file["file"]
        assert (facts["documents"], facts["validation"]["documents"]) == (160, len(expected))


CARD = """---
configs:
- {config_name: sample-100BT, data_files: sample/100BT/*}
- {config_name: 20231101.en, data_files: 20231101.en/train-*}
- config_name: realnewslike
  data_files:
  - {split: train, path: realnewslike/c4-train.*}
  - {split: validation, path: realnewslike/c4-validation.*}
---
"""
OF_CONFIG = {
    "sample-100BT": "sample/100BT/000_00000.parquet",
    "20231101.en": "20231101.en/train-00000-of-00041.parquet",
    "realnewslike": "realnewslike/c4-train.00000-of-00512.json.gz",
}


@pytest.mark.slow
def test_every_source_of_the_paper_is_found_by_its_settings(hub):
    every = yaml.safe_load((ROOT / "workflow/configs/paper.yaml").read_text())["sources"]
    first = {
        name: OF_CONFIG.get(one.get("config")) or one["data_files"].replace("*", "00000")
        for name, one in every.items()
    }
    # All lie in one repository: each source has to find its own among the files of the others.
    held_out = [path.replace("c4-train", "c4-validation") for path in first.values()]
    held_out += [path.replace(".", "-validation.", 1) for path in first.values() if "/c4" in path]
    hub.repositories["datasets/owner/c4"] = {"README.md": CARD.encode()} | {
        path: (records if path.endswith(".parquet") else json_lines)([path])
        for path in (*held_out, *first.values())
    }
    for name, one in every.items():
        values = {**one, "dataset": "owner/c4", "revision": COMMIT}
        source = sources.parse_source(values, f"sources.{name}")
        assert next(source.read(Counter(), [])).text == first[name]
    assert len(first) == 12


DRILL = [*hub_server.FAULTS] * 4
"""12 faults: connections cut, 429, 503."""


@pytest.mark.slow
@pytest.mark.parametrize("values", [DE, settings(config="wiki")], ids=["json.gz", "parquet"])
def test_no_fault_of_the_network_changes_a_byte(hub, tmp_path, monkeypatch, values):
    # One file may meet them all.
    monkeypatch.setattr("pipeline.runtime.hub_downloads.TRIES", len(DRILL) + 1)
    monkeypatch.setattr("pipeline.runtime.hub_downloads.LONGEST_WAIT", 0.02)
    undisturbed = content(download(tmp_path / "a", values))
    shutil.rmtree(tmp_path / "cache")
    hub.faults = random.Random(0).sample(DRILL, len(DRILL))
    hub.spoils = lambda method, path: method == "GET" and path.endswith((".gz", ".parquet"))
    disturbed = content(download(tmp_path / "b", values))
    assert hub.faults == []
    assert disturbed == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["429", "503"])
@pytest.mark.parametrize("values", [DE, settings(config="de")], ids=["data_files", "config"])
def test_a_listing_is_asked_for_again(hub, tmp_path, values, fault):
    hub.spoils = lambda method, path: "/tree/" in path or "/revision/" in path
    # The first page comes: what it names is not all.
    hub.faults = [fault, None, fault, fault]
    assert read(download(tmp_path / "a", values)) == EVERY
    assert hub.faults == []


@pytest.mark.parametrize("values", [DE, settings(config="de")], ids=["data_files", "config"])
def test_without_the_hub_nothing_is_asked_for_again(hub, tmp_path, monkeypatch, caplog, values):
    for place in ("huggingface_hub.constants", "datasets.config"):
        monkeypatch.setattr(f"{place}.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"list of files of owner/c4 at 0123.*OfflineModeIsEn"):
        download(tmp_path / "a", values)
    assert "again in" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("values", [DE, settings(config="de")], ids=["data_files", "config"])
def test_a_folder_here_of_the_datasets_name_is_not_the_dataset(hub, tmp_path, monkeypatch, values):
    here = tmp_path / "owner" / "c4" / NAME.format(0)
    here.parent.mkdir(parents=True)
    here.write_bytes(json_lines(["not of the Hub"]))
    monkeypatch.chdir(tmp_path)
    assert read(download(tmp_path / "a", values)) == EVERY


@pytest.mark.slow
def test_a_hub_that_stays_away_is_named_and_finished_files_are_kept(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.runtime.hub_downloads.TRIES", 3)
    hub.spoils = lambda method, path: method == "GET" and path.endswith(NAME.format(2))
    hub.faults = ["503"] * 100
    with pytest.raises(InputError, match=r"00002-of-00004.*503.*files that came whole are not"):
        download(tmp_path / "a", DE)
    assert not (tmp_path / "a" / "web").exists()
    before = {n: hub.sent[NAME.format(n)] for n in (0, 1)}
    hub.faults = []
    assert read(download(tmp_path / "a", DE)) == EVERY
    assert {n: hub.sent[NAME.format(n)] for n in (0, 1)} == before
    assert content(tmp_path / "a" / "web") == content(download(tmp_path / "b", DE))


@pytest.mark.filterwarnings("ignore:Not enough free disk space")
def test_a_full_disk_under_the_cache_is_named_at_once(hub, tmp_path, small_disk, monkeypatch):
    disk = small_disk(64)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(disk / "cache"))
    big = random.Random(0).randbytes(100_000).hex().encode()
    hub.repositories["datasets/owner/c4"]["big/a.txt"] = big
    with pytest.raises(InputError, match=f"{disk}.*No space left.*free some space"):
        download(tmp_path / "a", settings(data_files="big/*"))
    assert hub.asked["GET", f"/datasets/owner/c4/resolve/{COMMIT}/big/a.txt"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"data_files": "none/*.gz"}, "has no file for"),
        ({"data_files": "/etc/*.txt"}, "cannot be opened: .*other `data_files`"),
        (
            {"data_files": ["multilingual/c4-de.*", "wiki/**"], "validation_data_files": "wiki/**"},
            r"train-00000-of-00002\.parquet, .* would be trained on and be validation text",
        ),
        ({"data_files": "README.md"}, r"README\.md: formats are told by suffix"),
        ({"config": "nl"}, "cannot be opened.*'de'"),
        ({}, "Config name is missing.*'wiki'.*: name its `config`"),
        ({"dataset": "owner/script", "data_files": "*"}, "scripts .* refs/convert/parquet"),
        ({"config": "de", "split": "trian"}, "no split 'trian': known: train, validation"),
        ({"dataset": "owner/nothing", "data_files": "*"}, "cannot be fetched.*check its name"),
        ({"revision": "f" * 40, "data_files": "*"}, "cannot be fetched.*check its name, revision"),
        ({"field": "content", "config": "de"}, r":1: no column 'content'; columns: 'text', 'url'"),
    ],
)
def test_what_is_not_there_is_named(hub, tmp_path, monkeypatch, values, message):
    hub.repositories["datasets/owner/script"] = {"script.py": b"", "a.txt": b"one"}
    monkeypatch.setattr("pipeline.runtime.hub_downloads.TRIES", 2)
    with pytest.raises(InputError, match=message):
        download(tmp_path / "a", settings(**values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"revision": "main"}, r"sources\.web\.revision: .* 40 hex digits"),
        ({"data_files": "a", "config": "de"}, "stand instead of config"),
        ({"validation_data_files": "a"}, "validation_data_files: stand beside data_files"),
        ({"data_files": "a", "validation_split": "b"}, "validation_split: data_files have none"),
        ({"validation_split": "train"}, "validation_split: 'train' is trained on: name another"),
        (
            {"validation_bytes": 5},
            "validation_bytes: name validation_data_files or validation_split",
        ),
    ],
)
def test_settings_that_do_not_pin_the_text_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        sources.parse_source(settings(**values), "sources.web")


def build(folder, **values):
    known = {"kind": "hub", "repository": "google/mt5-base", "revision": COMMIT}
    atomic_files.write_json(folder / "settings.json", {**known, **values})
    tokenizer.build_tokenizer(folder / "settings.json", [], folder / "mt5.model")
    return folder / "mt5.model"


@pytest.mark.slow
def test_a_tokenizer_of_the_hub_is_pinned_by_revision_and_checksum(hub, letters, tmp_path):
    hub.repositories["google/mt5-base"] = {"spiece.model": letters.read_bytes()}
    hub.faults = ["503", "cut", "429"]
    built = build(tmp_path, sha256=atomic_files.sha256(letters))
    assert built.read_bytes() == letters.read_bytes()
    assert hub.faults == []
    facts = atomic_files.read_json(tmp_path / "mt5.json")
    assert facts["settings"]["repository"] == "google/mt5-base"


def test_another_tokenizer_than_the_pinned_one_is_refused(hub, letters, tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.runtime.hub_downloads.TRIES", 2)
    hub.repositories["google/mt5-base"] = {"spiece.model": letters.read_bytes()}
    for values, message in (
        ({"sha256": "0" * 64}, r"tokenizers\.mt5\.sha256: .* not 0000"),
        ({"sha256": "0" * 64, "file": "other.model"}, r"other\.model of google/mt5-base at 0123.*"),
        ({"sha256": "0" * 64, "repository": "no/thing"}, "cannot be fetched.*check its name"),
        ({"sha256": "0" * 64, "revision": "main"}, "revision: 'main' is not a commit"),
        ({"sha256": "0" * 63}, "sha256: .* is not a SHA-256"),
        ({}, "sha256 is missing"),
    ):
        with pytest.raises(InputError, match=message):
            build(tmp_path, **values)
    assert not (tmp_path / "mt5.model").exists()
