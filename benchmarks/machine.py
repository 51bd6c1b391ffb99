"""On which machine something was measured, and how busy it was."""

import json
import os
import platform
from pathlib import Path
from typing import Any

import torch


def described(load_before: float) -> dict[str, Any]:
    """Facts for a record, given the load average from before the measurement."""
    return {
        "cpus": os.cpu_count(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "load_before": load_before,
        "load_after": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def processor() -> str:
    """Its name, as far as the system tells."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def record(path: Path, result: dict[str, Any], by_size: tuple[str, ...]) -> None:
    """Writes a result, with what an earlier record has of sizes that were not measured again.

    `of_size` says on which machine and day each size was measured.

    Args:
        path: The record's file.
        result: What was found, with `machine` and `date`.
        by_size: Its entries that have one value for each size.
    """
    how = {name: {key: result[key] for key in ("machine", "date")} for name in result[by_size[0]]}
    result = {**result, "of_size": how}
    if path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        for entry in (*by_size, "of_size"):
            result[entry] = {**earlier.get(entry, {}), **result[entry]}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
