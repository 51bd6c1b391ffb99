import contextlib
import errno
import gc
import weakref
from pathlib import Path

import pytest

from pike_mixing.errors import InputError
from pipeline import errors


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_troubles_of_the_disk_are_named(tmp_path, number):
    message = f"{tmp_path} cannot be written.*results folder"
    with pytest.raises(InputError, match=message), errors.explain_disk_errors(tmp_path):
        raise OSError(number, "text of the system")


def test_a_really_full_device_is_named():
    full = Path("/dev/full")
    with pytest.raises(InputError, match=r"/dev/full cannot be written.*No space left"):
        write_into(full)


def write_into(path):
    with errors.explain_disk_errors(path), path.open("wb", buffering=0) as file:
        file.write(b"x")


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), OSError("no number"), KeyError()])
def test_other_errors_pass_unchanged(tmp_path, error):
    with pytest.raises(type(error)) as raised, errors.explain_disk_errors(tmp_path):
        raise error
    assert raised.value is error


class Held:
    """Stands for an open file."""


def test_what_is_raised_does_not_hold_itself(tmp_path):
    """Otherwise files of a full disk stay open until the garbage is collected."""

    def fail():
        held = Held()
        seen.append(weakref.ref(held))
        with errors.explain_disk_errors(tmp_path):
            raise OSError(errno.ENOSPC, "full")

    seen = []
    gc.disable()
    try:
        with contextlib.suppress(InputError):
            fail()
        assert seen[0]() is None
    finally:
        gc.enable()
