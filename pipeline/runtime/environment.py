"""What this environment has: processors and memory, optional packages, versions of packages."""

import atexit
import contextlib
import functools
import gc
import importlib
import importlib.machinery
import importlib.metadata
import json
import os
import re
import resource
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError, clone_setup_command

ROOT = Path(__file__).resolve().parents[2]
"""The folder of this repository, or of the packages of an environment."""
_CGROUPS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
"""Where the kernel tells a container's limit, in its second and first version."""


def collect_garbage_rarely() -> None:
    """Leaves alone what is here now, and looks for garbage among the rest from time to time.

    Of a plan of 1,000 jobs hundreds of thousands of objects stay. To look for garbage among them
    again and again, and at the end, takes a fifth of the time.
    """
    gc.freeze()
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


def affinity_cpu_count() -> int:
    """Processors that the system lets the process run on; a batch system may give it fewer."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_limit_bytes() -> int:
    """Bytes that the process may use: the machine's, its container's or those of `ulimit -v`."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUPS:
        # No such file, or "max".
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text(encoding="ascii")))
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(limits if own == resource.RLIM_INFINITY else [*limits, own])


def is_torch_cpu_only() -> bool:
    """Whether the installed torch was built without a GPU's library.

    It is not imported, which takes seconds: its own file says what it was built with.
    """
    found = importlib.machinery.PathFinder.find_spec("torch")
    version = Path(found.origin).with_name("version.py") if found and found.origin else None
    if version is None or not version.is_file():
        return False
    built = version.read_text(encoding="utf-8")
    return not re.search(r"^(cuda|hip)\b[^=]*= *['\"]", built, re.MULTILINE)


EXTRAS = {
    "alembic": "mlflow",
    "datasets": "hub",
    "google": "hf",
    "huggingface_hub": "hub",
    "mlflow": "mlflow",
    "sklearn": "domains",
    "sqlalchemy": "mlflow",
    "tensorboard": "tensorboard",
    "tokenizers": "hf",
    "transformers": "hf",
    "wandb": "wandb",
}
"""Packages that not everybody installs, and the extra that installs each."""


def import_attribute(reference: str, asked_in: str, asked_for: object) -> Any:
    """The attribute of a module, by `module:attribute`; the module is imported.

    `asked_in` and `asked_for` are, for messages, the setting or command that asks, and its value.
    """
    module, _, attribute = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise InputError(
            f"{asked_in}: {asked_for!r} needs the package {error.name!r}, which is not installed: "
            f"run `{clone_setup_command(EXTRAS[error.name])}`"
        ) from error


_AS_IMPORTED = (
    *("torch", "torch_xla", "numpy", "scipy", "lightgbm", "sentencepiece", "duckdb"),
    *("matplotlib", "transformers"),
)
COMPUTING = {**{name: name for name in _AS_IMPORTED}, "sklearn": "scikit-learn"}
"""Packages whose versions may change a result, by the name that is imported."""


def without_build_tags(versions: Mapping[str, str]) -> dict[str, str]:
    """Versions without what they name a build by: 2.13.0 of 2.13.0+cpu and 2.13.0+cu130.

    Builds of one release are for kinds of devices, which results are free to have.
    """
    return {package: version.partition("+")[0] for package, version in versions.items()}


@functools.cache
def computing_package_versions(interpreter: str | None) -> dict[str, str] | None:
    """Versions of the packages `COMPUTING`, in this environment or an interpreter's own.

    None where that interpreter cannot be asked.
    """
    if interpreter is not None:
        names = f"import json; from {__name__} import computing_package_versions as of"
        program = f"{names}; print(json.dumps(of(None)))"
        # From this folder, as jobs start it: its path may be relative.
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)}
        try:
            said = subprocess.check_output(
                [interpreter, "-c", program], env=environment, stderr=subprocess.DEVNULL
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
