"""The sound project, made once by the real stages, and the count of how all trials ended."""

import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import torch
from trials import OUTCOMES, REFUSED, RUN, attempt, called

from pipeline.planning import planner

HERE = Path(__file__).parent
COUNTED = pytest.StashKey[dict[str, Counter]]()
"""How many trials of each area ended how."""

LETTERS = "results/tokenizers/letters.model"
OF_RUN = "--corpora results/corpora/letters"
FOUND = "results/runs/words/tiny/found/seed0"
MIXTURE = "results/mixtures/words/tiny/chosen/seed0.json"
EVALUATE = f"--tokenizer {LETTERS} {OF_RUN} --device cpu"
DOMAINS = ("easy", "notes")
STAGES = [
    *(f"download results/settings/sources/{d}.json --out results/data/{d}" for d in DOMAINS),
    "tokenizer results/settings/tokenizers/letters.json --out " + LETTERS
    + " --sources results/data/easy results/data/notes",
    *(
        f"pack results/settings/corpora/letters/{d}.json --documents results/data/{d}"
        f" --tokenizer {LETTERS} --workers 1 --out results/corpora/letters/{d}"
        for d in DOMAINS
    ),
    f"pretrain {RUN}/run.json {OF_RUN} --device cpu",
    f"evaluate {RUN}/evaluation.json --run {RUN} {EVALUATE}",
    f"probe {RUN}/probe.json --run {RUN} {OF_RUN} --device cpu",
    f"mixture results/settings/mixtures/words/tiny/chosen/seed0.json --runs {RUN} --out {MIXTURE}",
    f"pretrain {FOUND}/run.json {OF_RUN} --mixture {MIXTURE} --device cpu",
    f"evaluate {FOUND}/evaluation.json --run {FOUND} {EVALUATE}",
    f"probe {FOUND}/probe.json --run {FOUND} {OF_RUN} --device cpu",
    "database results/settings/experiment.json --out results/pike.duckdb",
    "table results/settings/tables/perplexity.json --database results/pike.duckdb"
    " --out results/tables/perplexity.md",
]  # fmt: skip
"""Every stage that a trial spoils the input of, in order."""


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def written(project):
    """Writes the configuration and the text of the user's own; returns the folder."""
    shutil.copyfile(HERE / "config.yaml", project / "config.yaml")
    (project / "text").mkdir()
    lines = (json.dumps({"text": f"note {n}: {n * n} is {n} times {n}. "}) for n in range(60))
    (project / "text" / "notes.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return project


@pytest.fixture(scope="session")
def sound(tmp_path_factory):
    """A project in which every stage has been made."""
    project = written(tmp_path_factory.mktemp("sound"))
    plan = planner.plan(planner.read(project / "config.yaml"), "config.yaml")
    for name, content in plan.settings_files().items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(json.dumps(content), encoding="utf-8")
    for stage in STAGES:
        code, printed, _ = called(stage, project)
        assert code == 0, f"{stage}\n{printed}"
    return project


@pytest.fixture(scope="session")
def unmade(tmp_path_factory):
    """The same before any stage: the configuration and the user's own text."""
    return written(tmp_path_factory.mktemp("unmade"))


@pytest.fixture
def refuses(tmp_path, request):
    """Fails unless a trial on a copy of a project is refused clearly; counts how it ended."""
    area = request.path.stem.removeprefix("test_")

    def check(trial, project, how=attempt):
        outcome = how(trial, project, tmp_path)
        request.config.stash[COUNTED][area][outcome.kind] += 1
        assert outcome.kind == REFUSED, f"{outcome.kind}: pike {trial.command}\n{outcome.told}"

    return check


def pytest_configure(config):
    config.stash[COUNTED] = defaultdict(Counter)


def pytest_terminal_summary(terminalreporter, config):
    areas = config.stash[COUNTED]
    for area, counted in [*areas.items(), ("in all", sum(areas.values(), Counter()))]:
        if areas:
            told = ", ".join(f"{counted[outcome]} {outcome}" for outcome in OUTCOMES)
            terminalreporter.write_line(f"hostile inputs, {area}: {counted.total()}: {told}")
