"""Pages of mapped files: when they come from the disk, and how many at once."""

import mmap
import resource
from pathlib import Path


def mapped(path: Path) -> mmap.mmap:
    """A file to be read here and there: only the pages that are touched are loaded."""
    with path.open("rb") as file:
        found = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # Rows are read in random order; the kernel's read-ahead would load 500 times the bytes.
    if hasattr(mmap, "MADV_RANDOM"):
        found.madvise(mmap.MADV_RANDOM)
    return found


def ask_for(file: mmap.mmap, start: int, stop: int) -> None:
    """Begins to load the pages of some bytes and does not wait for them."""
    if hasattr(mmap, "MADV_WILLNEED"):
        first = start - start % mmap.PAGESIZE
        file.madvise(mmap.MADV_WILLNEED, first, stop - first)


def waits() -> int:
    """How often this process has waited until a page was loaded from a disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
