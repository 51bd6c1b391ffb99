"""The command line of the library, and tables for it."""

import csv

import pytest

from pike_mixing.__main__ import main


@pytest.fixture
def said(capsys):
    """Runs a command; what it prints, or what it says when it leaves with another code."""

    def run(*words, code=0):
        assert main([*map(str, words)]) == code
        out, err = capsys.readouterr()
        return err if code else out

    return run


@pytest.fixture
def write(tmp_path):
    """Writes a table, whose numbers are read back to the same bits; its path."""

    def made(header, rows, name="swarm.csv"):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return tmp_path / name

    return made
