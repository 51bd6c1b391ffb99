"""docs/performance.md is that of the recorded results."""

import json

import pytest

from benchmarks import page
from benchmarks.bars import Bar


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


def test_a_step_is_compared_with_the_best_peer(tmp_path):
    row = {"in_steps_of_ours": 1.0, "share_of_gemm": 0.8, "tokens_per_cpu_second": 1000.0}
    slow = {"in_steps_of_ours": 1.5, "share_of_gemm": 0.5, "tokens_per_cpu_second": 650.0}
    near = {"in_steps_of_ours": 1.04, "share_of_gemm": 0.77, "tokens_per_cpu_second": 960.0}
    record = {"steps": {"base": {"ours": row, "gpt2": slow, "persimmon": near}}}
    (tmp_path / "training.json").write_text(json.dumps(record), encoding="utf-8")
    lines = page.page(tmp_path).splitlines()
    assert (
        "| tokens per CPU-second over the best peer's, base | 1.04 x | at least 1.05 x | **no** | "
        "persimmon: 960 tokens per CPU-second, ours 1,000 |"
    ) in lines
    assert (
        "| share of the measured rate of matrix products, base | 0.80 | at least 0.70 | yes | "
        "persimmon: 0.77 |"
    ) in lines
    assert any(line.startswith("- tokens per CPU-second over the best peer's") for line in lines)
