"""A configuration in two files."""

import os
from pathlib import Path

import pytest
import yaml
from repository import ROOT

from pike_mixing.errors import InputError
from pipeline.__main__ import main
from pipeline.planning import planner


def test_sections_of_names_are_joined_through_any_number_of_files(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "far.yaml").write_text("include:\nmodels: {a: 1}\nmethods: {mix: {}}\n")
    (tmp_path / "near.yaml").write_text("include: sub/far.yaml\nresults: r\nmethods: {pike: {}}\n")
    (tmp_path / "mine.yaml").write_text("include: near.yaml\nmethods: {own: {}}\n")
    found = planner.read_expanded_config(tmp_path / "mine.yaml")
    methods = {"mix": {}, "pike": {}, "own": {}}
    assert found == {"models": {"a": 1}, "methods": methods, "results": "r"}
    assert list(found["methods"]) == list(methods)


OWN = f"""
experiment: own
results: RESULTS
include: {ROOT}/workflow/scenarios.yaml
runs: [{{scenarios: [conflict], models: [pico], methods: [mix], seeds: [0]}}]
tables: {{}}
figures: {{}}
"""


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            "evaluation: {last: {rows: 32}}",
            "last-2, for a scenario of yours: {like: OLD, evaluation: last-2}",
        ),
        ("scenarios: {conflict: {evaluation: few}}", "conflict-2: {like: conflict, ...}"),
        ("methods: {pike: {rule: pike}}", "; or give yours a new name, pike-2"),
    ],
)
def test_what_an_include_sets_is_replaced_by_a_second_file_or_renamed(tmp_path, capsys, more, says):
    def said(*words):
        code = main(["plan", "--devices", "cpu", *map(str, words)])
        return code, *capsys.readouterr()

    mine, second = tmp_path / "own.yaml", tmp_path / "second.yaml"
    own = OWN.replace("RESULTS", str(tmp_path / "results"))
    mine.write_text(f"{own}{more}\n")
    name = f"{more.partition(': {')[0]}.{more.partition('{')[2].partition(':')[0]}"
    code, _, err = said("--config", mine)
    assert (code, says in err, "\n" in err.strip()) == (2, True, False), err
    assert f"{name}: set in {ROOT}/workflow/scenarios.yaml and in {mine}" in err
    assert f'make run CONFIG="{mine} second.yaml"' in err
    # What the message says works: the second file, at any place behind the first, and `like`.
    mine.write_text(own)
    second.write_text(more.replace("{evaluation: few}", "{evaluation: last}"))
    code, out, err = said("--config", mine, second)
    assert (code, "pretrain" in out) == (0, True), err
    assert said("--config", mine, "--config", second)[1] == out
    target = tmp_path / "results/corpora/symbols/east/manifest.json"
    code, out, err = said("--config", mine, second, target)
    assert (code, "pretrain" in out) == (0, False), err


def test_the_file_that_sets_the_results_folder_owns_it(tmp_path, config):
    whole = yaml.safe_dump(config(), sort_keys=False)
    (tmp_path / "whole.yaml").write_text(whole, encoding="utf-8")
    mine = tmp_path / "mine.yaml"
    mine.write_text("include: whole.yaml\nmethods: {own: {rule: mix}}\n")
    plan = planner.plan_config_files([mine], {})[0]
    assert "own" in plan.config["methods"]
    assert plan.origin == str(mine)
    assert Path(plan.owner).resolve() == tmp_path / "whole.yaml"


def test_a_later_file_and_options_replace_what_an_earlier_file_includes(tmp_path, config):
    whole = yaml.safe_dump(config(), sort_keys=False)
    (tmp_path / "whole.yaml").write_text(whole, encoding="utf-8")
    paths = [tmp_path / "mine.yaml", tmp_path / "later.yaml"]
    paths[0].write_text("include: whole.yaml\nmethods: {own: {rule: mix}}\n")
    paths[1].write_text("training: {text: {beta2: 0.5}}\nresults: later\n")
    options = {"results": "other", "training": {"text": {"peak_learning_rate": 0.02}}}
    plan, own = planner.plan_config_files(paths, options)
    assert own == {"methods": {"own": {"rule": "mix"}}, "include": "whole.yaml"} | options | {
        "training": {"text": {"beta2": 0.5, "peak_learning_rate": 0.02}}
    }
    recipe = config()["training"]["text"] | {"beta2": 0.5, "peak_learning_rate": 0.02}
    assert plan.results == "other"
    assert plan.config["training"]["text"].items() >= recipe.items()


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("none.yaml", "include: .*none.yaml' does not exist: give its path from"),
        ("[outputs.yaml]", r"include: \['outputs.yaml'\] is no path"),
        ("mine.yaml", "include: .*mine.yaml includes itself"),
        ("x" * 300, "include: .*xxx.* does not exist"),
        ("pipe", "pipe is a folder, a pipe or a device: name a file"),
        ("sparse.yaml", r"sparse.yaml is too large: a configuration has 1,048,576 bytes at most"),
        ("chain0.yaml", "chain51.yaml: 51 files include each other down to it: join some"),
        (
            "outputs.yaml",
            r"results: set in .*outputs\.yaml and in .*: put it into a second file.*mine\.yaml sec",
        ),
    ],
)
def test_what_cannot_be_included_is_refused(tmp_path, include, message):
    (tmp_path / "outputs.yaml").write_text("results: theirs\n")
    (tmp_path / "mine.yaml").write_text(f"results: mine\ninclude: {include}\n")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse.yaml").open("wb") as file:
        file.truncate(3 * 10**9)
    for n in range(60):
        (tmp_path / f"chain{n}.yaml").write_text(f"include: chain{n + 1}.yaml\n")
    with pytest.raises(InputError, match=message):
        planner.read_expanded_config(tmp_path / "mine.yaml")
