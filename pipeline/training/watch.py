"""`pike watch`: a table of the runs below a folder, from their records."""

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.runtime import atomic_files, locks, output_formats
from pipeline.runtime.validate_settings import validate
from pipeline.training import metric_log

Rows = list[dict[str, Any]]

_NEWEST = 2**20
"""Bytes of a log in which the last step is looked for."""
NUMBERS = ("run", "state", "step", "steps", "loss", "tokens_per_second")


def watch_runs_until_interrupted(
    given: Path, *, every: float = 2.0, once: bool = False, format: str = "text"
) -> str | None:
    """Shows the runs again and again until Ctrl-C.

    Args:
        given: A run's folder, or one that holds runs, such as `results`.
        every: Seconds between two looks.
        once: Whether to return what there is now; without a terminal that is so, too.
        format: text, or json, which there is once.

    Raises:
        InputError: there is no run.
    """
    if once or format != "text" or not sys.stdout.isatty():
        runs = read_status_of_runs(given)
        return output_formats.json_csv_or_text(format, runs, lambda: _status_table(runs))
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            sys.stdout.write(f"\x1b[H\x1b[J{_status_table(read_status_of_runs(given))}\n")
            sys.stdout.flush()
            time.sleep(every)
    return None


def read_status_of_runs(given: Path) -> Rows:
    """Each run's state, and step, loss, speed and weights of its last step."""
    return [_run_status(run) for run in run_folders_or_refuse(given)]


def run_folders_or_refuse(given: Path) -> list[Path]:
    """The folders of runs at or below a place, in the order of their names."""
    result = sorted(path.parent for path in given.glob("**/run.json"))
    if not result:
        raise InputError(f"{given} holds no run (no run.json): give a run's folder or `results`")
    return result


def _run_status(run_folder: Path) -> dict[str, Any]:
    path, name = run_folder / "run.json", "/".join(run_folder.absolute().parts[-4:])
    try:
        steps = validate(settings.Run, atomic_files.read_json(path), str(path)).training.steps
        rows = metric_log.read_log_file_rows(run_folder, ("steps", "weights"), last_bytes=_NEWEST)
    except InputError as error:
        return {"run": name, "state": f"unreadable: {error}".replace(f"{run_folder}/", "")}
    facts = {"run": name, "state": _run_state(run_folder), "step": 0, "steps": steps}
    if last := max(rows["steps"], key=lambda row: row["step"], default=None):
        facts |= {"step": last["step"] + 1, "loss": last["loss"]}
        own = {r["domain"]: r["weight"] for r in rows["weights"] if r["step"] == last["step"]}
        facts |= {"tokens_per_second": last["tokens_per_second"], "weights": own}
    return facts


def _status_table(runs: Rows) -> str:
    shares = [run.get("weights", {}).items() for run in runs]
    texts = [" ".join(f"{domain} {w:.3f}" for domain, w in items) for items in shares]
    rows = [[*map(run.get, NUMBERS), text] for run, text in zip(runs, texts, strict=True)]
    return output_formats.table_with_row_count([*NUMBERS, "weights"], rows)


def _run_state(run_folder: Path) -> str:
    if (run_folder / atomic_files.MANIFEST).exists():
        return "finished"
    if locks.is_lease_held(run_folder):
        return "running"
    return "stopped" if (run_folder / "starts.json").exists() else "waiting"
