"""A method of somebody's own beside finished runs, entered as docs/your-method.md says."""

import csv

from conftest import METHODS

OWN = """
import dataclasses

import numpy as np

from pike_mixing.interface import Method


@dataclasses.dataclass(frozen=True)
class Mine(Method):
    lean: float = 2.0

    def init(self, domains, seed):
        raised_K = np.array([self.lean] + [1.0] * (len(domains) - 1))
        return {"weights_K": raised_K / raised_K.sum()}
"""


def judged(config):
    """The tiny experiment as a leaderboard, whose oracle is one of its mixtures."""
    config["compare"] = {"baseline": "mix", "oracle": "mostly-easy"}
    config["runs"] = [{"scenarios": ["words"], "models": ["tiny"], "seeds": [0]}]
    config.update(tables={"leaderboard": {}}, figures={})
    del config["scenarios"]["words"]["probe"]


def test_one_line_enters_a_method_and_nobody_elses_runs_are_made_again(finished):
    finished.configure(judged)
    finished.path("my_method.py").write_text(OWN, encoding="utf-8")
    line = 'include: config.yaml\nmethods: {own: {rule: "my_method:Mine"}}\n'
    finished.path("mine.yaml").write_text(line, encoding="utf-8")
    beside = {"PYTHONPATH": str(finished.path("."))}
    chosen = ("--configfile", "mine.yaml")
    planned = finished.plan(*chosen, environment=beside)
    trained = {job for job in planned if job.split()[0] in ("pretrain", "evaluate")}
    assert trained == {f"{rule} words/tiny/own/seed0" for rule in ("pretrain", "evaluate")}
    finished.make("--cores", 2, *chosen, environment=beside)
    with finished.path("results/tables/leaderboard.csv").open(encoding="utf-8") as file:
        cells = {(row["row"], row["column"]): row["shown"] for row in csv.DictReader(file)}
    rows = {row for row, _ in cells}
    assert rows == {*METHODS, "own"}
    # Its weights are those of the oracle, so it trains on the same rows.
    assert cells["own", "verdict"] == "equal"
    assert float(cells["own", "mean regret (nats)"].split()[0]) == 0
    assert "All scenarios together" in finished.path("results/report/index.html").read_text()
