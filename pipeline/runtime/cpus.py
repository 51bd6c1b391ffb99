"""How many processors and how much memory this process may use."""

import contextlib
import os
import resource
from pathlib import Path

_CGROUPS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
"""Where the kernel tells a container's limit, in its second and first version."""


def available_cpus() -> int:
    """Processors that the process may run on; a batch system may give it fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int:
    """Bytes that the process may use: the machine's, its container's or those of `ulimit -v`."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUPS:
        # No such file, or "max".
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text(encoding="ascii")))
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(limits if own == resource.RLIM_INFINITY else [*limits, own])
