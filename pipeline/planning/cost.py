"""The bill of an experiment before any of it runs: `pike plan`."""

import re
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
NUMBERED = re.compile(r"(\d+)[x*: ]+(\S+)|(\S+?)[x* ]+(\d+)")
"""A number of devices as it is written elsewhere: 4xA100."""


def estimate_cost(
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
    if named := [one for one in targets if Path(one).suffix in planner.SUFFIXES]:
        raise InputError(
            f"{' '.join(named)}: a configuration, and no file to make: type --config "
            + " ".join([*map(str, configurations), *named])
        )
    kinds = [_parse_device(device) for device in devices or DEVICES]
    if twice := sorted({device for device in devices if devices.count(device) > 1}):
        raise InputError(f"--devices: named twice: {', '.join(twice)}")
    planned, own = planner.plan_of_workflow(files, {})
    output_root.refuse_unusable_root(planned.results)
    works = [jobs.Jobs(planned, kind, number, tuple(targets)) for kind, number in kinds]
    bills = [_device_cost(work) for work in works]
    missing = outdated.PlanComparison(planned).missing_file_problems()
    told = [
        *plan_hints.unused_name_hints(planned, own),
        *plan_hints.short_search_hints(planned),
        *plan_hints.few_document_hints(planned),
    ]
    told += [
        line
        for work, bill in zip(works, bills, strict=True)
        for line in _memory_warnings(work, bill)
    ]
    if any(kind.hours_of == "core" for kind, _ in kinds):
        told += plan_hints.slow_float32_hints(planned)
    facts = {"devices": bills, "warnings": [*missing, *told]}
    parts = [_device_cost_text(work, bill) for work, bill in zip(works, bills, strict=True)]
    # A plan is also made where the files are not, as on a laptop: it says so first.
    first = [*missing, "All below is planned as if they were there.", ""] if missing else []
    lines = [*first, "\n\n".join(parts), *told]
    return output_formats.render(format, facts, lambda: "\n".join(lines))


def _memory_warnings(work: jobs.Jobs, cost: dict[str, Any]) -> Iterator[str]:
    """A line where jobs on a CPU take more memory than this machine has."""
    needed = {rule["rule"]: rule["memory_bytes"] for rule in cost["rules"]}
    here = environment.available_memory()
    if not work.device.memory_bytes and max(needed.values(), default=0) > here:
        rule = max(needed, key=needed.__getitem__)
        yield (
            f"{work.device.name}: a job of {rule} takes about {_bytes_text(needed[rule])} of "
            f"memory, and this machine has {_bytes_text(here)}: lower the model's sizes or "
            "microbatch_rows, or run it elsewhere"
        )


def _parse_device(device: str) -> tuple[Accelerator, int]:
    """A kind of device, and how many of it train a run together: "tpu-v4:8"."""
    name, colon, number = device.partition(":")
    if counted := NUMBERED.fullmatch(device):
        number, written = (
            one or other for one, other in (counted.group(1, 4), counted.group(2, 3))
        )
        named = written.lower()
        near = [one for one in accelerators.ACCELERATORS if f"{one}-".startswith(f"{named}-")]
        if near:
            types = " or ".join(f"{one}:{number}" for one in near)
            raise InputError(f"--devices: {device}: the kind comes first: type {types}")
        name = written
    kind = accelerators.accelerator_of_name(name, "--devices")
    if colon and not (number.isdecimal() and int(number) > 0):
        raise InputError(f"--devices: {device}: the number behind the colon is 1 or more: {name}:4")
    accelerators.refuse_too_many_devices(kind, int(number or 1), "--devices")
    return kind, int(number or 1)


def _device_cost(work: jobs.Jobs) -> dict[str, Any]:
    """The bill of one kind of device for machines."""
    by_rule: dict[str, list[jobs.Job]] = defaultdict(list)
    for key in work.counted_keys():
        by_rule[key[0]].append(work.job(*key))
    rules = [
        {
            "rule": rule,
            "jobs": len(some),
            "hours": _device_hours(some),
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
        "refused": {run: why for run in work.trained_runs() if (why := work.refusal(run))},
    }


def _device_cost_text(work: jobs.Jobs, cost: dict[str, Any]) -> str:
    """The same for people, with the longest runs."""
    device, rules, refused = work.device, cost["rules"], [*cost["refused"].values()]
    titles = ("rule", "jobs", f"{device.hours_of}-hours", "longest", "memory", "disk")
    rows = [
        (
            one["rule"],
            f"{one['jobs']:,}",
            f"{one['hours']:,.2f}" if one["hours"] else "",
            _duration_text(one["longest_seconds"]),
            _bytes_text(one["memory_bytes"]),
            _bytes_text(one["disk_bytes"]),
        )
        for one in rules
    ]
    together = f"; {work.processes} train a run together" if work.processes > 1 else ""
    own = sorted({work.plan.runs[run]["rule"] for run in work.trained_runs()} - RULES.keys())
    lines = [
        f"{_device_line(device)}{together}",
        "",
        _aligned_table(titles, rows),
        "",
        *([_longest_runs_table(work), ""] if work.trained_runs() else []),
        f"in all: {sum(one['hours'] for one in rules):,.1f} {device.hours_of}-hours",
        *_hours_by_seed_lines(work),
        f"disk: {_bytes_text(sum(one['disk_bytes'] for one in rules))}",
        *_hub_download_line(work),
        *(f"refused, and not counted: {why}" for why in refused[:3]),
        *([f"  and {len(refused) - 3} more"] if len(refused) > 3 else []),
        *(
            f"tokenizer {name}: its file is not here: {jobs.ASSUMED_PIECES:,} pieces are assumed"
            for name in work.unsized_tokenizers()
        ),
        *(f"rule {r}: a plan imports none but ours: its runs are counted as mix's" for r in own),
    ]
    return "\n".join(lines)


def _longest_runs_table(work: jobs.Jobs) -> str:
    """A line for each model in each scenario, of the run that takes longest."""
    groups = defaultdict[tuple[str, str], list[str]](list)
    for run in work.trained_runs():
        values = work.plan.runs[run]
        groups[values["scenario"], values["model_name"]].append(run)
    titles = ("longest run", "parameters", "FLOPs", "devices", "memory each", "hours")
    rows = []
    for runs in groups.values():
        run = max(runs, key=lambda one: work.training_estimate(one).seconds)
        taken, refused = work.training_estimate(run), work.refusal(run)
        rows.append(
            (
                run,
                f"{taken.parameters:,}",
                f"{taken.flops:.2e}",
                str(taken.devices),
                _bytes_text(taken.device_bytes) + (": refused" if refused else ""),
                "" if refused else f"{taken.seconds / 3600:,.2f}",
            )
        )
    return _aligned_table(titles, rows)


def _hub_download_line(work: jobs.Jobs) -> Iterator[str]:
    """A line on what the network must give, where it must."""
    sources = [
        name
        for rule, name in work.counted_keys()
        if rule == "download" and work.plan.sources[name]["kind"] == "huggingface"
    ]
    if sources:
        size = sum(work.job("download", name).disk_bytes for name in sources)
        fetched = f"{len(sources)} sources, {_bytes_text(size)}"
        yield f"  of it fetched from the Hugging Face Hub: {fetched}"


def _hours_by_seed_lines(work: jobs.Jobs) -> Iterator[str]:
    """What the runs of each seed take, and those that only serve others, such as grids.

    Without a line where all runs are of one kind.
    """
    requested, hours = set(work.plan.requested), defaultdict[str, float](float)
    runs, named = Counter[str](), work.plan.names_by_rule()
    for run in work.trained_runs():
        if work.refusal(run):
            continue
        part = f"seed {work.plan.runs[run]['seed']}" if run in requested else "serving others"
        hours[part] += _device_hours([work.job(rule, run) for rule in TRAINS if run in named[rule]])
        runs[part] += 1
    for part in sorted(hours) if len(hours) > 1 else ():
        yield f"  {part}: {runs[part]} runs, {hours[part]:,.1f} {work.device.hours_of}-hours"


def _device_line(device: Accelerator) -> str:
    peaks = ", ".join(f"{peak / 1e12:,.3g} {kind}" for kind, peak in device.peak_flops.items())
    memory = f", {_bytes_text(device.memory_bytes)}" if device.memory_bytes else ""
    return (
        f"{device.name}: peak TFLOP/s {peaks}{memory}; "
        f"{device.utilisation:.0%} of the peak is assumed"
    )


def _device_hours(work: Sequence[jobs.Job]) -> float:
    return sum(job.seconds * job.devices for job in work) / 3600


def _duration_text(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def _bytes_text(number: float) -> str:
    for unit, size in (("TiB", 2**40), ("GiB", 2**30)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 2**20:,.0f} MiB"


def _aligned_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return output_formats.align_columns(titles, rows, [False, *[True] * (len(titles) - 1)])
