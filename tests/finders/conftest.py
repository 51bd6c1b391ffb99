"""Tables for the command line of the library."""

import csv

import pytest


@pytest.fixture
def write(tmp_path):
    """Writes a table, whose numbers are read back to the same bits; its path."""

    def made(header, rows, name="swarm.csv"):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return tmp_path / name

    return made
