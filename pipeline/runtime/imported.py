"""What a process has imported, and whether another one would import the same."""

import contextlib
import gc
import importlib
import itertools
import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.runtime import code_fingerprint, source_names

OF_EACH = frozenset({"TMPDIR", "TMP", "TEMP", "TEMPDIR", "PWD", "OLDPWD", "SHLVL", "_"})
"""Variables that no module reads when it is imported: jobs may differ in them."""


class Request(NamedTuple):
    """What a client wants."""

    command: list[str]
    folder: str
    environment: dict[str, str]
    files: list[int]
    """Its standard input, output and error."""


class Imported:
    """What was there when the modules were imported."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._folder, self._environment = str(Path.cwd()), _alike(os.environ)
        self._files = _stamps()
        # Arrow's allocator would start a thread, which a fork does not have.
        os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
        # pyarrow imports pandas when it meets its first list.
        for module in (*modules, "pandas"):
            importlib.import_module(module)
        packages = tuple(f"{name}." for name in source_names.FIRST_PARTY)
        code_fingerprint.of(*(name for name in sys.modules if name.startswith(packages)))
        gc.collect()
        gc.freeze()

    def difference(self, request: Request) -> str | None:
        """What a process of its own would find otherwise; None if nothing."""
        variables = _changed(self._environment, _alike(request.environment))
        files = _changed(self._files, _stamps())
        differs = {
            "the interpreter": request.command[:3] != [sys.executable, "-m", "pipeline"],
            "the folder": request.folder != self._folder,
            f"{', '.join(variables)} of the environment": bool(variables),
            ", ".join(files): bool(files),
            "the number of threads": len([*Path("/proc/self/task").iterdir()]) > 1,
        }
        return next((what for what, true in differs.items() if true), None)


def _alike(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in OF_EACH}


def _stamps() -> dict[str, tuple[int, ...]]:
    """Number, size and time of each of our sources, and of the folder of installed packages."""
    folders = (f"{source_names.ROOT}/{name}" for name in source_names.FIRST_PARTY)
    tree = itertools.chain.from_iterable(map(os.walk, folders))
    # What Python and the code fingerprints remember is no source.
    kept = ((folder, names) for folder, _, names in tree if not folder.endswith("__pycache__"))
    sources = (f"{folder}/{name}" for folder, names in kept for name in names)
    result: dict[str, tuple[int, ...]] = {}
    for source in (sysconfig.get_path("purelib"), *sources):
        # One may be replaced just now.
        with contextlib.suppress(FileNotFoundError):
            at = os.stat(source)  # noqa: PTH116 - hundreds of them at each request
            result[source] = (at.st_ino, at.st_size, at.st_mtime_ns)
    return result


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in before.keys() | now if before.get(name) != now.get(name))
