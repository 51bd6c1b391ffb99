"""A disk that takes no more: commands that write say so, end with code 2, leave nothing half."""

import pytest

from pipeline import __main__
from pipeline.theory import stage

pytestmark = pytest.mark.slow


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
    ("command", "size"),
    [
        *((name, 100) for name in ("theory", "database", "table", "figure", "report")),
        # It opens the file, and cannot commit.
        ("database", 20_000),
    ],
)
def test_a_disk_that_takes_no_more_is_told(
    shown, tmp_path, command, size, largest_file, monkeypatch, capsys
):
    rows = [{"word": f"{number**9:x}"} for number in range(5000)]
    monkeypatch.setattr(stage, "theory_records", lambda sizes: {"tilt": rows})
    words, name = outputs(shown)[command]
    with largest_file(size):
        assert __main__.main([*map(str, words), "--out", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert f"pike {command}: {tmp_path}" in error
    assert "File too large" in error
    # Of three files the first may have fitted.
    assert {path.name for path in tmp_path.iterdir()} <= {".made-by", "t.md"}
