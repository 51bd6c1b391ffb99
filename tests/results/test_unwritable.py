"""A disk that takes no more: commands that write say so, end with code 2, leave nothing half."""

import pytest

from pipeline import __main__

pytestmark = pytest.mark.slow


# DuckDB writes a database, and Python everything else.
@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("database", 100),
        # It opens the file, and cannot commit.
        ("database", 20_000),
        ("report", 100),
    ],
)
def test_a_disk_that_takes_no_more_is_told(shown, tmp_path, command, size, largest_file, capsys):
    words, out = [command, shown / "settings" / "experiment.json"], tmp_path / "index.html"
    if command == "report":
        words += ["--database", shown / "pike.duckdb"]
        words += ["--tables", shown / "tables", "--figures", shown / "figures"]
    with largest_file(size):
        assert __main__.main([*map(str, words), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert f"pike {command}: {tmp_path}" in error
    assert "File too large" in error
    assert {path.name for path in tmp_path.iterdir()} <= {".made-by"}
