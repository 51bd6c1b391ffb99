"""The commands and queries of the documentation, as a reader would give them."""

import os
import re
import subprocess
import sys

import documented

OURS = {
    "runs/installed/nano": "runs/words/tiny",
    "run/installed/nano/pike/seed220": "run/words/tiny/pike/seed0",
    "results/mine/pike.duckdb -": "results/pike.duckdb --scenario words --model tiny -",
    "results/own/pike.duckdb": "results/pike.duckdb --scenario words --model tiny",
    "results/mine/": "results/",
    "restored/pike.duckdb": "results/pike.duckdb",
    "databases/table-table1": "pike",
    "watch results": "watch --once results",
}
"""What the pages name, and the tiny experiment has otherwise."""


def lines(place):
    """The lines of a script that gives all commands of a place, each ending the script if wrong."""
    python, dry = f"'{sys.executable}' -m", " --dry-run --quiet" * (place == "new")
    for command in dict.fromkeys(command for _, command in documented.tried(place)):
        command = command.replace(".venv/bin/pike", f"{python} pipeline")
        yield re.sub(r"^(\.venv/bin/)?snakemake", f"{python} snakemake{dry}", command)


def told(project, commands):
    """What a script prints in a project."""
    text = "set -eu -o pipefail\n" + "\n".join(commands)
    project.path("script").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["bash", "script"],
        cwd=project.root,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(project.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_whoever_begins_gets_plans_and_dry_runs(default):
    commands = [c for c in lines("new") if not c.endswith("-m pipeline")]
    assert len(commands) > 6
    (rule,) = documented.blocks("docs/your-method.md", "python")
    default.path("mine.py").write_text(rule, encoding="utf-8")
    shown = told(default, commands)
    assert "scale-free-pike" in shown
    assert "in all:" in shown


def test_a_finished_experiment_is_asked(finished):
    commands = list(lines("finished"))
    assert len(commands) > 5
    for theirs, ours in OURS.items():
        commands = [command.replace(theirs, ours) for command in commands]
    every = [q for name in documented.NAMES for q in documented.blocks(name, "sql")]
    # Two databases are attached in DuckDB's own shell: test_database.py does so.
    queries = [query for query in every if not query.startswith("attach ")]
    assert queries
    asked = [f"'{sys.executable}' -m pipeline query '{' '.join(q.split())}'" for q in queries]
    shown = told(finished, [*commands, *asked])
    for word in ("not run", "corpus/letters/notes", "balanced", "bytes_per_token"):
        assert word in shown
