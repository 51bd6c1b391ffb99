"""The sound project, made once by the real stages, and how a trial of it is judged."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from edits import put
from trials import (
    COMMANDS,
    DATABASE,
    FOUND,
    LETTERS,
    MIXTURE,
    MODELS,
    RUN,
    SET,
    called,
    onto,
    refused,
)

from pipeline.planning import planner

HERE = Path(__file__).parent
DOMAINS = ("easy", "notes")
STAGES = [
    *(f"download {SET}/sources/{d}.json --out results/data/{d}" for d in DOMAINS),
    f"tokenizer {SET}/tokenizers/letters.json --out {LETTERS}"
    " --sources results/data/easy results/data/notes",
    *(onto(COMMANDS["pack"].replace("easy", d), f"{MODELS}/{d}") + " --workers 1" for d in DOMAINS),
    COMMANDS["pretrain"],
    COMMANDS["evaluate"],
    COMMANDS["probe"],
    onto(COMMANDS["mixture"], MIXTURE),
    COMMANDS["pretrain found"],
    COMMANDS["evaluate"].replace(RUN, FOUND),
    COMMANDS["probe"].replace(RUN, FOUND),
    onto(COMMANDS["database"], DATABASE),
    onto(COMMANDS["table"], "results/tables/perplexity.md"),
    onto(COMMANDS["figure"], "results/figures/losses.svg"),
    *(COMMANDS[name] for name in ("corpus", "verify corpus", "verify")),
]
"""Every command that a trial spoils the input of, in order: without that, each ends well."""


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def written(project):
    """Writes the configuration and the text of the user's own; returns the folder."""
    shutil.copyfile(HERE / "config.yaml", project / "config.yaml")
    (project / "text").mkdir()
    lines = (json.dumps({"text": f"note {n}: {n * n} is {n} times {n}. "}) for n in range(160))
    (project / "text" / "notes.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return project


@pytest.fixture(scope="session")
def sound(made_once):
    """A project in which every stage has been made. Not to be changed."""

    def fill(project):
        written(project)
        plan = planner.plan(planner.read_expanded_config(project / "config.yaml"), "config.yaml")
        for name, content in plan.settings_by_path().items():
            put(name, json.dumps(content))(project)
        for stage in STAGES:
            code, printed = called(stage, project)
            assert code == 0, f"{stage}\n{printed}"

    return made_once("sound", fill)


@pytest.fixture(scope="session")
def unmade(tmp_path_factory):
    """The same before any stage: the configuration and the user's own text."""
    return written(tmp_path_factory.mktemp("unmade"))


@pytest.fixture
def refuses():
    """Fails unless a trial on a copy of a project is refused clearly."""

    def check(trial, project, run=called):
        with tempfile.TemporaryDirectory() as home:
            refused(trial, shutil.copytree(project, Path(home) / "project", symlinks=True), run)

    return check
