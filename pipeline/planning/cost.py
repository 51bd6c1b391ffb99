"""The bill of an experiment before any of it runs: `pike plan`."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pike_mixing import RULES
from pike_mixing.errors import InputError
from pipeline.planning import jobs, outdated, output_root, plan_hints, planner
from pipeline.planning.profile import TRAINS
from pipeline.runtime import accelerators, environment, output_formats
from pipeline.runtime.accelerators import Accelerator

DEVICES = ("cpu", "h100", "tpu-v4")
"""Kinds of devices that are planned for where none is named."""


def plan(
    configurations: Sequence[Path],
    *,
    devices: Sequence[str] = (),
    targets: Sequence[str] = (),
    format: str = "text",
) -> str:
    """What an experiment takes on each kind of device: jobs, hours, memory and disk.

    Args:
        configurations: The experiment's files, of which a later one's values replace an earlier
            one's; without one, `config.yaml`. What ends in another suffix, behind the first, is
            a target.
        targets: Files to make, as Snakemake takes them: these and what they need are counted.
            Without one, all of the experiment.
        devices: Names of kinds of devices (`pipeline.runtime.accelerators`); with `:8`, eight of
            them train each run together. Without one, those of `DEVICES`.
        format: `text` for people; `json` has the bill of each device (hours of devices, seconds,
            bytes) and the warnings.

    Raises:
        InputError: the configuration is wrong, nothing makes a target, a device is unknown or
            stands among the targets, its number is no number, or a file of the user's own
            cannot be read.
    """
    behind = [path for path in configurations[1:] if path.suffix not in planner.SUFFIXES]
    targets = [*targets, *map(str, behind)]
    files = [path for path in configurations if path not in behind] or [Path("config.yaml")]
    if named := [one for one in targets if one.partition(":")[0] in accelerators.ACCELERATORS]:
        raise InputError(
            f"{' '.join(named)}: a kind of device, and no file to make: type --devices "
            + ",".join([*devices, *named])
        )
    kinds = [_kind(device) for device in devices or DEVICES]
    if twice := sorted({device for device in devices if devices.count(device) > 1}):
        raise InputError(f"--devices: named twice: {', '.join(twice)}")
    planned, own = planner.plan_of_workflow(files, {})
    output_root.refuse_file(planned.results)
    works = [jobs.Jobs(planned, kind, number, tuple(targets)) for kind, number in kinds]
    bills = [_numbers(work) for work in works]
    told = [
        *outdated.Comparison(planned).missing(),
        *plan_hints.unused_names(planned, own),
        *plan_hints.short_searches(planned),
        *plan_hints.few_documents(planned),
    ]
    told += [line for work, bill in zip(works, bills, strict=True) for line in _larger(work, bill)]
    if any(kind.hours_of == "core" for kind, _ in kinds):
        told += plan_hints.slow_products(planned)
    facts = {"devices": bills, "warnings": told}
    parts = [_for(work, bill) for work, bill in zip(works, bills, strict=True)]
    lines = ["\n\n".join(parts), *told]
    return output_formats.render(format, facts, lambda: "\n".join(lines))


def _larger(work: jobs.Jobs, bill: dict[str, Any]) -> Iterator[str]:
    """A line where jobs on a CPU take more memory than this machine has."""
    needed = {rule["rule"]: rule["memory_bytes"] for rule in bill["rules"]}
    here = environment.available_memory()
    if not work.device.memory and max(needed.values(), default=0) > here:
        rule = max(needed, key=needed.__getitem__)
        yield (
            f"{work.device.name}: a job of {rule} takes about {_size(needed[rule])} of memory, and "
            f"this machine has {_size(here)}: lower the model's sizes or microbatch_rows, or run "
            "it elsewhere"
        )


def _kind(device: str) -> tuple[Accelerator, int]:
    """A kind of device, and how many of it train a run together: "tpu-v4:8"."""
    name, colon, number = device.partition(":")
    kind = accelerators.find_accelerator(name, "--devices")
    if colon and not (number.isdecimal() and int(number) > 0):
        raise InputError(f"--devices: {device}: the number behind the colon is 1 or more: {name}:4")
    accelerators.refuse_too_many_devices(kind, int(number or 1), "--devices")
    return kind, int(number or 1)


def _numbers(work: jobs.Jobs) -> dict[str, Any]:
    """The bill of one kind of device for machines."""
    by_rule: dict[str, list[jobs.Job]] = defaultdict(list)
    for key in work.counted_keys():
        by_rule[key[0]].append(work.job(*key))
    rules = [
        {
            "rule": rule,
            "jobs": len(some),
            "hours": _hours(some),
            "longest_seconds": max(job.seconds for job in some),
            "memory_bytes": max(job.host_bytes for job in some),
            "disk_bytes": sum(job.disk_bytes for job in some),
        }
        for rule, some in by_rule.items()
    ]
    return {
        "device": work.device.name,
        "processes": work.processes,
        "rules": rules,
        "refused": {run: why for run in work.runs() if (why := work.refusal(run))},
    }


def _for(work: jobs.Jobs, bill: dict[str, Any]) -> str:
    """The same for people, with the longest runs."""
    device, rules, refused = work.device, bill["rules"], [*bill["refused"].values()]
    titles = ("rule", "jobs", f"{device.hours_of}-hours", "longest", "memory", "disk")
    rows = [
        (
            one["rule"],
            f"{one['jobs']:,}",
            f"{one['hours']:,.2f}" if one["hours"] else "",
            _duration(one["longest_seconds"]),
            _size(one["memory_bytes"]),
            _size(one["disk_bytes"]),
        )
        for one in rules
    ]
    together = f"; {work.processes} train a run together" if work.processes > 1 else ""
    own = sorted({work.plan.runs[run]["rule"] for run in work.runs()} - RULES.keys())
    lines = [
        f"{_describe(device)}{together}",
        "",
        _table(titles, rows),
        "",
        *([_runs(work), ""] if work.runs() else []),
        f"in all: {sum(one['hours'] for one in rules):,.1f} {device.hours_of}-hours",
        *_parts(work),
        f"disk: {_size(sum(one['disk_bytes'] for one in rules))}",
        *_network_line(work),
        *(f"refused, and not counted: {why}" for why in refused[:3]),
        *([f"  and {len(refused) - 3} more"] if len(refused) > 3 else []),
        *(
            f"tokenizer {name}: its file is not here: {jobs.ASSUMED_PIECES:,} pieces are assumed"
            for name in work.assumed_tokenizers()
        ),
        *(f"rule {r}: a plan imports none but ours: its runs are counted as mix's" for r in own),
    ]
    return "\n".join(lines)


def _runs(work: jobs.Jobs) -> str:
    """A line for each model in each scenario, of the run that takes longest."""
    groups = defaultdict[tuple[str, str], list[str]](list)
    for run in work.runs():
        values = work.plan.runs[run]
        groups[values["scenario"], values["model_name"]].append(run)
    titles = ("longest run", "parameters", "FLOPs", "devices", "memory each", "hours")
    rows = []
    for runs in groups.values():
        run = max(runs, key=lambda one: work.training(one).seconds)
        taken, refused = work.training(run), work.refusal(run)
        rows.append(
            (
                run,
                f"{taken.parameters:,}",
                f"{taken.flops:.2e}",
                str(taken.devices),
                _size(taken.device_bytes) + (": refused" if refused else ""),
                "" if refused else f"{taken.seconds / 3600:,.2f}",
            )
        )
    return _table(titles, rows)


def _network_line(work: jobs.Jobs) -> Iterator[str]:
    """A line on what the network must give, where it must."""
    sources = [
        name
        for rule, name in work.counted_keys()
        if rule == "download" and work.plan.sources[name]["kind"] == "huggingface"
    ]
    if sources:
        size = sum(work.job("download", name).disk_bytes for name in sources)
        yield f"  of it fetched from the Hugging Face Hub: {len(sources)} sources, {_size(size)}"


def _parts(work: jobs.Jobs) -> Iterator[str]:
    """What the runs of each seed take, and those that only serve others, such as grids.

    Without a line where all runs are of one kind.
    """
    requested, hours = set(work.plan.requested), defaultdict[str, float](float)
    runs, named = Counter[str](), work.plan.work()
    for run in work.runs():
        if work.refusal(run):
            continue
        part = f"seed {work.plan.runs[run]['seed']}" if run in requested else "serving others"
        hours[part] += _hours([work.job(rule, run) for rule in TRAINS if run in named[rule]])
        runs[part] += 1
    for part in sorted(hours) if len(hours) > 1 else ():
        yield f"  {part}: {runs[part]} runs, {hours[part]:,.1f} {work.device.hours_of}-hours"


def _describe(device: Accelerator) -> str:
    peaks = ", ".join(f"{peak / 1e12:,.3g} {kind}" for kind, peak in device.peak.items())
    memory = f", {_size(device.memory)}" if device.memory else ""
    return (
        f"{device.name}: peak TFLOP/s {peaks}{memory}; "
        f"{device.utilisation:.0%} of the peak is assumed"
    )


def _hours(some: Sequence[jobs.Job]) -> float:
    return sum(job.seconds * job.devices for job in some) / 3600


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def _size(number: float) -> str:
    for unit, size in (("TiB", 2**40), ("GiB", 2**30)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 2**20:,.0f} MiB"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return output_formats.align_columns(titles, rows, [False, *[True] * (len(titles) - 1)])
