"""How many processors this process may use."""

import os


def available_cpus() -> int:
    """Processors that the process may run on; a batch system may give it fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
