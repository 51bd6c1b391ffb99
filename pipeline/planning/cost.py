"""The bill of an experiment before any of it runs: `pike plan`."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from pike_mixing import RULES
from pike_mixing.errors import InputError
from pike_mixing.settings import unknown
from pipeline.planning import jobs, output_root, planner
from pipeline.runtime import accelerators
from pipeline.runtime.accelerators import Accelerator


def plan(configuration: Path, *, devices: Sequence[str], prices: Sequence[str] = ()) -> str:
    """What an experiment takes on each kind of device: jobs, hours, memory, disk and cost.

    Args:
        configuration: The experiment's configuration.
        devices: Names of kinds of devices (`pipeline.runtime.accelerators`).
        prices: `NAME=PRICE` of an hour of one device, in any currency.

    Raises:
        InputError: the configuration is wrong, or a device or a price cannot be read.
    """
    for device in devices:
        if device not in accelerators.ACCELERATORS:
            raise InputError(unknown(device, accelerators.ACCELERATORS, "--devices"))
    if twice := sorted({device for device in devices if devices.count(device) > 1}):
        raise InputError(f"--devices: named twice: {', '.join(twice)}")
    planned = planner.plan(planner.read(configuration), str(configuration))
    output_root.refuse_file(planned.results)
    priced = _prices(prices, devices)
    parts = [_for(jobs.Jobs(planned, accelerators.accelerator(d)), priced.get(d)) for d in devices]
    return "\n\n".join(parts)


def _prices(given: Sequence[str], devices: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in given:
        name, _, price = text.partition("=")
        if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", price, re.ASCII):
            raise InputError(f"--prices: {text!r} is not NAME=PRICE: write for instance h100=2.5")
        if name not in accelerators.ACCELERATORS:
            raise InputError(unknown(name, accelerators.ACCELERATORS, "--prices"))
        if name in found:
            raise InputError(f"--prices: {name} has two prices: leave one of them")
        if name not in devices:
            raise InputError(f"--prices: {name} is not planned for: add it to --devices")
        found[name] = float(price)
    return found


def _for(work: jobs.Jobs, price: float | None) -> str:
    device = work.device
    by_rule: dict[str, list[jobs.Job]] = defaultdict(list)
    for key in work.every():
        by_rule[key[0]].append(work.job(*key))
    hours = {rule: _hours(some) for rule, some in by_rule.items()}
    titles = ("rule", "jobs", f"{device.hours_of}-hours", "longest", "memory", "disk")
    rows = [
        (
            rule,
            f"{len(some):,}",
            f"{hours[rule]:,.2f}" if some[0].devices else "",
            _duration(max(job.seconds for job in some)),
            _size(max(job.host_bytes for job in some)),
            _size(sum(job.disk_bytes for job in some)),
        )
        for rule, some in by_rule.items()
    ]
    seconds, chain = max(work.waits(key) for key in work.every())
    lines = [_described(device), "", *_table([titles, *rows]), ""]
    lines += _runs(work)
    every = sum(hours.values())
    lines.append(f"in all: {every:,.1f} {device.hours_of}-hours{_cost(every, price, device)}")
    lines.append(f"disk: {_size(sum(j.disk_bytes for some in by_rule.values() for j in some))}")
    path = " > ".join(f"{rule} {name}".strip() for rule, name in chain)
    lines.append(f"critical path: {_duration(seconds)}: {path}")
    for name in work.assumed():
        lines.append(
            f"tokenizer {name}: its file is not here: {jobs.ASSUMED_PIECES:,} pieces are assumed"
        )
    for rule in sorted({values["rule"] for values in work.plan.runs.values()} - RULES.keys()):
        lines.append(f"rule {rule}: a plan imports none but ours: its runs are counted as mix's")
    return "\n".join(lines)


def _runs(work: jobs.Jobs) -> list[str]:
    """A line for each model in each scenario, of the run that takes longest."""
    chosen: dict[tuple[str, str], str] = {}
    for run, values in work.plan.runs.items():
        key = (values["scenario"], values["model_name"])
        seconds = work.job("pretrain", run).seconds
        if key not in chosen or seconds > work.job("pretrain", chosen[key]).seconds:
            chosen[key] = run
    titles = ("longest run", "parameters", "FLOPs", "devices", "memory each", "hours")
    rows = []
    for run in chosen.values():
        taken = work.job("pretrain", run).taken
        assert taken is not None
        each = _size(taken.device_bytes)
        rows.append(
            (
                run,
                f"{taken.parameters:,}",
                f"{taken.flops:.2e}",
                str(taken.devices),
                each if taken.fits else f"{each}: too much, lower training.microbatch_rows",
                f"{taken.seconds / 3600:,.2f}",
            )
        )
    return [*_table([titles, *rows]), ""]


def _described(device: Accelerator) -> str:
    peaks = ", ".join(f"{peak / 1e12:,.3g} {kind}" for kind, peak in device.peak.items())
    memory = f", {_size(device.memory)}" if device.memory else ""
    return (
        f"{device.name}: peak TFLOP/s {peaks}{memory}; "
        f"{device.utilisation:.0%} of the peak is assumed"
    )


def _hours(some: Sequence[jobs.Job]) -> float:
    return sum(job.seconds * job.devices for job in some) / 3600


def _cost(hours: float, price: float | None, device: Accelerator) -> str:
    if price is None:
        return ""
    return f", {hours * price:,.2f} at {price:g} each"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def _size(number: float) -> str:
    for unit, size in (("TiB", 2**40), ("GiB", 2**30)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 2**20:,.0f} MiB"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str]) -> str:
        first, *rest = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]
        return "  ".join(cells).rstrip()

    return [line(row) for row in rows]
