"""What the workflow says of a configuration when it is read."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from edits import put, remove
from repository import ROOT, run
from trials import MISTAKE, Trial

DRY = ("-n", "--snakefile", str(ROOT / "workflow/Snakefile"), "--configfile", "config.yaml")
CONFIG = Path(__file__).with_name("config.yaml").read_text(encoding="utf-8")
TRIALS = [
    Trial("no YAML", "", ("onfig",), (put("config.yaml", "open: [\n"),)),
    # Snakemake itself takes the last.
    Trial("a key named twice", "", ("'experiment' is named a second time, after line",),
          (put("config.yaml", f"{CONFIG}experiment: other\n"),)),
    Trial("no text", "", ("text/*.jsonl",), (remove("text/notes.jsonl"),)),
]  # fmt: skip


def dry_run(_, project, *options, environment=os.environ, modules=ROOT):
    """How Snakemake answers, whose own exit code is 1."""
    words = [sys.executable, "-m", "snakemake", *options, *DRY]
    own = {**environment, "PYTHONPATH": str(modules)}
    done = run(*words, cwd=project, env=own, timeout=120)
    shutil.rmtree(project / ".snakemake", ignore_errors=True)
    printed = done.stdout + done.stderr
    assert "Traceback" not in printed, printed
    return MISTAKE if done.returncode == 1 else done.returncode, printed


@pytest.mark.workflow
@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.bad)
def test_a_dry_run_is_refused(refuses, unmade, trial):
    refuses(trial, unmade, dry_run)


@pytest.mark.workflow
def test_a_user_without_a_name_may_set_numbers_within_a_mapping(unmade, tmp_path):
    project = shutil.copytree(unmade, tmp_path / "project")
    put("site/sitecustomize.py", "import pwd\npwd.getpwuid = {}.__getitem__\n")(tmp_path)
    unnamed = {k: v for k, v in os.environ.items() if k not in ("USER", "LOGNAME", "LNAME")}
    options = ("--config", "training={'short': {'steps': 8}}")
    modules = f"{tmp_path / 'site'}:{ROOT}"
    code, printed = dry_run("", project, *options, environment=unnamed, modules=modules)
    assert code == 0, printed
