"""What is asked of an export, checked before the packages that it needs are imported."""

import importlib
from pathlib import Path

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, ownership


def export(run: Path, *, out: Path, step: int | None = None) -> str:
    """Writes the model directory of a finished run's checkpoint (`pipeline.model.hf_export`).

    Args:
        run: The run's folder.
        out: The directory to make; it appears whole or not at all.
        step: Updates of the checkpoint; the last one when absent.

    Returns:
        What was made, in a line.

    Raises:
        InputError: the run is not finished or has no such checkpoint, `out` is somebody else's, or
            the directory cannot be made.
        ModuleNotFoundError: a package is not installed.
    """
    path = run / atomic_files.MANIFEST
    if not path.is_file():
        raise InputError(f"{run} is no finished run (it has no {path.name}): give a run's folder")
    manifest = atomic_files.read_json(path)
    if not isinstance(manifest, dict) or manifest.get("stage") != "pretrain":
        raise InputError(f"{path} is not of a training run: give the folder of one")
    step = manifest["steps"] if step is None else step
    if step not in manifest["checkpoints"]:
        kept = ", ".join(map(str, manifest["checkpoints"]))
        raise InputError(f"{run} keeps no checkpoint of step {step}: --step takes one of {kept}")
    ownership.refuse(out, "export", [run])
    directory = importlib.import_module("pipeline.model.hf_export")
    answer: str = directory.write(run, out, step)
    return answer
