"""What all benchmarks share: arguments, turns of timed steps, and the record of what was found."""

import argparse
import importlib.util
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.records import RESULTS
from pipeline import settings
from pipeline.runtime import atomic_files, code_fingerprint

NEVER = 100_000
"""Steps that no measurement reaches."""


class Seconds(NamedTuple):
    """Of one step, by the clock and of the process's processor time."""

    clock: float
    processor: float


def arguments(doc: str | None, record: str, **options: Any) -> argparse.Namespace:
    """The command line of a benchmark.

    Args:
        doc: The module's docstring; its first line is the help.
        record: Name of the record that `--out` has as its default.
        options: Further options by name: the default, or arguments of `add_argument`. A default
            that is a list may be given as words.

    Returns:
        What was chosen, with `load`, the load average before the measurement.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    for name, given in options.items():
        told = given if isinstance(given, dict) else {"default": given, "type": type(given)}
        if isinstance(given, list):
            told = {"default": given, "nargs": "+", "type": type(given[0])}
        parser.add_argument(f"--{name}", **told)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / f"{record}.json")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    chosen.load = os.getloadavg()[0]
    return chosen


def timed(step: Callable[[], object]) -> Seconds:
    """What one call takes."""
    clock, processor = time.perf_counter(), time.process_time()
    step()
    return Seconds(time.perf_counter() - clock, time.process_time() - processor)


def turns(
    steps: Mapping[str, Callable[[int], Seconds]], rounds: int, warm: int = 1
) -> dict[str, list[Seconds]]:
    """Takes every step once a round, in an order that turns from round to round.

    Args:
        steps: By name: takes the step of a round and says what it took.
        rounds: Rounds that count.
        warm: Rounds before them, which do not.

    Returns:
        By name the seconds of each round.
    """
    names, result = list(steps), {name: list[Seconds]() for name in steps}
    for number in range(warm + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seconds = steps[name](number)
            if number >= warm:
                result[name].append(seconds)
    return result


def ratios(own: Iterable[float], other: Iterable[float]) -> dict[str, Any]:
    """Median and range of the ratios of the same rounds."""
    result = [a / b for a, b in zip(own, other, strict=True)]
    return {"median": statistics.median(result), "range": [min(result), max(result)]}


def processor(seconds: Iterable[Seconds]) -> list[float]:
    return [one.processor for one in seconds]


def seconds_of(
    steps: Mapping[str, Callable[[], object]], rounds: int, kind: str = "processor", warm: int = 1
) -> dict[str, list[float]]:
    """Seconds of each round of `turns` by name, of the `processor` or by the `clock`."""
    taken = {name: lambda _, step=step: timed(step) for name, step in steps.items()}
    found = turns(taken, rounds, warm)
    return {name: [getattr(one, kind) for one in seconds] for name, seconds in found.items()}


def medians(numbers: Mapping[str, Iterable[float]]) -> dict[str, float]:
    return {name: statistics.median(of) for name, of in numbers.items()}


def steady(rows: int, length: int, rate: float = 1e-3, **how: Any) -> settings.Training:
    """A recipe whose learning rate never changes and that saves nothing."""
    rates = ("peak_learning_rate", "initial_learning_rate", "final_learning_rate")
    often = dict.fromkeys(("steps", "checkpoint_every", "resume_every"), NEVER)
    return settings.Training(
        rows=rows, length=length, warmup_steps=0, **dict.fromkeys(rates, rate), **often, **how
    )


def machine(load: float) -> dict[str, Any]:
    """On which machine something was measured, and how busy it was before and after."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpus": os.cpu_count(),
        "processor": names[0] if names else platform.processor(),
        "threads": torch.get_num_threads(),
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def record(
    chosen: argparse.Namespace, result: Mapping[str, Any], by_size: Sequence[str] = ()
) -> None:
    """Writes a result with its machine and date.

    Args:
        chosen: Of `arguments`.
        result: What was found.
        by_size: Its entries that have one value for each size. Sizes that were not measured this
            time stay in the record, and `of_size` says when and where each one was.
    """
    where = {"machine": machine(chosen.load), "date": time.strftime("%Y-%m-%d")}
    written: dict[str, Any] = {**result, **where}
    if by_size:
        written["of_size"] = dict.fromkeys(result[by_size[0]], where)
        earlier = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
        for entry in (*by_size, "of_size"):
            written[entry] = {**earlier.get(entry, {}), **written[entry]}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.write_json(chosen.out, written)


def record_rounds(
    chosen: argparse.Namespace,
    code: str,
    draw: Callable[[argparse.Namespace, int], list[dict[str, Any]]],
    names: Sequence[str],
    once: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Draws round by round, and records after each; what the same code drew before counts.

    Args:
        chosen: Of `arguments`, with `rounds`, and `draws` of a round.
        code: Fingerprint of the code that draws.
        draw: The cells of the round of a number.
        names: Entries that say which cell it is; the others are counts, and are added.
        once: Further entries of the record, which are made before the first round.
    """
    same = {"code": code, "draws": chosen.draws}
    found = atomic_files.read_json(chosen.out) if chosen.out.exists() else {}
    if any(found.get(name) != value for name, value in same.items()):
        found = {**same, "commit": None, "rounds": 0, **once(), "cells": []}
    print(f"{found['rounds']} of {chosen.rounds} rounds are in {chosen.out}")
    for number in range(found["rounds"], chosen.rounds):
        cells = draw(chosen, number)
        if found["cells"]:
            pairs = zip(found["cells"], cells, strict=True)
            cells = [
                {n: a[n] if n in names else a.get(n, 0) + b.get(n, 0) for n in {**a, **b}}
                for a, b in pairs
            ]
        found |= {"commit": code_fingerprint.current_commit(), "rounds": number + 1, "cells": cells}
        record(chosen, found)


def table(head: str, rows: Mapping[str, Mapping[str, Any]], *columns: str) -> str:
    """Numbers as text, a line for each name; of some columns, or of all."""
    columns = columns or tuple(next(iter(rows.values())))
    width = 2 + max(len(name) for name in (head, *rows))
    lines = [f"{head:<{width}}" + "".join(f"{name:>{len(name) + 3}}" for name in columns)]
    for name, row in rows.items():
        cells = ("" if row[c] is None else f"{row[c]:.4g}" for c in columns)
        pairs = zip(cells, columns, strict=True)
        lines.append(f"{name:<{width}}" + "".join(f"{x:>{len(c) + 3}}" for x, c in pairs))
    return "\n".join(lines)


def versions(*packages: str) -> dict[str, str]:
    """Those of the packages that are installed."""
    return {name: metadata.version(name) for name in packages if importlib.util.find_spec(name)}


def children_seconds() -> float:
    """Processor seconds of all processes that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
