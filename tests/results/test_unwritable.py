"""A disk that takes no more: commands that write say so, end with code 2, leave nothing half."""

import contextlib
import os
import resource
import subprocess

import pytest

from pipeline import __main__
from pipeline.theory import stage

pytestmark = pytest.mark.slow


@pytest.fixture
def trouble(request, tmp_path):
    """A folder, in what block a command can write nothing useful to it, and what says so."""
    place = tmp_path / "place"
    place.mkdir()
    if request.param == "limit":
        yield place, _limit, "File too large"
        return
    with contextlib.ExitStack() as undone:
        _mount(place, undone, request.param)
        told = {"full": "No space left", "read-only": "Read-only file system"}[request.param]
        yield place, contextlib.nullcontext, told


@contextlib.contextmanager
def _limit():
    """Files of 100 bytes, no longer than need be: pytest's own output may go to a larger one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _mount(place, undone, kind):
    """Mounts a file system, which only root can."""
    if os.geteuid():
        pytest.skip("only root can mount a file system")
    options = "size=8k" if kind == "full" else "size=8k,ro"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this machine does not let tests mount a tmpfs")
    undone.callback(subprocess.run, ["umount", str(place)], check=True)


def outputs(shown):
    """Commands with the output that each is to make."""
    database = ["--database", shown / "pike.duckdb"]
    experiment = shown / "settings" / "experiment.json"
    pages = ["--tables", shown / "tables", "--figures", shown / "figures"]
    return {
        "theory": (["theory"], "theory"),
        "database": (["database", experiment], "pike.duckdb"),
        "table": (["table", shown / "settings/tables/perplexity.json", *database], "t.md"),
        "figure": (["figure", shown / "settings/figures/losses.json", *database], "f.svg"),
        "report": (["report", experiment, *database, *pages], "index.html"),
    }


# DuckDB writes a database, and Python everything else.
@pytest.mark.parametrize(
    ("trouble", "command"),
    [
        *(("limit", command) for command in ("theory", "database", "table", "figure", "report")),
        *((trouble, c) for trouble in ("full", "read-only") for c in ("database", "table")),
    ],
    indirect=["trouble"],
)
def test_a_disk_that_takes_no_more_is_told(shown, trouble, command, monkeypatch, capsys):
    place, spoiled, told = trouble
    rows = [{"word": f"{number**9:x}"} for number in range(5000)]
    monkeypatch.setattr(stage, "records", lambda sizes: {"tilt": rows})
    words, name = outputs(shown)[command]
    with spoiled():
        assert __main__.main([*map(str, words), "--out", str(place / name)]) == 2
    error = capsys.readouterr().err
    assert f"pike {command}: {place}" in error
    assert told in error
    # Of three files the first may have fitted.
    assert {path.name for path in place.iterdir()} <= {".made-by", "t.md"}
