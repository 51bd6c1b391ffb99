"""Benchmarks of `make bench` come to their end on a small problem, and record their numbers."""

import importlib
import json
from functools import partial

import pytest
from repository import ROOT

from benchmarks import (
    comparison_rates,
    corpora,
    error_rates,
    estimators,
    length_rates,
    records,
    scoring,
    stream_resumes,
)

SMALL = {
    "comparison_rates": "--rounds 2 --draws 1",
    "error_rates": "--rounds 2 --draws 1",
    "estimators": "--steps 10 --pool 16 --draws 4",
    "length_rates": "--draws 1",
    "loss": "--sizes tiny --rounds 1",
    "mixing": "--models nano --rounds 1 --rules pike",
    "precision": "--sizes nano --rounds 1",
    "scoring": "--models tiny --items 1 --rounds 1 --requests 400",
    "training": "--sizes nano --rounds 1 --trainers ours",
}
"""Those that start no process of their own."""


def test_every_benchmark_is_a_command():
    for path in (ROOT / "benchmarks").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        module = importlib.import_module(f"benchmarks.{path.stem}")
        assert hasattr(module, "main") or "__main__" not in text or hasattr(module, "page")


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Runs a benchmark with arguments; what it has recorded."""

    def run(name, arguments):
        out = tmp_path / f"{name}.json"
        monkeypatch.setattr("sys.argv", [name, "--out", str(out), *arguments.split()])
        importlib.import_module(f"benchmarks.{name}").main()
        return json.loads(out.read_text(encoding="utf-8"))

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_ends(record, name, tmp_path, monkeypatch, request):
    # The peer is not among the packages of the tests.
    monkeypatch.setattr(scoring, "harness", lambda model: partial(scoring.ours, model))
    monkeypatch.setattr(length_rates, "CELLS", length_rates.CELLS[:2])
    monkeypatch.setattr(comparison_rates, "REAL", ())
    arguments = SMALL[name]
    if name == "estimators":
        packed = request.getfixturevalue("corpora")
        monkeypatch.setattr(corpora, "packed", lambda *_, **__: packed)
        monkeypatch.setattr(estimators, "DOMAINS", ("easy", "hard"))
        sources = {"sources": {"easy": {}, "hard": {}}}
        monkeypatch.setattr(estimators.planner, "read_expanded_config", lambda _: sources)
        monkeypatch.setattr(estimators, "ROWS", estimators.ROWS[:2])
        monkeypatch.setattr(estimators, "SHOWN", estimators.ROWS[:2])
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
