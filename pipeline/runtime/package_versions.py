"""Versions of the packages that results are computed with."""

import contextlib
import functools
import importlib.metadata
import json
import os
import subprocess
from collections.abc import Mapping, Sequence

from pipeline.runtime import code_fingerprint, source_names

_AS_IMPORTED = (
    *("torch", "torch_xla", "numpy", "scipy", "lightgbm", "sentencepiece", "duckdb"),
    *("matplotlib", "transformers"),
)
COMPUTING = {**{name: name for name in _AS_IMPORTED}, "sklearn": "scikit-learn"}
"""Packages whose versions may change a result, by the name that is imported."""
COPYING = ("download", "fetch")
"""Stages that copy text: they compute with no package but those that their peer itself imports."""


def of(stage: str, modules: Sequence[str], python: str | None = None) -> dict[str, str] | None:
    """Versions of the packages that a stage computes with, by package.

    Args:
        stage: Name of the stage.
        modules: Modules that do its work.
        python: The interpreter that would do it; absent: this one.

    Returns:
        None where that interpreter is not on this machine.
    """
    there = _installed(python)
    closure = modules if stage in COPYING else code_fingerprint.closure(*modules)
    named = sorted(code_fingerprint.named(closure) & COMPUTING.keys())
    packages = [COMPUTING[name] for name in named]
    return None if there is None else {name: there[name] for name in packages if name in there}


def releases(versions: Mapping[str, str]) -> dict[str, str]:
    """Versions without what they name a build by: 2.13.0 of 2.13.0+cpu and 2.13.0+cu130.

    Builds of one release are for kinds of devices, which results are free to have.
    """
    return {package: version.partition("+")[0] for package, version in versions.items()}


@functools.cache
def _installed(python: str | None) -> dict[str, str] | None:
    """Versions of all packages that compute, in this environment or an interpreter's own."""
    if python is not None:
        program = (
            f"from {__name__} import _installed; import json; print(json.dumps(_installed(None)))"
        )
        # From this folder, as jobs start it: its path may be relative.
        path = os.pathsep.join([str(source_names.ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)}
        try:
            said = subprocess.check_output(
                [python, "-c", program], env=environment, stderr=subprocess.DEVNULL
            )
            # It may greet first.
            return dict(json.loads(said.splitlines()[-1]))
        except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
            return None
    result = {}
    for package in COMPUTING.values():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            result[package] = importlib.metadata.version(package)
    return result
