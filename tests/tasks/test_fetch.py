import json
import logging
import shutil
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pike_mixing.errors import InputError
from pipeline import __main__
from pipeline.runtime import atomic_files
from pipeline.tasks import fetch, task_definitions

STANDINS = Path(__file__).parent / "standins"
PIQA = STANDINS / "piqa"
OTHER = "0" * 40


def records(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def taken(folder, *splits):
    return [f"{split}={folder / split}.jsonl" for split in splits]


def fetch_piqa(out, folder):
    """Fetches PIQA from the files of a folder."""
    given = taken(folder, "validation", "train")
    return fetch.fetch_tasks(["piqa"], out=out, revision=OTHER, given_files=given)


@pytest.fixture
def own(tmp_path):
    """A copy of PIQA's stand-in, to be damaged."""
    return shutil.copytree(PIQA, tmp_path / "own")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A Hub cache without a connection: `cache(task, revision)` puts a task's stand-in into it."""
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))

    def fill(name, revision=None):
        task = task_definitions.TASKS[name]
        folder = tmp_path / "cache" / f"datasets--{task.repository.replace('/', '--')}"
        for split, file in task.files.items():
            path = folder / "snapshots" / (revision or task.revision) / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            source = STANDINS / name / f"{split}.jsonl"
            if path.suffix == ".parquet":
                pq.write_table(pa.Table.from_pylist(records(source)), path)
            else:
                shutil.copy(source, path)

    return fill


def test_a_task_becomes_lines_of_json_with_a_manifest(tmp_path):
    told = fetch_piqa(tmp_path, PIQA)
    place = tmp_path / "piqa"
    names = {".made-by", "demonstrations.jsonl", "manifest.json", "validation.jsonl"}
    assert {path.name for path in place.iterdir()} == names
    assert records(place / "validation.jsonl") == records(PIQA / "validation.jsonl")
    kept = records(place / "demonstrations.jsonl")
    assert [record["goal"] for record in kept] == list(task_definitions.PIQA.curated)
    manifest = atomic_files.read_json(place / "manifest.json")
    facts = {"task": "piqa", "dataset": "baber/piqa", "revision": OTHER}
    facts["rows"] = {"validation": 12, "demonstrations": 7}
    assert manifest.items() >= facts.items()
    assert manifest["licence"].startswith("AFL-3.0")
    assert manifest["sources"]["train"]["sha256"] == atomic_files.sha256(PIQA / "train.jsonl")
    listed = manifest["files"]["validation.jsonl"]["sha256"]
    assert listed == atomic_files.sha256(place / "validation.jsonl")
    assert f"piqa: 12 rows of validation, 7 rows of demonstrations in {place}" in told
    assert "licence: AFL-3.0" in told


def test_the_non_commercial_notice_is_shown(tmp_path, standin, caplog):
    with caplog.at_level(logging.WARNING, "pike"):
        told = fetch.fetch_tasks(["hellaswag_de"], out=tmp_path, **standin("hellaswag_de"))
    assert "NON-COMMERCIAL" in told
    assert "NON-COMMERCIAL" in caplog.text


def test_the_command_prints_what_was_fetched(tmp_path, capsys):
    given = ["--from", *taken(PIQA, "validation", "train"), "--revision", OTHER]
    assert __main__.main(["fetch", "piqa", "--out", str(tmp_path), *given]) == 0
    assert "licence: AFL-3.0" in capsys.readouterr().out
    assert __main__.main(["fetch", "pica", "--out", str(tmp_path)]) == 2
    assert "pike fetch: tasks: 'pica' is unknown" in capsys.readouterr().err


def test_the_hubs_cache_serves_without_a_connection(tmp_path, cache):
    for name in ("piqa", "hellaswag_hi"):
        cache(name, OTHER)
        fetch.fetch_tasks([name], out=tmp_path, revision=OTHER, given_files=[])
    assert records(tmp_path / "piqa" / "validation.jsonl") == records(PIQA / "validation.jsonl")
    expected = records(STANDINS / "hellaswag_hi" / "val.jsonl")
    assert records(tmp_path / "hellaswag_hi" / "val.jsonl") == expected
    # The checksum of this file is not known, its pinned commit is.
    cache("hellaswag_de")
    fetch.fetch_tasks(["hellaswag_de"], out=tmp_path, revision=None, given_files=[])
    manifest = atomic_files.read_json(tmp_path / "hellaswag_de" / "manifest.json")
    assert manifest["revision"] == task_definitions.TASKS["hellaswag_de"].revision


def test_without_a_connection_the_message_says_what_to_do(tmp_path, cache):
    message = r"piqa_validation.parquet of baber/piqa at 142f6d73.*connection.*--from SPLIT=FILE"
    with pytest.raises(InputError, match=message):
        fetch.fetch_tasks(["piqa"], out=tmp_path, revision=None, given_files=[])
    assert not (tmp_path / "piqa").exists()


def test_a_checksum_that_is_not_the_pinned_one_is_refused(tmp_path, cache):
    cache("piqa")
    with pytest.raises(InputError, match=r"has SHA-256 .*, not 2b17ee12.*another version"):
        fetch.fetch_tasks(["piqa"], out=tmp_path, revision=None, given_files=[])
    with pytest.raises(InputError, match=r"has SHA-256 .*, not 2b17ee12.*--revision"):
        fetch.fetch_tasks(
            ["piqa"], out=tmp_path, revision=None, given_files=taken(PIQA, "validation", "train")
        )
    assert not (tmp_path / "piqa").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("validation.jsonl", b'{"goal": "x"}\n' * 12, "12 of 12 rows of validation cannot be"),
        ("validation.jsonl", b"", "the split validation is empty"),
        ("validation.jsonl", b'{"goal": \n', "validation.jsonl:1 cannot be read"),
        ("validation.jsonl", b"[1]\n", "1 of 1 rows of validation cannot be asked"),
        ("validation.jsonl", b"\xff\n", "validation.jsonl cannot be read"),
        ("validation.jsonl", b'{}\n{"goal": "\\ud83d"}\n', "jsonl:2 cannot be read .*surrogates"),
        ("validation.jsonl", b"[" * 9999, "validation.jsonl:1 cannot be read .*recursion"),
        ("train.jsonl", b'{"goal": "a", "sol1": "b", "sol2": "c", "label": 0}\n', "7 of 7 demonst"),
        ("validation.parquet", b"PAR1", "validation.parquet cannot be read"),
        ("validation.csv", b"a,b", "give the data set's own .parquet or .jsonl"),
    ],
)
def test_a_damaged_or_other_file_is_named(tmp_path, own, name, content, message):
    (own / name).write_bytes(content)
    paths = {split: own / f"{split}.jsonl" for split in ("validation", "train")}
    paths[name.partition(".")[0]] = own / name
    given = [f"{split}={path}" for split, path in paths.items()]
    with pytest.raises(InputError, match=message):
        fetch.fetch_tasks(["piqa"], out=tmp_path, revision=OTHER, given_files=given)
    assert not (tmp_path / "piqa").exists()


def test_a_column_that_json_cannot_hold_is_named(tmp_path, own):
    dated = [{**record, "day": date(2024, 1, 1)} for record in records(own / "validation.jsonl")]
    pq.write_table(pa.Table.from_pylist(dated), own / "validation.parquet")
    given = [f"validation={own / 'validation.parquet'}", *taken(own, "train")]
    with pytest.raises(InputError, match=r"validation:0 cannot be written as JSON \(.* type date"):
        fetch.fetch_tasks(["piqa"], out=tmp_path, revision=OTHER, given_files=given)


def test_a_record_of_a_translation_that_is_a_list_is_named(tmp_path):
    (tmp_path / "val.jsonl").write_text("[1, 2]\n")
    with pytest.raises(InputError, match=r"1 of 1 rows of val .*val:0: no field 'endings'"):
        fetch.fetch_tasks(
            ["hellaswag_hi"], out=tmp_path, revision=OTHER, given_files=taken(tmp_path, "val")
        )


def test_of_demonstrations_with_one_key_the_first_is_kept_in_the_lists_order(tmp_path, own):
    path = own / "train.jsonl"
    first = records(path)
    again = [{**record, "sol1": "another"} for record in first]
    path.write_text("".join(json.dumps(r) + "\n" for r in [*first[::-1], *again]))
    fetch_piqa(tmp_path, own)
    kept = records(tmp_path / "piqa" / "demonstrations.jsonl")
    assert [record["goal"] for record in kept] == list(task_definitions.PIQA.curated)
    assert "another" not in {record["sol1"] for record in kept}


def test_a_few_rows_that_cannot_be_asked_are_listed(tmp_path, own):
    path = own / "validation.jsonl"
    first = records(path)[0]
    blank = {**first, "sol2": " "}
    path.write_text("".join(json.dumps(r) + "\n" for r in [*([first] * 100), blank]))
    told = fetch_piqa(tmp_path, own)
    assert "1 rows cannot be asked; put them into leave_out:\n    validation:100: 'sol2'" in told
    unusable = atomic_files.read_json(tmp_path / "piqa" / "manifest.json")["unusable"]
    assert list(unusable) == ["validation:100"]


def test_own_files_need_no_further_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "pipeline.runtime.hub_downloads", raising=False)
    fetch_piqa(tmp_path, PIQA)
    with pytest.raises(InputError, match="run `make setup EXTRAS=hub`"):
        fetch.fetch_tasks(["piqa"], out=tmp_path, revision=OTHER, given_files=[])
