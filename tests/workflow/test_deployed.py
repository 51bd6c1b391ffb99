"""The workflow as a module of a Snakefile elsewhere, as snakedeploy writes one."""

import os
import shutil
import sys

import yaml
from conftest import CONFIG
from repository import ROOT, git, run

# By snakedeploy 0.17.1: deploy-workflow https://github.com/somebody/pike mine --branch main
DEPLOYED = """\
from snakemake.utils import min_version


min_version("6.10.0")


configfile: "config/config.yaml"


module pike:
    snakefile:
        github("somebody/pike", path="Snakefile", branch="main")
    config:
        config


use rule * from pike
"""


def test_a_deployed_workflow_runs_with_its_own_configuration(tmp_path):
    origin, mine = tmp_path / "origin", tmp_path / "mine"
    shutil.copytree(ROOT / "workflow", origin / "workflow")
    shutil.copy(ROOT / "Snakefile", origin)
    told = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        # The package is that of the environment; GitHub's address leads to the folder.
        "PYTHONPATH": str(ROOT),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{origin}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/somebody/pike",
    }
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "all"]):
        git(origin, *words, env=told)
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
        words = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
        done = run(*words, cwd=mine, env=told)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "pretrain" in snakemake("--dry-run")
    snakemake("results/mine/runs/words/tiny/mix/seed0/manifest.json")
    assert (mine / "results/mine/runs/words/tiny/mix/seed0/manifest.json").is_file()
    assert not (mine / "results/runs").exists()
