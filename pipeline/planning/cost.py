"""The bill of an experiment before any of it runs: `pike plan`."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pike_mixing import RULES
from pike_mixing.errors import InputError
from pipeline.planning import outdated_work, output_root, plan_hints, planner
from pipeline.planning.job_estimates import ASSUMED_PIECES, JobEstimates
from pipeline.planning.run_estimates import JobEstimate
from pipeline.planning.workflow_profile import TRAINS
from pipeline.runtime import accelerators, environment, output_formats
from pipeline.runtime.accelerators import Accelerator

DEVICES = ("cpu", "h100", "tpu-v4")
"""Kinds of devices that are planned for where none is named."""
NUMBERED = re.compile(r"(\d+)[x*: ]+(\S+)|(\S+?)[x* ]+(\d+)")
"""A number of devices as it is written elsewhere: 4xA100."""


def cost_report(
    configurations: Sequence[Path],
    *,
    devices: Sequence[str] = (),
    targets: Sequence[str] = (),
    format: str = "text",
) -> str:
    """What an experiment takes on each kind of device: jobs, hours, memory and disk.

    Of several configurations a later one's values replace an earlier one's; what ends in another
    suffix, behind the first, is a target. These and what they need are counted; without one, all of
    the experiment. A device with `:8` is eight that train each run together. With `format` json
    hours are those of devices, times seconds, sizes bytes; `seconds_here` are those of
    trainings, evaluations and probes on the cores of this machine, for the device cpu.
    """
    behind = [path for path in configurations[1:] if path.suffix not in planner.CONFIG_SUFFIXES]
    targets = [*targets, *map(str, behind)]
    files = [path for path in configurations if path not in behind] or [output_root.DEFAULT_CONFIG]
    if named := [one for one in targets if one.partition(":")[0] in accelerators.ACCELERATORS]:
        raise InputError(
            f"{' '.join(named)}: a kind of device, and no file to make: type --devices "
            + ",".join([*devices, *named])
        )
    if named := [one for one in targets if Path(one).suffix in planner.CONFIG_SUFFIXES]:
        raise InputError(
            f"{' '.join(named)}: a configuration, and no file to make: type --config "
            + " ".join([*map(str, configurations), *named])
        )
    kinds = [_parse_device(device) for device in devices or DEVICES]
    if twice := sorted({device for device in devices if devices.count(device) > 1}):
        raise InputError(f"--devices: named twice: {', '.join(twice)}")
    plan, own_config = planner.plan_config_files(files, {})
    output_root.refuse_unusable_root(plan.results)
    works = [JobEstimates(plan, kind, number, tuple(targets)) for kind, number in kinds]
    bills = [_device_bill(work) for work in works]
    missing = outdated_work.PlanComparison(plan).missing_needed_user_file_problems()
    told = [
        *plan_hints.unused_name_hints(plan, own_config),
        *plan_hints.short_proxy_run_hints(plan),
        *plan_hints.few_document_hints(plan),
        *(
            hint
            for work, bill in zip(works, bills, strict=True)
            for hint in _machine_memory_hints(work, bill)
        ),
    ]
    if any(kind.hours_of == "core" for kind, _ in kinds):
        told += plan_hints.slow_cpu_float32_hints(plan)
    # A plan is also made where the files are not, as on a laptop: it says so first.
    first = [*missing, "All below is planned as if they were there.", ""] if missing else []
    heading = f"{plan.config['experiment']} of {plan.origin}, in {plan.results}"
    parts = [_bill_text(work, bill) for work, bill in zip(works, bills, strict=True)]
    text = "\n".join([*first, heading, "\n\n".join(parts), *told])
    facts = {"devices": bills, "warnings": [*missing, *told]}
    return output_formats.json_csv_or_text(format, facts, lambda: text)


def _parse_device(device: str) -> tuple[Accelerator, int]:
    """A kind of device, and how many of it train a run together: "tpu-v4:8"."""
    name, colon, number = device.partition(":")
    if counted := NUMBERED.fullmatch(device):
        number, name = counted[1] or counted[4], counted[2] or counted[3]
        near = [k for k in accelerators.ACCELERATORS if f"{k}-".startswith(f"{name.lower()}-")]
        if near:
            types = " or ".join(f"{one}:{number}" for one in near)
            raise InputError(f"--devices: {device}: the kind comes first: type {types}")
    kind = accelerators.accelerator_of_name(name, "--devices")
    if colon and not (number.isdecimal() and int(number) > 0):
        raise InputError(f"--devices: {device}: the number behind the colon is 1 or more: {name}:4")
    accelerators.refuse_too_many_devices(kind, int(number or 1), "--devices")
    return kind, int(number or 1)


def _device_bill(work: JobEstimates) -> dict[str, Any]:
    """What an experiment takes on one kind of device, as JSON has it."""
    by_rule: dict[str, list[JobEstimate]] = defaultdict(list)
    for job in work.counted_jobs_from_scratch():
        by_rule[job.rule].append(work.estimate(*job))
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
    on_cores, runs = work.device.hours_of == "core", work.runs_to_train_even_if_refused()
    return {
        "device": work.device.name,
        "processes": work.processes,
        "rules": rules,
        "seconds_here": _device_job_seconds_locally(rules) if on_cores else None,
        "refused": {run: why for run in runs if (why := work.explain_refusal(run))},
    }


def _device_job_seconds_locally(rules: Sequence[dict[str, Any]]) -> float:
    """How long trainings, evaluations and probes take on all cores of this machine.

    At least as long as the longest job of each of these rules, one behind the other. The times of
    other jobs are bounds, far above what most take.
    """
    counted = [one for one in rules if one["hours"]]
    work = sum(one["hours"] for one in counted) * 3600 / environment.affinity_cpu_count()
    return float(max(work, sum(one["longest_seconds"] for one in counted)))


def _local_time_suffix(bill: dict[str, Any]) -> str:
    """The same in words; nothing for another kind of device, or where there are no such jobs."""
    if not bill["seconds_here"]:
        return ""
    cores = output_formats.count_with_noun(environment.affinity_cpu_count(), "core")
    seconds = _duration_text(bill["seconds_here"])
    return f": about {seconds} on this machine's {cores}; most other jobs take seconds"


def _machine_memory_hints(work: JobEstimates, bill: dict[str, Any]) -> Iterator[str]:
    """A line where jobs on a CPU take more memory than this machine has."""
    most = max(bill["rules"], key=lambda one: one["memory_bytes"], default={"memory_bytes": 0})
    here = environment.memory_limit_bytes()
    if not work.device.memory_bytes and most["memory_bytes"] > here:
        yield (
            f"{work.device.name}: a job of {most['rule']} takes about "
            f"{_bytes_text(most['memory_bytes'])} of memory, and this machine has "
            f"{_bytes_text(here)}: lower the model's sizes or microbatch_rows, or run it elsewhere"
        )


def _bill_text(work: JobEstimates, bill: dict[str, Any]) -> str:
    """The bill for people, with the longest runs."""
    device, plan = work.device, work.plan
    rules, refused = bill["rules"], [*bill["refused"].values()]
    peaks = ", ".join(f"{peak / 1e12:,.3g} {kind}" for kind, peak in device.peak_flops.items())
    memory = f", {_bytes_text(device.memory_bytes)}" if device.memory_bytes else ""
    together = f"; {work.processes} train a run together" if work.processes > 1 else ""
    titles = ("rule", "jobs", f"{device.hours_of}-hours", "longest", "memory", "disk")
    rows = [
        (
            one["rule"],
            f"{one['jobs']:,}",
            f"{one['hours']:,.2f}" if one["hours"] else "",
            # That of other jobs is a bound, far above what most take.
            ("" if one["hours"] else "< ") + _duration_text(one["longest_seconds"]),
            _bytes_text(one["memory_bytes"]),
            _bytes_text(one["disk_bytes"]),
        )
        for one in rules
    ]
    fetched = [
        work.estimate(*job).disk_bytes
        for job in work.counted_jobs_from_scratch()
        if job.rule == "download" and plan.sources[job.name]["kind"] == "huggingface"
    ]
    lines = [
        f"{device.name}: peak TFLOP/s {peaks}{memory}; {device.utilisation:.0%} of the peak is "
        f"assumed{together}",
        "",
        _aligned_table(titles, rows),
        "",
        *([_longest_run_per_model_table(work), ""] if work.runs_to_train_even_if_refused() else []),
        f"in all: {sum(one['hours'] for one in rules):,.1f} {device.hours_of}-hours"
        + _local_time_suffix(bill),
        *_hours_by_seed_lines(work),
        f"disk: {_bytes_text(sum(one['disk_bytes'] for one in rules))}",
    ]
    if fetched:
        size = f"{len(fetched)} sources, {_bytes_text(sum(fetched))}"
        lines.append(f"  of it fetched from the Hugging Face Hub: {size}")
    lines += [f"refused, and not counted: {why}" for why in refused[:3]]
    lines += [f"  and {len(refused) - 3} more"] if len(refused) > 3 else []
    lines += [
        f"tokenizer {name}: its file is not here: {ASSUMED_PIECES:,} pieces are assumed"
        for name in work.tokenizers_of_unknown_size()
    ]
    own = sorted(
        {plan.runs[run]["rule"] for run in work.runs_to_train_even_if_refused()} - RULES.keys()
    )
    lines += [
        f"rule {r}: `pike plan` does not load your class: its runs are counted as those of mix"
        for r in own
    ]
    return "\n".join(lines)


def _longest_run_per_model_table(work: JobEstimates) -> str:
    """A line for each model in each scenario, of the run that takes longest."""
    groups = defaultdict[tuple[str, str], list[str]](list)
    for run in work.runs_to_train_even_if_refused():
        values = work.plan.runs[run]
        groups[values["scenario"], values["model_name"]].append(run)
    titles = ("longest run", "parameters", "FLOPs", "devices", "memory each", "hours")
    rows = []
    for runs in groups.values():
        run = max(runs, key=lambda one: work.training_estimate(one).seconds)
        taken, refused = work.training_estimate(run), work.explain_refusal(run)
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


def _hours_by_seed_lines(work: JobEstimates) -> Iterator[str]:
    """What the runs of each seed take, and those that only serve others, such as grids.

    Without a line where all runs are of one kind.
    """
    requested, hours = set(work.plan.requested), defaultdict[str, float](float)
    runs, named = Counter[str](), work.plan.names_by_rule()
    for run in work.runs_to_train_even_if_refused():
        if work.explain_refusal(run):
            continue
        part = (
            f"seed {work.plan.runs[run]['seed']}"
            if run in requested
            else "to choose settings or mixtures"
        )
        hours[part] += _device_hours(work.estimate(r, run) for r in TRAINS if run in named[r])
        runs[part] += 1
    for part in sorted(hours) if len(hours) > 1 else ():
        yield f"  {part}: {runs[part]} runs, {hours[part]:,.1f} {work.device.hours_of}-hours"


def _device_hours(jobs: Iterable[JobEstimate]) -> float:
    return sum(job.seconds * job.devices for job in jobs) / 3600


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
