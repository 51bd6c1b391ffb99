"""What messages name a program by can be typed where they are read."""

import sys

import pytest

from pipeline.runtime.programs import program_command

CLONE = "a clone/.venv/bin"


@pytest.mark.parametrize(
    ("there", "path", "here", "typed"),
    [
        ([CLONE], "", "a clone", ".venv/bin/pike"),
        ([CLONE], CLONE, "a clone", "pike"),
        ([CLONE, "other"], "other", "a clone", ".venv/bin/pike"),
        ([CLONE], "", "elsewhere", "'{}/a clone/.venv/bin/pike'"),
        # An interpreter without the program beside it.
        ([], "", "a clone", "pike"),
    ],
)
def test_a_program_is_named_as_the_shell_takes_it(tmp_path, monkeypatch, there, path, here, typed):
    for folder in {CLONE, "other", "elsewhere", *there}:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for folder in there:
        (tmp_path / folder / "pike").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / CLONE / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / path) if path else "/nowhere")
    monkeypatch.chdir(tmp_path / here)
    assert program_command("pike") == typed.format(tmp_path)
