"""What the recorded results say of the bars that the project sets itself.

One function for each benchmark turns its record into rows of docs/performance.md. A bar is a
bound; a row without one is shown for comparison. What misses its bar says why.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

Record = dict[str, Any]


class Bar(NamedTuple):
    """One row."""

    what: str
    ours: float
    form: str
    """How numbers are written, with their unit: "{:.2f} x"."""
    least: float | None = None
    most: float | None = None
    peer: str = ""
    theirs: float | None = None
    why: str = ""
    """What was tried and why it is not enough; shown where the bar is missed."""

    @property
    def holds(self) -> bool | None:
        """Whether the bar is reached; None without one."""
        if self.least is None and self.most is None:
            return None
        above = self.least is None or self.ours >= self.least
        return above and (self.most is None or self.ours <= self.most)


def of_training(record: Record) -> list[Bar]:
    """Steps of ours beside other trainers, and beside products of matrices."""
    rows = []
    for size, found in record["steps"].items():
        ours = found["ours"]
        peers = {name: row for name, row in found.items() if name != "ours"}
        best = max(peers, key=lambda name: peers[name]["tokens_per_cpu_second"])
        theirs = peers[best]["tokens_per_cpu_second"]
        rows.append(
            Bar(
                f"tokens per CPU-second over the best peer's, {size}",
                peers[best]["in_steps_of_ours"],
                "{:.2f} x",
                least=1.05 if size in ("small", "base") else None,
                peer=f"{best}: {theirs:,.0f} tokens per CPU-second, ours "
                f"{ours['tokens_per_cpu_second']:,.0f}",
                why="on a CPU every trainer sits near the rate of the same products; clipping "
                "fused with the optimizer and a loss in chunks are what is left",
            )
        )
        rows.append(
            Bar(
                f"share of the measured rate of matrix products, {size}",
                ours["share_of_gemm"],
                "{:.2f}",
                least=0.7 if size == "base" else None,
                peer=best,
                theirs=peers[best]["share_of_gemm"],
            )
        )
    return rows


def of_firing(record: Record) -> list[Bar]:
    """Steps that measure gradient statistics."""
    rows = []
    for size, found in record["steps"].items():
        fused, pcgrad = found["out of the pass"], found["pcgrad"]
        beside = found["a pass beside"]["in_steps_of_mix"]
        rows += [
            Bar(
                f"PiKE's share of the training time at T0 = {record['fires_every']:,}, {size}",
                fused["share_of_training"],
                "{:.3%}",
                most=0.002,
                peer="the paper: 1.2% to 2.4%",
            ),
            Bar(
                f"a firing step in steps of Mix, statistics out of the pass, {size}",
                fused["in_steps_of_mix"],
                "{:.2f} x",
                most=1.5,
                peer="a pass beside",
                theirs=beside,
            ),
            Bar(
                f"memory of a firing step beyond Mix, in gradients, {size}",
                fused["gradients_of_extra_memory"],
                "{:+.2f}",
                most=1.0,
            ),
            Bar(f"PCGrad in steps of Mix, {size}", pcgrad["in_steps_of_mix"], "{:.2f} x", most=1.3),
        ]
    return rows


def of_loss(record: Record) -> list[Bar]:
    """The loss over a large vocabulary."""
    rows, speeds = [], {"32k": 1.2, "250k": 1.3}
    for size, found in record["losses"].items():
        ours = found["ours"]
        others = {name: row for name, row in found.items() if name.startswith("torch")}
        best = max(others, key=lambda name: others[name]["speed_against_plain"], default=None)
        theirs = others[best] if best else {}
        rows += [
            Bar(
                f"speed of the loss over plain logits, {size}",
                ours["speed_against_plain"],
                "{:.2f} x",
                least=speeds.get(size),
                peer=best or "",
                theirs=theirs.get("speed_against_plain"),
            ),
            Bar(
                f"memory of the loss over plain logits, {size}",
                ours["bytes_against_plain"],
                "{:.3f}",
                most=1 / 8 if size in speeds else None,
                peer=best or "",
                theirs=theirs.get("bytes_against_plain"),
            ),
        ]
    return rows


def of_interruption(record: Record) -> list[Bar]:
    """Kills."""
    writing = record["while_a_checkpoint_was_written"]
    other = 0 if record["same_bits"] else 1
    return [
        Bar("kills (SIGKILL) after which a run goes on", record["kills"], "{:.0f}", least=20),
        Bar("of them while a checkpoint was written", writing, "{:.0f}", least=1),
        Bar("runs that end with other bits than an unbroken one", other, "{:.0f}", most=0),
    ]


def of_mixing(record: Record) -> list[Bar]:
    """The rules that combine gradients, and Mix beside itself."""
    shown = ("mix again", "pike", "pcgrad", "mgda", "cagrad", "gradvac", "nash-mtl", "famo")
    return [
        Bar(
            f"processor time of {rule} in that of Mix, {record['domains']} domains, {size}",
            rules[rule]["on_average"],
            "{:.2f} x",
        )
        for size, rules in record["rules"].items()
        for rule in shown
        if rule in rules
    ]


def of_planning(record: Record) -> list[Bar]:
    """A dry run."""
    seconds = record["median_seconds_per_thousand_jobs"]
    return [
        Bar(
            f"seconds to plan a thousand of {record['jobs']:,} jobs",
            seconds["ours"],
            "{:.2f} s",
            peer="an almost empty workflow",
            theirs=seconds["almost empty"],
        )
    ]


_SCORED = {
    "HellaSwag 0-shot": 2.0,
    "HellaSwag 7-shot": 8.0,
    "PIQA 7-shot": 8.0,
    "ARC-Easy 7-shot": 20.0,
    "CommonsenseQA 7-shot": 20.0,
}
"""Least ratios to the peer's time."""


def of_scoring(record: Record) -> list[Bar]:
    """Multiple-choice questions beside the harness's own back end, with the same weights."""
    rows = []
    for size, tasks in record["tasks"].items():
        for name, found in tasks.items():
            rows.append(
                Bar(
                    f"times as fast as the peer, {name}, {size}",
                    found["clock"]["times_as_fast"],
                    "{:.1f} x",
                    least=_SCORED.get(name),
                    peer="lm-evaluation-harness's Hugging Face back end, "
                    + ("the same picks" if found["same_picks"] else "OTHER PICKS")
                    + f", within {found['largest_difference_nats']:.0e} nats",
                )
            )
    return rows


BENCHMARKS: dict[str, tuple[str, str, Callable[[Record], list[Bar]]]] = {
    "training": ("Training steps", "python -m benchmarks.training", of_training),
    "firing": ("Gradient statistics", "python -m benchmarks.firing", of_firing),
    "mixing": ("Mixing rules", "python -m benchmarks.mixing", of_mixing),
    "loss": ("The loss over a large vocabulary", "python -m benchmarks.loss", of_loss),
    "interruption": ("Interruptions", "python -m benchmarks.interruption", of_interruption),
    "scoring-harness": (
        "Multiple-choice questions",
        "python -m benchmarks.scoring --models small --peer harness",
        of_scoring,
    ),
    "planning": ("Planning", "python -m benchmarks.planning", of_planning),
}
"""By the name of the record: title, command, and what its rows are."""
