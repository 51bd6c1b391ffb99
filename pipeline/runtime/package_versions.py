"""Versions of the packages that results are computed with."""

import contextlib
import functools
import importlib.metadata
import json
import subprocess
from collections.abc import Iterable, Mapping

from pipeline.runtime import code_fingerprint, source_names

COMPUTING = {name: name for name in ("torch", "torch_xla", "numpy", "scipy", "lightgbm")} | {
    "sentencepiece": "sentencepiece",
    "sklearn": "scikit-learn",
    "duckdb": "duckdb",
    "matplotlib": "matplotlib",
    "transformers": "transformers",
}
"""Packages whose versions may change a result, by the name that is imported."""


def of(modules: Iterable[str], python: str | None = None) -> dict[str, str] | None:
    """Versions of the packages that modules import and compute with, by package.

    Args:
        modules: Dotted names.
        python: The interpreter that would do the work; absent: this one.

    Returns:
        None where that interpreter is not on this machine.
    """
    there = _installed(python)
    named = sorted(code_fingerprint.named(modules) & COMPUTING.keys())
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
        try:
            done = subprocess.run(
                [python, "-c", program],
                cwd=source_names.ROOT,
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return dict(json.loads(done.stdout))
    result = {}
    for package in COMPUTING.values():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            result[package] = importlib.metadata.version(package)
    return result
