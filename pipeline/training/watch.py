"""`pike watch`: what runs do now, from their records, on a terminal.

It reads the parts that a run has written and the rows since, and never writes into a run's folder.
"""

import contextlib
import json
import math
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.runtime import atomic_files, presentation, run_lock
from pipeline.runtime.validation import validate
from pipeline.training import live_log

Facts = dict[str, Any]
Rows = list[Facts]

RECENT = 50
"""Steps over which a shown loss or pace is the mean."""


def watch(
    given: Path, *, every: float = 2.0, once: bool = False, format: str = "text"
) -> str | None:
    """Shows a run, or all runs below a folder, again and again until Ctrl-C.

    Args:
        given: A run's folder, or one that holds runs, such as `results`.
        every: Seconds between two looks.
        once: Whether to return what there is now instead; without a terminal that is so, too.
        format: text, or json, which there is once: an object, or a list of those of all runs.

    Raises:
        InputError: there is no run.
    """
    if once or format != "text" or not sys.stdout.isatty():
        return look(given, format)
    try:
        while True:
            size = shutil.get_terminal_size()
            lines = [line[: size.columns] for line in look(given).splitlines()[: size.lines - 1]]
            # From the corner, over what stood there: a cleared screen would flicker.
            rows = "".join(f"{line}\x1b[0m\x1b[K\n" for line in lines)
            sys.stdout.write(f"\x1b[H{rows}\x1b[J")
            sys.stdout.flush()
            time.sleep(every)
    except KeyboardInterrupt:
        return None


def look(given: Path, format: str = "text") -> str:
    """What there is to see now.

    Raises:
        InputError: there is no run, or the one that is asked for cannot be read.
    """
    if (given / "run.json").exists():
        run = _details(given)
        return presentation.shown(format, run, lambda: "\n".join(_described(run)))
    folders = sorted(path.parent for path in given.glob("**/run.json"))
    if not folders:
        raise InputError(f"{given} holds no run (no run.json): give a run's folder or `results`")
    runs = [_readable(folder, given) for folder in folders]
    return presentation.shown(format, runs, lambda: "\n".join([_HEAD, *map(_line, runs)]))


def rows(folder: Path, table: str, parts: int | None = None) -> Rows:
    """A run's rows of a table, those of steps that are repeated after a kill once.

    Args:
        folder: The run's.
        table: Name of the table.
        parts: How many of the newest parts to read; all when absent.

    Raises:
        InputError: a file is damaged.
    """
    if (folder / atomic_files.MANIFEST).exists():
        return _stored(folder / f"{table}.parquet")
    written = atomic_files.steps(folder / "parts")
    result: Rows = []
    for part in list(written.values())[-parts if parts else None :]:
        # A part without the table, or one that is gone since it was listed.
        with contextlib.suppress(FileNotFoundError):
            result += _stored(part / f"{table}.parquet")
    newest = max(written, default=0)
    for step, path in live_log.places(folder).items():
        result += _live(path, table) if step >= newest else []
    return result


def _stored(path: Path) -> Rows:
    try:
        return pq.read_table(path).to_pylist()
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} is not whole ({error}): start the run again") from None


def _live(path: Path, table: str) -> Rows:
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    # The last line may be half written, and after a kill the next one follows it without a break.
    result = []
    for line in lines:
        with contextlib.suppress(ValueError):
            row = json.loads(line) if line.endswith(b"\n") else None
            if isinstance(row, dict) and row.pop("table", None) == table:
                result.append(row)
    return result


def _state(folder: Path) -> str:
    if (folder / atomic_files.MANIFEST).exists():
        return "finished"
    if run_lock.is_held(folder):
        return "running"
    return "stopped" if (folder / "starts.json").exists() else "waiting"


def _readable(folder: Path, root: Path) -> Facts:
    """A run's facts; one that cannot be read does not hide the others."""
    name = {"run": str(folder.relative_to(root)).removeprefix("runs/")}
    try:
        return name | _facts(folder, rows(folder, "steps", parts=2))
    except InputError as error:
        return name | {"state": "unreadable", "problem": "; ".join(str(error).splitlines())}


def _facts(folder: Path, steps: Rows) -> Facts:
    """What is said of every run; of one without a step no more than how many there will be."""
    path = folder / "run.json"
    total = validate(settings.Run, atomic_files.read_json(path), str(path)).training.steps
    state, recent = _state(folder), steps[-RECENT:]
    facts: Facts = {"state": state, "step": 0, "steps": total}
    if recent:
        facts["step"] = recent[-1]["step"] + 1
        facts["loss"] = _mean(recent, "loss")
        facts["tokens_per_second"] = _mean(recent, "tokens_per_second")
    if recent and state == "running":
        facts["seconds_left"] = (total - facts["step"]) * _mean(recent, "seconds")
    return facts


def _details(folder: Path) -> Facts:
    """What is said of one run alone, too."""
    steps = rows(folder, "steps")
    facts = {"run": str(folder), **_facts(folder, steps)}
    if not steps:
        return facts
    last, recent = steps[-1], steps[-RECENT:]
    facts |= {name: last[name] for name in ("tokens", "memory_bytes", "learning_rate")}
    facts["gradient_norm"] = _mean(recent, "gradient_norm")
    if last["model_flops_utilisation"] is not None:
        facts["model_flops_utilisation"] = _mean(recent, "model_flops_utilisation")
    return facts | {"domains": _domains(folder), "alarms": rows(folder, "alarms")}


def _domains(folder: Path) -> list[Facts]:
    losses, weights = rows(folder, "domain_losses", parts=2), rows(folder, "weights", parts=2)
    last = {row["domain"]: row for row in weights}
    own = {d: [row for row in losses if row["domain"] == d][-RECENT:] for d in last}
    return [
        {"domain": d, "loss": _mean(own[d], "loss"), "weight": row["weight"], "rows": row["count"]}
        for d, row in last.items()
    ]


_HEAD = f"{'run':<44}{'state':<12}{'step':>18}{'loss':>9}{'token/s':>11}{'left':>10}"


def _line(run: Facts) -> str:
    state, of = run["state"], f"{run.get('step', 0):,}/{run.get('steps', 0):,}"
    start = f"{run['run']:<44}{_coloured(state)}{'':<{max(0, 12 - len(state))}}"
    if "problem" in run:
        return start + run["problem"]
    if "loss" not in run:
        return f"{start}{of:>18}"
    pace, left = run["tokens_per_second"], _left(run)
    return f"{start}{of:>18}{run['loss']:>9.3f}{pace:>11,.0f}{left:>10}"


def _described(run: Facts) -> list[str]:
    total, done = run["steps"], run["step"]
    lines = [f"{run['run']}: {_coloured(run['state'])}"]
    if not done:
        return [*lines, f"no step of {total:,} is done"]
    share, left = run.get("model_flops_utilisation"), _left(run)
    facts = [
        f"step {done:,} of {total:,} ({done / total:.1%})",
        f"{run['tokens']:,} tokens",
        f"{run['tokens_per_second']:,.0f} a second",
        "" if share is None else f"{share:.1%} of the peak",
        f"{run['memory_bytes'] / 2**30:.2f} GiB",
        f"{left} left" if left else "",
    ]
    norm, rate = run["gradient_norm"], run["learning_rate"]
    lines.append(", ".join(filter(None, facts)))
    lines.append(f"loss {run['loss']:.4f}  gradient norm {norm:.3f}  learning rate {rate:.3g}")
    lines += ["", f"{'domain':<24}{'loss':>9}{'weight':>9}{'rows':>7}"]
    for d in run["domains"]:
        lines.append(f"{d['domain']:<24}{d['loss']:>9.4f}{d['weight']:>9.4f}{d['rows']:>7}")
    told = (f"alarm at step {row['step']}: {row['message']}" for row in run["alarms"][-3:])
    return [*lines, *(presentation.painted(line, "yellow") for line in told)]


def _coloured(state: str) -> str:
    colour = {"running": "green", "stopped": "red", "unreadable": "red"}.get(state, "bold")
    return presentation.painted(state, colour)


def _mean(recent: Rows, column: str) -> float:
    values = [row[column] for row in recent if row[column] is not None]
    return sum(values) / len(values) if values else math.nan


def _left(run: Facts) -> str:
    if "seconds_left" not in run:
        return ""
    seconds = round(run["seconds_left"])
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours} h {minutes:02}" if hours else f"{minutes} min {seconds % 60:02}"
