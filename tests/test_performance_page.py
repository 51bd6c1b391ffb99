"""docs/performance.md is that of the recorded results."""

import json

import pytest

from benchmarks import machine, page
from benchmarks.bar import Bar


def test_the_page_is_that_of_the_results():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(page.RESULTS), (
        "run python -m benchmarks.page"
    )


@pytest.mark.parametrize(
    ("bound", "holds", "shown"),
    [
        ({"least": 1.05}, True, "| 1.10 x | at least 1.05 x | yes |"),
        ({"least": 1.2}, False, "| 1.10 x | at least 1.20 x | **no** |"),
        ({"most": 1.3}, True, "| 1.10 x | at most 1.30 x | yes |"),
        ({"most": 1.0}, False, "| 1.10 x | at most 1.00 x | **no** |"),
        ({}, None, "| 1.10 x |  |  |"),
    ],
)
def test_a_bar_is_held_or_missed(bound, holds, shown):
    bar = Bar("speed", 1.1, "{:.2f} x", **bound, peer="theirs", theirs=2.0)
    assert bar.holds is holds
    assert page._row(bar) == f"| speed {shown} theirs: 2.00 x |"


def test_a_missed_bar_says_why_and_a_held_one_does_not(tmp_path):
    record = {"kills": 20, "while_a_checkpoint_was_written": 8, "same_bits": False}
    (tmp_path / "interruption.json").write_text(json.dumps(record), encoding="utf-8")
    text = page.page(tmp_path)
    assert "| runs that end with other bits than an unbroken one | 1 | at most 0 | **no** |" in text
    assert "Not recorded yet: `python -m benchmarks.loss`." in text
    assert "`python -m benchmarks.interruption`, no date, unnamed processor." in text


def recorded(tmp_path, name, record):
    (tmp_path / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    return page.page(tmp_path).splitlines()


def step(in_steps_of_ours, share_of_gemm, tokens_per_cpu_second):
    return {
        "in_steps_of_ours": in_steps_of_ours,
        "share_of_gemm": share_of_gemm,
        "tokens_per_cpu_second": tokens_per_cpu_second,
    }


def test_the_best_of_ours_is_compared_with_the_best_peer(tmp_path):
    steps = {
        "ours": step(1.0, 0.72, 1000.0),
        "ours compiled": step(0.8, 0.9, 1250.0),
        "gpt2": step(1.5, 0.5, 650.0),
        "persimmon": step(1.2, 0.6, 830.0),
        "litgpt lean": step(0.832, 0.86, 1200.0),
    }
    lines = recorded(
        tmp_path, "training", {"steps": {"base": steps}, "missing": {"gpt2 Lightning": "lightning"}}
    )
    # 0.832 / 0.8 of the step of ours that is compiled.
    assert (
        "| tokens per CPU-second over the best peer's, base | 1.04 x | at least 1.05 x | **no** | "
        "ours compiled 1,250, litgpt lean 1,200, persimmon 830, gpt2 650, "
        "gpt2 Lightning not measured |"
    ) in lines
    assert (
        "| tokens per CPU-second over the best peer's that computes the same, base | 1.50 x | "
        "at least 1.05 x | yes | ours compiled 1,250, persimmon 830 |"
    ) in lines
    assert (
        "| share of the measured rate of matrix products, base | 0.90 | at least 0.70 | yes | "
        "litgpt lean: 0.86 |"
    ) in lines
    assert any(line.startswith("- tokens per CPU-second over the best peer's") for line in lines)


def test_bars_for_a_gpu_are_shown_without_one_and_hold_or_not_with_one(tmp_path):
    name = "model-FLOPs utilisation, 750M-32K, context 1024, bfloat16"
    without = page.page(tmp_path)
    assert f"| {name} | not measured | at least 50% |  |  |" in without
    assert "Not measured: `python -m benchmarks.gpu`. No GPU was at hand." in without
    found = {
        "utilisation": 0.52,
        "tokens_per_second": 87_381.0,
        "peak_memory_bytes": 60 * 2**30,
        "hours_of_the_papers_steps": 100.0,
    }
    assert (
        f"| {name} | 52% | at least 50% | yes | 87,381 tokens/s, 60 GiB, "
        "100 hours for 120,000 steps |"
    ) in recorded(tmp_path, "gpu", {"steps": {"750M-32K": found}})


def test_sizes_that_are_not_measured_again_stay_in_the_record(tmp_path):
    path = tmp_path / "loss.json"

    def measured(size, number, load):
        where = {"load_before": load, "load_after": load}
        result = {"losses": {size: number}, "machine": where, "date": f"day {number}"}
        machine.record(path, result, ("losses",))

    measured("small", 1, 0.5)
    measured("large", 2, 1.5)
    measured("small", 3, 2.5)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["losses"] == {"small": 3, "large": 2}
    assert found["of_size"]["large"]["date"] == "day 2"
    assert "load 2.5 to 2.5 (small), load 1.5 to 1.5 (large)" in page._where(found)
