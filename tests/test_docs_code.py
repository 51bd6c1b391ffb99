"""Code blocks of the pages run, or `documented.HOW` names why not."""

import dataclasses
import itertools
import json
import os
import re
import shlex
import sys
from pathlib import Path

import documented
import numpy as np
import pytest
import yaml
from logged import line, write, write_lighteval, write_opencompass
from repository import run

from pike_mixing import Needs, Signals
from pike_mixing.__main__ import _build_parser
from pike_mixing.__main__ import main as library
from pike_mixing.errors import InputError
from pike_mixing.signals import Statistics
from pipeline import cli
from pipeline.planning import planner, schema
from pipeline.planning.registration import Registration
from pipeline.runtime.validate_settings import validate

LANGUAGES = {"diff", "python", "snakemake", "sh", "sql", "text", "yaml"}
BEFORE = {
    "docs/trainers.md": """
import torch
model = torch.nn.Linear(3, 1)
rows_en, rows_de = torch.eye(3), torch.ones(4, 3)
def loss_fn(model, rows):
    return model(rows).square().mean(dim=1)
"""
}
"""What a page's Python has without showing it."""


@pytest.mark.parametrize("name", documented.NAMES)
def test_every_block_names_its_language_and_fits(name):
    text = (documented.ROOT / name).read_text(encoding="utf-8")
    fences = re.findall(r"^ *```(\S*)", text, re.MULTILINE)
    assert set(fences[::2]) <= LANGUAGES
    assert set(fences[1::2]) <= {""}
    if "diff" in fences:
        assert name == "docs/trainers.md", "tests/integration/test_trainer_examples.py reads one"


def test_every_command_is_tried_somewhere_and_no_reason_is_left_over():
    found = [(name, c) for name in documented.NAMES for c in documented.commands(name)]
    assert len(found) > 25
    assert [pair for pair in found if not documented.how(pair[1])] == []
    places = {documented.how(c) for _, c in found}
    assert {place for _, place in documented.HOW} == places
    for reason in places:
        for test in re.findall(r"test_\w+\.py", reason):
            assert list((documented.ROOT / "tests").rglob(test)), test


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (n, c)
        for n in documented.NAMES
        for c in documented.commands(n)
        if ".venv/bin/pike " in c and " COMMAND " not in c
    ],
)
def test_the_command_line_knows_every_option(name, command):
    assert cli.parse_arguments(documented.words(command))


@pytest.mark.parametrize(("name", "command"), documented.tried("make"))
def test_make_knows_every_target(name, command):
    # Not the Makefile itself: that make would really make anew, with the environment, despite `-n`.
    # A configuration of the reader's is not here; of two that are given, make takes the later one.
    words = shlex.split(command.replace("make ", "make -n ", 1))
    done = run(*words, "READY=README.md", "TPU_VENV=build", "CONFIG=config.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in documented.NAMES if documented.blocks(n, "python")])
def test_a_pages_python_runs(name, tmp_path):
    own = []
    for block in documented.blocks(name, "python"):
        # A part of an example, which is run as a whole: test_trainer_examples.py.
        if example := re.match(r"# (examples/\S+)\n", block):
            whole = (documented.ROOT / example[1]).read_text(encoding="utf-8")
            assert block.removeprefix(example[0]) in whole
        else:
            own.append(block)
    code = "\n".join([BEFORE.get(name, ""), *own])
    (tmp_path / "page.py").write_text(code, encoding="utf-8")
    _printed(tmp_path, sys.executable, "page.py")


def _printed(folder, *command):
    environment = {**os.environ, "PYTHONPATH": str(documented.ROOT), "OMP_NUM_THREADS": "1"}
    done = run(*command, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [n for n in documented.NAMES if documented.blocks(n, "yaml")])
def test_a_pages_yaml_is_a_configuration_or_fits_into_one(name, own_modules):
    # The module that a page's configuration may name is the page's Python, or that of the example.
    shown = documented.blocks(name, "python") or documented.blocks("docs/your-method.md", "python")
    for module in ("mine", "spread"):
        (own_modules / f"{module}.py").write_text("\n".join(shown))
    config = planner.read_expanded_config(documented.ROOT / "config.yaml")
    whole = own_modules / "whole.yaml"
    for block in documented.blocks(name, "yaml"):
        if "run: |" in block:
            # A step of a CI's job.
            (step,) = yaml.safe_load(block)
            command = step["run"].replace("\\\n", " ").splitlines()[-1]
            assert _build_parser().parse_args(shlex.split(command)[1:]).gate == "not-worse"
            continue
        if "include:" in block:
            path = own_modules / "mine.yaml" if whole.exists() else whole
            path.write_text(block.replace("include: ", f"include: {documented.ROOT}/"))
            schema.read_experiment(planner.read_expanded_config(path), name)
            continue
        if whole.exists() or "swarms:" in block:
            # What the page adds to its first file, or to the template, or replaces in it.
            first = whole if whole.exists() else documented.ROOT / "config" / "config.yaml"
            second = own_modules / "second.yaml"
            second.write_text(block)
            assert planner.plan_config_files([first, second], {})[0].runs
            continue
        if "hypotheses:" in block:
            # A copy of a registration, with these values in the place of its own.
            nano = planner.read_config_file(
                documented.ROOT / "workflow" / "registered" / "nano.yaml"
            )
            # As the page says.
            kept = {key: nano[key] for key in nano.keys() - {"commit", "mix_for"}}
            draft = {"benchmark": "mine", "status": "draft"}
            validate(Registration, {**kept, **draft, **yaml.safe_load(block)}, name)
            continue
        for section, values in yaml.safe_load(block).items():
            config[section] = {**config.get(section, {}), **values}
    schema.read_experiment(config, name)
    config["methods"]["wrong"] = {"rule": "mix", "zeta9": 1}
    with pytest.raises(InputError, match="'zeta9' is unknown"):
        schema.read_experiment(config, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for name, _ in documented.tried("library")}))
def test_a_pages_table_of_runs_gives_a_mixture(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("lightgbm")
    _swarm(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in (c for n, c in documented.tried("library") if n == name):
        words = shlex.split(command.replace("python -m pike_mixing", "pike-mixing"))
        assert library(words[1:]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert re.search(r"(code|pile_cc) +0\.\d+ +0\.\d+", said), said


def _swarm(folder):
    """The tables of a swarm of two domains: RegMix's two files, and this project's one."""
    draw = np.random.default_rng(0)
    share_N = draw.uniform(size=24)
    losses_Nx2 = 3 + np.exp(-np.stack([share_N, 1 - share_N], axis=1))
    weights = ["index,train_the_pile_pile_cc,train_the_pile_arxiv"]
    measured = ["index,metric/the_pile_pile_cc_val_loss,metric/the_pile_arxiv_val_loss"]
    own = ["weight/code,weight/prose,loss/code,loss/prose"]
    for n, (share, (one, other)) in enumerate(zip(share_N, losses_Nx2, strict=True), 1):
        mixture, loss = f"{share},{1 - share}", f"{one},{other}"
        weights.append(f"{n},{mixture}")
        measured.append(f"{n},{loss}")
        own.append(f"{mixture},{loss}")
    files = {"train_mixture_1m": weights, "train_pile_loss_1m": measured, "swarm": own}
    for name, lines in files.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = {"code": 9, "prose": 23}
    steps = ["run,tokens,weight/code,weight/prose,loss/code,loss/prose"]
    for n, share in enumerate(share_N):
        for s in range(3):
            steps.append(f"{n},{s},{share},{1 - share},{3 - s * share},{3 - s * (1 - share)}")
    (folder / "losses.csv").write_text("\n".join(steps) + "\n", encoding="utf-8")
    step = {"rows": rows, "tokens": {name: 100 * n for name, n in rows.items()}}
    (folder / "steps.jsonl").write_text(f"{json.dumps(step)}\n" * 80, encoding="utf-8")
    points = [rows, {"code": 0.6, "prose": 0.4}]
    schedule = {"rule": "schedule", "points": points, "at": [0, 0.8]}
    (folder / "cool-down.json").write_text(json.dumps(schedule), encoding="utf-8")


@pytest.mark.slow
def test_comparisons_of_pages_run_and_say_what_is_shown(tmp_path, monkeypatch, capsys):
    for side, seed in itertools.product("ab", range(3)):
        draw = np.random.default_rng(seed)
        rows = [line(n, {"acc": float(v)}) for n, v in enumerate(draw.integers(0, 2, 40))]
        folder = tmp_path / "runs" / side / f"seed{seed}" / f"out__{side}{seed}"
        model = f"pretrained=out/{side}{seed}"
        write(folder, {"sums": rows}, metrics={"acc": ("mean", True)}, model=model)
    samples = [{"id": n, "input": n, "scores": {"match": {"value": "C"}}} for n in range(20)]
    (tmp_path / "logs").mkdir()
    for side in "ab":
        log = {"status": "success", "eval": {"task": "sums"}, "samples": samples}
        (tmp_path / "logs" / f"{side}.json").write_text(json.dumps(log), encoding="utf-8")
        write_lighteval(tmp_path / "lighteval" / side, [1, 0] * 20)
    for model in ("ours", "theirs"):
        write_opencompass(tmp_path / "outputs" / "20261128", [1, 0] * 20, model=model)
    rows = [f"{model},{n},{n % 2}" for model in ("ours", "theirs") for n in range(30)]
    (tmp_path / "scores.csv").write_text("\n".join(["model,item,score", *rows]), encoding="utf-8")
    (tmp_path / "recorded").symlink_to(documented.ROOT / "recorded")
    monkeypatch.chdir(tmp_path)
    shown = [block for name in documented.NAMES for block in documented.blocks(name, "text")]
    for _, command in documented.tried("compared"):
        words = []
        for word in shlex.split(command)[1:]:
            words += sorted(map(str, Path().glob(word))) or [word]
        assert library(words) == 0, capsys.readouterr().err
        said = capsys.readouterr().out
        assert "recorded" not in command or said in shown, f"write anew what it says: {command}"


def test_the_page_on_rules_names_every_need_and_signal():
    text = (documented.ROOT / "docs/your-method.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`|always) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    columns = zip(*rows[1:], strict=True)
    needs, signals, explained = (set(re.findall(r"`(\w+)`", " ".join(c))) for c in columns)
    assert {field.name for field in dataclasses.fields(Needs)} == needs
    assert {field.name for field in dataclasses.fields(Signals)} == signals
    assert {field.name for field in dataclasses.fields(Statistics)} <= explained
