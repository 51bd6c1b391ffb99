"""Records of benchmarks: where they lie, their commit, and tables of pages in Markdown."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def write(name: str, result: Mapping[str, Any]) -> Path:
    """Writes what was found behind the commit of the code; the place of the record."""
    path = RESULTS / f"{name}.json"
    text = json.dumps({"commit": commit(), **result}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def commit() -> str:
    """The commit of the code, with + where files differ from it."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=9"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, without a line break at its end."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
