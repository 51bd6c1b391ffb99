"""A method of somebody's own beside finished runs, entered as docs/your-method.md says."""

import csv

from conftest import METHODS


def judged(config):
    """The tiny experiment as a leaderboard, whose oracle is the class that is entered."""
    config["compare"] = {"baseline": "mix", "oracle": "mine"}
    config["runs"] = [{"scenarios": ["words"], "models": ["tiny"], "seeds": [0]}]
    config.update(tables={"leaderboard": {}}, figures={})
    del config["scenarios"]["words"]["probe"]


def test_one_line_enters_a_method_and_nobody_elses_runs_are_made_again(finished):
    finished.configure(judged)
    line = 'include: config.yaml\nmethods: {own: {rule: "mine.rule:Mine"}}\n'
    finished.path("mine.yaml").write_text(line, encoding="utf-8")
    chosen = ("--configfile", "mine.yaml")
    planned = finished.plan(*chosen)
    trained = {job for job in planned if job.split()[0] in ("pretrain", "evaluate")}
    assert trained == {f"{rule} words/tiny/own/seed0" for rule in ("pretrain", "evaluate")}
    finished.make("--cores", 2, *chosen)
    with finished.path("results/tables/leaderboard.csv").open(encoding="utf-8") as file:
        cells = {(row["row"], row["column"]): row["shown"] for row in csv.DictReader(file)}
    rows = {row for row, _ in cells}
    assert rows == {*METHODS, "own"}
    # Its weights are those of the oracle, so it trains on the same rows.
    assert cells["own", "verdict"] == "equal"
    assert float(cells["own", "mean regret (nats)"].split()[0]) == 0
    assert "All scenarios together" in finished.path("results/report/index.html").read_text()
