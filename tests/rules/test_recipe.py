"""The recipe of CONTRIBUTING.md for a mixing rule, followed once in a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

RULE = '''"""Proportional: an example of a rule."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.by_domain import uniform
from pike_mixing.interface import Method, Needs, Signals, State
from pike_mixing.numerics.softmax import softmax


@dataclasses.dataclass(frozen=True)
class Proportional(Method):
    """w_k ~ L_k^power, with L_k the last loss."""

    about: ClassVar[str] = "Shares in proportion to a power of the losses."

    power: float = 1.0
    """Exponent of the loss."""

    def needs(self) -> Needs:
        """The batch's losses."""
        return Needs(losses=True)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Equal weights."""
        return {"weights_K": uniform(len(domains))}

    def observe(self, state: State, signals: Signals) -> State:
        """The next weights; a domain without rows counts with the others' mean."""
        loss_K = signals.loss_K
        if loss_K is None or np.isnan(loss_K).all():
            return state
        loss_K = np.where(np.isnan(loss_K), np.nanmean(loss_K), loss_K)
        return {"weights_K": softmax(self.power * np.log(loss_K))}
'''
LINE = '    "proportional": "pike_mixing.rules.proportional:Proportional",\n'

USE = """
import sys
import pytest
from pipeline.planning import method_catalogue, methods, schema
from pike_mixing import Proportional, registry

print(schema.problems({"methods": {"mine": {"rule": "proportional", "powr": 2}}}, "config.yaml"))
assert methods.problems({"rule": "proportional", "power": 2}, "here") == []
assert registry.build("proportional", {"power": 2}, "here") == Proportional(power=2.0)
print(method_catalogue.methods("proportional"))
sys.exit(pytest.main(["-q", "-k", "proportional", "tests/rules/test_invariants.py"]))
"""


@pytest.mark.slow
def test_a_rule_is_its_own_file_one_line_of_the_table_and_one_test(tmp_path):
    for folder in ("pike_mixing", "pipeline", "workflow", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    package = tmp_path / "pike_mixing"
    (package / "rules" / "proportional.py").write_text(RULE, encoding="utf-8")
    text = (package / "__init__.py").read_text(encoding="utf-8")
    last = 'pike_mixing.rules.adatask:AdaTask",\n'
    assert text.count(last) == 1
    (package / "__init__.py").write_text(text.replace(last, last + LINE), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "methods.mine: 'powr' is unknown: did you mean 'power'?" in done.stdout
    assert "Shares in proportion to a power of the losses." in done.stdout
    assert "    power = 1.0\n        Exponent of the loss." in done.stdout
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 8
