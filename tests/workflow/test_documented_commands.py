"""The commands and queries of the documentation, as a reader would give them."""

import shlex
import shutil
from pathlib import Path

import documented

OURS = {
    "runs/installed/nano": "runs/words/tiny",
    "table/table2": "table/perplexity",
    "why table2": "why perplexity",
    "results/mine/pike.duckdb": "results/pike.duckdb --scenario words --model tiny",
    "results/search/pike.duckdb": "results/pike.duckdb --scenario words --model tiny",
    "results/own/pike.duckdb --models conflict/pico/mine conflict/pico/pike": (
        "results/pike.duckdb --models words/tiny/pike words/tiny/mix"
    ),
    "--database results/own/pike.duckdb": "--database results/pike.duckdb",
    "results/own/pike.duckdb": "results/pike.duckdb --scenario words --model tiny",
    "restored/pike.duckdb": "results/pike.duckdb",
    "watch results/own": "watch results",
    "watch results/gpu-hour": "watch --once results",
    "watch results": "watch --once results",
}
"""What the pages name, and the tiny experiment has otherwise."""
RUN = "results/leaderboard/runs/text/pico/mix/seed0/manifest.json"
LESS = {"workflow/configs/leaderboard.yaml": f"workflow/configs/leaderboard.yaml -- {RUN}"}
"""Of a configuration of thousands of jobs one run. planning/test_cost.py plans all of it."""


def commands(place, changes):
    """Every command of a place once, in the pages' order, with some texts replaced."""
    for command in dict.fromkeys(command for _, command in documented.tried(place)):
        for theirs, ours in changes.items():
            command = command.replace(theirs, ours)
        yield command


def told(project, command):
    """What a command prints in a project; of the workflow, its dry run, or the report."""
    program, *words = shlex.split(command)
    if program == "cp":
        shutil.copy(*map(project.path, words))
        return ""
    dry = ["-nq"] * ("--report" not in words)
    programs = {"pike": ["pipeline"], "pike-mixing": ["pike_mixing"]}
    run = (programs | {"snakemake": ["snakemake", *dry]})[Path(program).name]
    done = project.run(*run, *words)
    assert done.returncode == 0, (command, done.stdout)
    return done.stdout


def test_whoever_begins_gets_plans_and_dry_runs(default):
    rule, _ = documented.blocks("docs/your-method.md", "python")
    default.path("mine.py").write_text(rule, encoding="utf-8")
    shown = documented.blocks("docs/your-method.md", "yaml")
    default.path("own.yaml").write_text(shown[0], encoding="utf-8")
    (second,) = [block for block in shown if "{last: {rows: 32}}" in block]
    default.path("few.yaml").write_text(second, encoding="utf-8")
    shown = [told(default, c) for c in commands("new", LESS) if c != ".venv/bin/pike"]
    assert len(shown) > 9
    assert any("scale-free-pike" in text for text in shown)
    assert any("in all:" in text for text in shown)


def test_a_finished_experiment_is_asked(finished):
    every = [q for name in documented.NAMES for q in documented.blocks(name, "sql")]
    # Two databases are attached in DuckDB's own shell: test_database.py does so.
    queries = [" ".join(query.split()) for query in every if not query.startswith("attach ")]
    assert queries
    asked = [f".venv/bin/pike query {shlex.quote(query)}" for query in queries]
    shown = "".join(told(finished, c) for c in [*commands("finished", OURS), *asked])
    for word in ("not run", "corpus/letters/notes", "balanced", "bytes_per_token"):
        assert word in shown
