import errno
import re
import sys

import pytest
from repository import run

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.__main__ import main


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_troubles_of_the_disk_are_named(tmp_path, number):
    message = f"{tmp_path} cannot be written.*results folder"
    with pytest.raises(InputError, match=message), errors.explain_disk_errors(tmp_path):
        raise OSError(number, "text of the system")


def not_compiled():
    # It takes a second to import.
    from torch._inductor.exc import InductorError

    return InductorError(RuntimeError("no"), None)


SHORTAGES = [
    (MemoryError(), "memory ran out.*ulimit -v.*microbatch_rows"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory ran out"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "memory ran out"),
    (RuntimeError("could not create a primitive"), "memory ran out"),
    (ImportError("x.so: failed to map segment from shared object"), "memory ran out"),
    (RuntimeError("can't start new thread"), "ulimit -u"),
    (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
    (OSError(errno.EFBIG, "File too large"), "ulimit -f"),
    (ImportError("/tmp/torch/ab/x.so: file too short"), "x.so: file too short.*rm -r /tmp/torch`"),
    pytest.param(
        not_compiled,
        "RuntimeError: no.*rm -r /tmp/torch`.*g.compile",
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(
    ("error", "told"), SHORTAGES, ids=lambda one: getattr(one, "__name__", str(one)[:30])
)
def test_what_there_is_too_little_of_is_told_and_no_file_is_blamed(
    error, told, tmp_path, monkeypatch, capsys
):
    error = error() if callable(error) else error

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("pipeline.results.query.answer_query", fail)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/torch")
    assert main(["query", "select 1", "--database", str(tmp_path)]) == 2
    answer = capsys.readouterr().err
    assert re.search(told, answer)
    assert not re.search("free some space|delete|Traceback", answer)
    if isinstance(error, OSError):
        with pytest.raises(InputError, match=told) as raised, errors.explain_disk_errors(tmp_path):
            raise error
        assert not re.search("free some space|delete", str(raised.value))


def test_too_little_memory_to_load_libraries_is_told_before(corpora):
    words = f"{sys.executable} -m pipeline pretrain run.json --corpora {corpora} --device cpu"
    told = run("bash", "-c", f"ulimit -v 1000000; {words}")
    assert (told.returncode, told.stdout) == (2, "")
    assert re.search(r"977 MiB of memory are allowed .*: allow 1,536 MiB or more", told.stderr)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), OSError("no number"), KeyError()])
def test_other_errors_pass_unchanged(tmp_path, error):
    with pytest.raises(type(error)) as raised, errors.explain_disk_errors(tmp_path):
        raise error
    assert raised.value is error
