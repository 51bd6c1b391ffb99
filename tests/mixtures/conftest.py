"""The command line of the library."""

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
