"""Troubles of the disk, and too little memory, files or processes, said plainly."""

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pike_mixing.errors import InputError

_MENDABLE = {
    errno.ENOSPC: "free some space there, or give another results folder",
    errno.EDQUOT: "raise the quota there, or give another results folder",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f), or give another results folder",
    errno.EROFS: "mount it writable, or give another results folder",
    errno.EACCES: "give this user the right to it, or give another results folder",
    errno.EPERM: "give this user the right to it, or give another results folder",
    errno.ENOTDIR: "a file is in the place of a folder: give another path",
    errno.EEXIST: "a file is in the place of a folder: give another path",
    errno.EISDIR: "a folder is in the place of a file: give another path",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "a symbolic link is in its place or leads to itself: give another path",
    errno.EBUSY: "it is in use, or something is mounted there: give a folder below it",
}
_SHORT = {
    errno.ENOMEM: "memory ran out: give it more (ulimit -v, or the batch system's limit), a "
    "smaller model, or a lower training.microbatch_rows or evaluation.batch_tokens",
    errno.EMFILE: "more files are open than may be: raise their number (ulimit -n)",
    errno.ENFILE: "more files are open than the system can hold: end other programs",
    errno.EAGAIN: "no further process or thread can be started: raise their number (ulimit -u) or "
    "the memory (ulimit -v)",
}
"""What a process has too little of. No file is to blame."""
_CUT_OFF = re.compile(r"\S+\.so: (file too short|invalid ELF header|cannot read file data)")
_NO_MEMORY = re.compile(
    r"bad_alloc|n't allocate|(cannot|unable to|could not|failed to) allocate|out of memory|"
    r"could not create a primitive|failed to map segment|malloc .* failed",
    re.IGNORECASE,
)
"""How libraries that raise no MemoryError say it."""


def refuse_process_resource_shortage(error: BaseException) -> None:
    """Raises an InputError where an error is of too little memory, files or processes.

    What reads a file asks it before it calls the file damaged.
    """
    if told := process_resource_shortage_message(error):
        raise InputError(told) from error


def process_resource_shortage_message(error: BaseException) -> str | None:
    """What a process has too little of, and what to do; None of any other error."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)):
        number = errno.ENOMEM
    elif re.search("can't start new thread|launch worker thread", str(error)):
        number = errno.EAGAIN
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return f"{_SHORT[number]} ({first:.200})" if number in _SHORT else None


def remedy_for_failed_compilation(error: BaseException) -> str | None:
    """What to do where torch could not compile a model; None of any other error.

    A compile that is killed leaves files cut off in torch's cache, which it then trusts.
    """
    damaged = _CUT_OFF.search(str(error))
    if not damaged and not type(error).__module__.startswith(("torch._inductor", "torch._dynamo")):
        return None
    user = re.sub(r'[\\/:*?"<>|]', "_", os.environ.get("USER") or "*")
    own = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    cache = own or f"{tempfile.gettempdir()}/torchinductor_{user}"
    first = damaged[0] if damaged else " ".join(str(error).split("\n")[:2])
    return (
        f"torch could not compile the model ({first:.300}): a compile that was interrupted leaves "
        f"damaged files in its cache: `rm -r {cache}` and start again; if that does not help, "
        "leave `training.compile` out"
    )


def write_error_remedy_else_free_space(error: BaseException) -> str:
    """What to do where a file could not be written, by what a library says; else free space."""
    number = getattr(error, "errno", None)
    for known in _MENDABLE:
        if f"os error {known})" in str(error) or os.strerror(known) in str(error):
            number = known
    return _MENDABLE[number if number in _MENDABLE else errno.ENOSPC]


@contextlib.contextmanager
def explain_disk_errors(path: Path) -> Iterator[None]:
    """Turns a full or unwritable disk inside the block into a message that names `path`.

    Raises:
        InputError: the disk is full, over quota or not writable, something else is in the place,
            or too little is left of memory, files or processes. Other errors pass unchanged.
    """
    try:
        yield
    except OSError as error:
        refuse_process_resource_shortage(error)
        if not is_user_fixable_write_error(error):
            raise
        # No name is given to what is raised: it would hold itself by this frame, and open files.
        raise explained_write_error(error, path) from error


def is_user_fixable_write_error(error: OSError) -> bool:
    """Whether it is a trouble that a user can mend."""
    return error.errno in _MENDABLE


def explained_write_error(fixable: OSError, written: Path | None = None) -> InputError:
    """What a user is told of a trouble that they can mend, met in writing `written` if it is given.

    An error that names a file elsewhere is of that file.
    """
    remedy = _MENDABLE[fixable.errno or 0]
    named = fixable.filename if isinstance(fixable.filename, str) else str(written or "a file")
    if written and written.absolute().parent in Path(named).absolute().parents:
        return InputError(f"{written} cannot be written: {fixable}: {remedy}")
    return InputError(f"{named} cannot be used: {fixable}: {remedy}")
