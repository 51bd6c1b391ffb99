import sys

import pytest
from downloads import download, manifest, read

from pike_mixing.errors import InputError
from pipeline.data import sources

LANGUAGE = {"kind": "synthetic", "order": 1, "symbols": 5, "successors": 2, "noise": 0.0}
LANGUAGE |= {"alphabet": 65, "documents": 10, "length": 30, "seed": 1}


def test_a_download_is_documents_and_their_manifest(tmp_path):
    out = download(tmp_path, LANGUAGE)
    names = {".made-by", "documents.parquet", "manifest.json"}
    assert {path.name for path in out.iterdir()} == names
    facts = manifest(out)
    assert (facts["stage"], facts["settings"]) == ("download", LANGUAGE)
    assert (facts["documents"], facts["characters"], facts["bytes"]) == (10, 300, 300)
    assert facts["entropy_nats_per_character"] == pytest.approx(0.6931, abs=1e-4)
    assert (facts["skipped"], facts["licence"]) == ({}, "CC0-1.0")
    assert facts["revision"].endswith(facts["documents_sha256"])
    assert list(map(len, read(out))) == [30] * 10
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    download(tmp_path, LANGUAGE)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize(("limit", "documents"), [(1, 1), (30, 1), (31, 2), (10_000, 10)])
def test_reading_stops_at_the_document_that_reaches_the_limit(tmp_path, limit, documents):
    out = download(tmp_path, {**LANGUAGE, "bytes": limit})
    assert manifest(out)["documents"] == documents


def test_what_was_left_out_is_on_record(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": " "}\n{"text": null}\n')
    out = download(tmp_path, {"kind": "local", "files": f"{tmp_path}/a.jsonl", "licence": "MIT"})
    facts = manifest(out)
    assert (facts["skipped"], facts["licence"]) == ({"blank": 1, "null": 1}, "MIT")
    assert facts["entropy_nats_per_character"] is None
    assert [file["file"] for file in facts["source_files"]] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"sources\.mine: kind is missing: one of huggingface, local, python, synthetic"),
        ({"kind": "sythetic"}, r"sources\.mine\.kind: 'sythetic' .* did you mean 'synthetic'"),
        ({"kind": 5}, "'5' is unknown"),
    ],
)
def test_wrong_settings_are_named(tmp_path, values, message):
    with pytest.raises(InputError, match=message):
        download(tmp_path, values, "mine")


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    # None in sys.modules is how Python itself marks a module that cannot be imported.
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.delitem(sys.modules, "pipeline.data.hub", raising=False)
    with pytest.raises(InputError, match=r"needs the package 'datasets'.*run `make setup EX"):
        sources.parse_source({"kind": "huggingface"}, "sources.mine")


@pytest.mark.slow
def test_a_full_disk_is_named_and_left_clean(small_disk):
    disk = small_disk(64)
    with pytest.raises(InputError, match=r"cannot be written.*No space left"):
        # 200,000 letters of 4 bits each.
        download(disk, {**LANGUAGE, "noise": 1.0, "symbols": 16, "length": 20_000})
    assert [path.name for path in disk.iterdir()] == ["web.json"]


def test_a_download_does_not_replace_what_it_reads(tmp_path):
    made = download(tmp_path, LANGUAGE, "made")
    with pytest.raises(InputError, match=r"holds or lies in the input .*documents\.parquet"):
        download(tmp_path, {"kind": "local", "files": str(made / "*.parquet")}, "made")
    assert (made / "documents.parquet").exists()
