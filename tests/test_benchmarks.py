"""Each benchmark of `make bench` comes to its end on a small problem, and records its numbers."""

import importlib
import json
import sys
from functools import partial

import pytest
from repository import run

from benchmarks import (
    comparison_rates,
    corpora,
    error_rates,
    length_rates,
    records,
    scoring,
    stream_resumes,
)

SMALL = {
    "comparison_rates": "--rounds 2 --draws 1",
    "error_rates": "--rounds 2 --draws 1",
    "estimators": "--steps 10 --pool 16 --draws 4",
    "firing": "--models nano --rounds 1",
    "length_rates": "--draws 1",
    "loss": "--sizes tiny --rounds 1",
    "memory": "--gigabytes 0.001 --workers 1 --steps 1",
    "mixing": "--models nano --rounds 1 --rules pike doremi pcgrad",
    "precision": "--sizes nano --rounds 1",
    "reading": "--megatokens 2 --turns 1 --cold 1",
    "scoring": "--models tiny --items 1 --rounds 1 --requests 400",
    "training": "--sizes nano --rounds 1 --trainers ours",
}


TOKENIZER = {"vocabulary": 300, "characters": 20_000}


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Runs a benchmark with arguments; what it has recorded."""
    monkeypatch.setattr(corpora, "TOKENIZER", corpora.TOKENIZER | TOKENIZER)

    def run(name, arguments):
        out = tmp_path / f"{name}.json"
        monkeypatch.setattr("sys.argv", [name, "--out", str(out), *arguments.split()])
        importlib.import_module(f"benchmarks.{name}").main()
        return json.loads(out.read_text(encoding="utf-8"))

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_ends(record, name, tmp_path, monkeypatch):
    # The peer is not among the packages of the tests.
    monkeypatch.setattr(scoring, "harness", lambda model: partial(scoring.ours, model))
    monkeypatch.setattr(length_rates, "LENGTHS", length_rates.LENGTHS[:2])
    monkeypatch.setattr(comparison_rates, "REAL", ())
    arguments = SMALL[name]
    if name == "estimators":
        arguments += f" --page {tmp_path / 'page.md'}"
    assert record(name, arguments)["machine"]["threads"] == 1


@pytest.mark.slow
def test_rounds_of_error_rates_go_on_where_they_stopped(record, tmp_path, monkeypatch):
    monkeypatch.setattr(error_rates, "CASES", {"alike": error_rates.CASES["all alike"]})
    monkeypatch.setattr(error_rates, "SEEDS", (3,))
    once = record("error_rates", "--rounds 1 --draws 2")
    again = record("error_rates", "--rounds 2 --draws 2")
    assert (once["rounds"], again["rounds"]) == (1, 2)
    assert [c["draws"] for c in again["cells"]] == [2 * c["draws"] for c in once["cells"]]
    (tmp_path / "error_rates.json").unlink()
    assert record("error_rates", "--rounds 2 --draws 2")["cells"] == again["cells"]
    # Other numbers of draws, as other code, begin anew.
    assert record("error_rates", "--rounds 1 --draws 1")["cells"][0]["draws"] == 1


@pytest.mark.slow
def test_the_benchmark_of_packing_ends(tmp_path):
    """In a process of its own, which becomes the parent of all that lose theirs."""
    out = tmp_path / "packing.json"
    words = ["packing", "--out", str(out), *["--megabytes", "3", "--rounds", "1", "--workers", "1"]]
    code = (
        "import sys; from benchmarks import corpora, packing; "
        f"corpora.TOKENIZER |= {TOKENIZER}; sys.argv = {words}; packing.main()"
    )
    run(sys.executable, "-c", code, check=True)
    assert {"ours", "encode"} <= set(json.loads(out.read_text(encoding="utf-8"))["median"])


@pytest.mark.workflow
def test_the_benchmark_of_plans_ends(record):
    found = record("planning", "--runs 9 --rounds 1")
    assert found["jobs"] > 9
    assert set(found["seconds"]) == {"ours", "almost empty"}


def test_the_page_of_streams_counts_the_wrong_resumes_of_each_release():
    right = {name: [] for name in stream_resumes.STREAMS}
    wrong, earlier = right | {"`map`": ["80", "80, 40"]}, {**right}
    del earlier["`repeat`"]
    releases = {
        "5.1.0": {"theirs": earlier, "ours": right},
        "4.9.0": "ImportError: httpx",
        "4.8.5": {"theirs": wrong, "ours": right},
        "4.8.4": {"theirs": wrong, "ours": right},
    }
    lines = stream_resumes.page({"date": "2026-01-02", "releases": releases}).splitlines()
    for line in (
        "| 4.8.4 | 2 | 0 |",
        "| 4.9.0 | does not start: ImportError: httpx |  |",
        "| stream | 4.8.4 to 4.8.5 | 5.1.0 |",
        "| `map` | 2 |  |",
        "| `repeat` |  | - |",
        "| 80, 40 | 1 |  |",
    ):
        assert line in lines
    recorded = stream_resumes.page(records.read("stream_resumes"))
    assert stream_resumes.PAGE.read_text(encoding="utf-8") == recorded
    assert stream_resumes.RIGHT in recorded
