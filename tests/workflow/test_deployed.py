"""The workflow as a module of a Snakefile elsewhere, as snakedeploy writes one."""

import os
import re
import shutil
import sys

import yaml
from conftest import CONFIG, Project
from edits import program
from repository import ROOT, git

# By snakedeploy 0.17.1: deploy-workflow https://github.com/somebody/pike mine --tag v1
DEPLOYED = """\
from snakemake.utils import min_version


min_version("6.10.0")


configfile: "config/config.yaml"


module pike:
    snakefile:
        github("somebody/pike", path="workflow/Snakefile", tag="v1")
    config:
        config


use rule * from pike
"""
BEGINS = """

onstart:
    pike.onstart()
"""

# Runs a job's command here, with this interpreter in the place of the image's.
APPTAINER = f"""\
[ "$1" != --version ] || {{ echo apptainer version 1.3.6; exit; }}
for last; do :; done
echo "$last" >> "$CALLS"
eval "$(echo "$last" | sed s:/pike/.venv/bin/python:{sys.executable}:g)"
"""


def test_a_deployed_workflow_runs_with_its_own_configuration_and_in_its_container(tmp_path):
    origin, mine = tmp_path / "origin", tmp_path / "mine"
    shutil.copytree(ROOT / "workflow", origin / "workflow")
    program("apptainer", APPTAINER)(tmp_path)
    told = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        # The package is that of the environment; GitHub's address leads to the folder.
        "PYTHONPATH": str(ROOT),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{origin}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/somebody/pike",
    }
    for words in ("init -q -b main", "add .", "commit -qm all", "tag v1"):
        git(origin, *words.split(), env=told)
    values = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    values["results"] = "results/mine"
    # Modules beside another Snakefile are not there.
    del values["methods"]["mine"]
    values["runs"][0]["methods"].remove("mine")
    for name, text in (
        ("workflow/Snakefile", DEPLOYED),
        ("config/config.yaml", yaml.safe_dump(values, sort_keys=False)),
        *((f"text/{n}.txt", " ".join(map(str, range(n, 99)))) for n in range(30)),
    ):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text(text, encoding="utf-8")

    def snakemake(*arguments):
        return Project(mine).run("snakemake", "--cores", 2, *arguments, environment=told)

    unedited = snakemake("results/mine/data/easy/manifest.json", "--show-failed-logs")
    assert "says 'onstart: pike.onstart()'" in unedited.stdout
    (mine / "workflow/Snakefile").write_text(DEPLOYED + BEGINS, encoding="utf-8")
    inside = ("--sdm", "apptainer")
    told["PIKE_IMAGE"] = "pike.sif"
    assert "container: pike.sif does not exist: build it" in snakemake(*inside).stdout
    (mine / "pike.sif").touch()
    planned = snakemake("--dry-run")
    assert "pretrain" in planned.stdout
    made = snakemake("results/mine/runs/words/tiny/mix/seed0/manifest.json", *inside)
    assert made.returncode == 0, made.stdout
    assert (mine / "results/mine/runs/words/tiny/mix/seed0/manifest.json").is_file()
    assert not (mine / "results/runs").exists()
    calls = (tmp_path / "calls").read_text(encoding="utf-8")
    jobs = ["tokenizer", *["download", "pack"] * 3, "pretrain"]
    found = re.findall(r"/pike/.venv/bin/python -m pipeline (\w+)", calls)
    assert sorted(found) == sorted(jobs)
