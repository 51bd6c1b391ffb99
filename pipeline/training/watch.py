"""`pike watch`: what runs do now, from their records, on a terminal.

It reads the parts that a run has written and the rows since, and never writes into a run's folder.
"""

import contextlib
import json
import math
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pike_mixing.settings import parse
from pipeline import settings
from pipeline.runtime import atomic_files, run_lock
from pipeline.training import live_log

Rows = list[dict[str, Any]]

RECENT = 50
"""Steps over which a shown loss or pace is the mean."""
BARS = "▁▂▃▄▅▆▇█"
SILENT_SECONDS = 4 * run_lock.HEARTBEAT_SECONDS


def watch(given: Path, *, every: float = 2.0, once: bool = False) -> str | None:
    """Shows a run, or all runs below a folder, again and again until Ctrl-C.

    Args:
        given: A run's folder, or one that holds runs, such as `results`.
        every: Seconds between two looks.
        once: Whether to return what there is now instead; without a terminal that is so, too.

    Raises:
        InputError: there is no run.
    """
    if once or not sys.stdout.isatty():
        return look(given)
    try:
        while True:
            size = shutil.get_terminal_size()
            lines = [line[: size.columns] for line in look(given).splitlines()[: size.lines - 1]]
            # From the corner, over what stood there: a cleared screen would flicker.
            sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
            sys.stdout.flush()
            time.sleep(every)
    except KeyboardInterrupt:
        return None


def look(given: Path) -> str:
    """What there is to see now.

    Raises:
        InputError: there is no run, or the one that is asked for cannot be read.
    """
    if (given / "run.json").exists():
        return "\n".join(_of_run(given))
    folders = sorted(path.parent for path in given.glob("**/run.json"))
    if not folders:
        raise InputError(f"{given} holds no run (no run.json): give a run's folder or `results`")
    lines = [f"{'run':<44}{'state':<12}{'step':>18}{'loss':>9}{'token/s':>11}{'left':>10}"]
    return "\n".join([*lines, *(_listed(folder, given) for folder in folders)])


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
    found: Rows = []
    for part in list(written.values())[-parts if parts else None :]:
        # A part without the table, or one that is gone since it was listed.
        with contextlib.suppress(FileNotFoundError):
            found += _stored(part / f"{table}.parquet")
    newest = max(written, default=0)
    for step, path in live_log.places(folder).items():
        found += _live(path, table) if step >= newest else []
    return found


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
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            row = json.loads(line) if line.endswith(b"\n") else None
            if isinstance(row, dict) and row.pop("table", None) == table:
                found.append(row)
    return found


def _state(folder: Path) -> str:
    if (folder / atomic_files.MANIFEST).exists():
        return "finished"
    for holder in (folder / "lease").glob("*.json"):
        # One who has just let go is no sign of life.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - holder.stat().st_mtime < SILENT_SECONDS:
                return "running"
    return "stopped" if (folder / "starts.json").exists() else "waiting"


def _listed(folder: Path, root: Path) -> str:
    """A run's line; one that cannot be read does not hide the others."""
    name = f"{str(folder.relative_to(root)).removeprefix('runs/'):<44}"
    try:
        return name + _line(folder)
    except InputError as error:
        return f"{name}{'unreadable':<12}{'; '.join(str(error).splitlines())}"


def _line(folder: Path) -> str:
    total, steps = _total(folder), rows(folder, "steps", parts=2)[-RECENT:]
    state = _state(folder)
    start = f"{state:<12}"
    if not steps:
        return f"{start}{f'0/{total:,}':>18}"
    done = steps[-1]["step"] + 1
    left = _left(steps, total - done) if state == "running" else ""
    loss, pace = _mean(steps, "loss"), _mean(steps, "tokens_per_second")
    return f"{start}{f'{done:,}/{total:,}':>18}{loss:>9.3f}{pace:>11,.0f}{left:>10}"


def _total(folder: Path) -> int:
    path = folder / "run.json"
    return parse(settings.Run, atomic_files.read_json(path), str(path)).training.steps


def _of_run(folder: Path) -> list[str]:
    total, steps, state = _total(folder), rows(folder, "steps"), _state(folder)
    lines = [f"{folder}: {state}"]
    if not steps:
        return [*lines, f"no step of {total:,} is done"]
    last, recent = steps[-1], steps[-RECENT:]
    done = last["step"] + 1
    share = last["model_flops_utilisation"]
    facts = [
        f"step {done:,} of {total:,} ({done / total:.1%})",
        f"{last['tokens']:,} tokens",
        f"{_mean(recent, 'tokens_per_second'):,.0f} a second",
        "" if share is None else f"{_mean(recent, 'model_flops_utilisation'):.1%} of the peak",
        f"{last['memory_bytes'] / 2**30:.2f} GiB",
        f"{_left(recent, total - done)} left" if state == "running" else "",
    ]
    lines.append(", ".join(filter(None, facts)))
    norm, rate = _mean(recent, "gradient_norm"), last["learning_rate"]
    lines.append(
        f"loss {_mean(recent, 'loss'):.4f}  gradient norm {norm:.3f}  learning rate {rate:.3g}"
    )
    lines += [_curve([row["loss"] for row in steps], 72), "", *_domains(folder)]
    alarms = rows(folder, "alarms")[-3:]
    return [*lines, *(f"alarm at step {row['step']}: {row['message']}" for row in alarms)]


def _domains(folder: Path) -> list[str]:
    losses, weights = rows(folder, "domain_losses", parts=2), rows(folder, "weights", parts=2)
    lines = [f"{'domain':<24}{'loss':>9}{'weight':>9}{'rows':>7}"]
    for domain in dict.fromkeys(row["domain"] for row in weights):
        own = [row for row in losses if row["domain"] == domain][-RECENT:]
        last = [row for row in weights if row["domain"] == domain][-1]
        loss = _mean(own, "loss")
        lines.append(f"{domain:<24}{loss:>9.4f}{last['weight']:>9.4f}{last['count']:>7}")
    return lines


def _mean(found: Rows, column: str) -> float:
    values = [row[column] for row in found if row[column] is not None]
    return sum(values) / len(values) if values else math.nan


def _left(recent: Rows, steps: int) -> str:
    seconds = round(steps * _mean(recent, "seconds"))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours} h {minutes:02}" if hours else f"{minutes} min {seconds % 60:02}"


def _curve(values: Sequence[float], width: int) -> str:
    """Means over equal stretches of the run, as bars from the least to the greatest."""
    stretch = math.ceil(len(values) / width)
    pieces = [values[n : n + stretch] for n in range(0, len(values), stretch)]
    means = [sum(piece) / len(piece) for piece in pieces]
    low, span = min(means), max(means) - min(means) or 1.0
    bars = "".join(BARS[min(int((m - low) / span * len(BARS)), len(BARS) - 1)] for m in means)
    return f"{bars}  {max(means):.3f} to {low:.3f}"
