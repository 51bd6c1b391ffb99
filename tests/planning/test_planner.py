import dataclasses
import errno
import itertools
import json
import os
from pathlib import Path

import pytest
import yaml
from edits import set_at, way
from repository import CONFIGS, ROOT

from pike_mixing.errors import InputError
from pipeline.planning import manifest_places, output_root, planner, rule_inputs
from pipeline.planning.plan import Selection
from pipeline.runtime import atomic_files

THREE = ("like-en", "like-hi", "like-de")


@pytest.fixture
def small(config):
    """Two scenarios, two methods and two seeds of the default experiment."""
    values = config()
    # Its own coefficients, in place of those that a grid finds.
    values["methods"]["pike"] = values["methods"]["pike-middle"]
    entry = {"scenarios": ["installed", "symbols"], "models": ["nano"], "seeds": [0, 1]}
    values["runs"] = [{**entry, "methods": ["mix", "pike"]}]
    values["tables"], values["figures"] = {"perplexity": {}}, {}
    for scenario in values["scenarios"].values():
        scenario["probe"] = "standard"
    del values["probe"]["standard"]["methods"], values["probe"]["standard"]["seeds"]
    return values


def planned(values):
    return planner.plan(values, "config.yaml")


def test_losses_for_searches_are_of_the_runs_that_a_search_reads(config):
    evaluations = planned(config()).evaluations
    searched = {run.split("/", 2)[2] for run, values in evaluations.items() if values.get("search")}
    # The grid's. DoReMi's reference and proxy are read by their states.
    assert searched == {
        f"pike-{pair}/seed{seed}"
        for seed in config()["grids"]["zetas"]["seeds"]
        for pair in ("low", "middle", "high", "highest")
    }
    assert "search" not in evaluations["installed/pico/doremi-proxy/seed100"]


def test_no_two_shipped_configurations_share_a_results_folder():
    folders = [planner.read_expanded_config(path)["results"] for path in CONFIGS]
    assert len(set(folders)) == len(folders)


def test_runs_are_all_combinations_in_the_order_of_the_lists(small):
    names = itertools.product(("installed", "symbols"), ("mix", "pike"), (0, 1))
    assert list(planned(small).runs) == [f"{s}/nano/{m}/seed{seed}" for s, m, seed in names]


def test_a_run_holds_all_its_settings_explicitly(small):
    run = planned(small).runs["installed/nano/pike/seed1"]
    own = {k: v for k, v in small["methods"]["pike"].items() if k != "rule"}
    given = {"model": small["models"]["nano"], "training": small["training"]["text"], "method": own}
    silent = {"model": "activation", "training": "precision", "method": "preset"}
    assert [run[part][name] for part, name in silent.items()] == ["gelu", "float32", "recommended"]
    assert all(run[part].items() >= values.items() for part, values in given.items())
    assert {key: one for key, one in run.items() if key not in given} == {
        "scenario": "installed",
        "model_name": "nano",
        "method_name": "pike",
        "seed": 1,
        "domains": ["prose", "headers", "dialogues", "stubs", "code", "unicode"],
        "tokenizer": "installed",
        "rule": "pike",
    }


def silence(values):
    values["methods"]["fixed"] = {"rule": "fixed", "weights_by_domain": SHARES}
    values["sources"]["own"] = {"kind": "local", "files": "text/*.txt"}
    values["methods"]["mine"] = {"rule": "mine:Mine"}
    values["methods"]["found"] = {"rule": "fixed", "mixture": "found"}
    values["mixtures"] |= {"found": {"finder": "regmix", "methods": ["mix", "fixed"]}}
    values["runs"][0]["methods"] += ["mine", "fixed", "found"]
    values["scenarios"]["installed"]["domains"] = [*SHARES]
    values["scenarios"]["symbols"]["methods"] = {"fixed": {"weights_by_domain": {"a": 1, "b": 2}}}
    values["scenarios"]["symbols"]["domains"] = ["a", "b"]
    values["runs"][0]["scenarios"] = ["installed"]
    for name in ("a", "b", "own"):
        values["sources"].setdefault(name, values["sources"]["own"])
    return values


SHARES = {"code": 2, "own": 1}
WITH_DEFAULTS = """
import dataclasses
from pike_mixing.interface import Method

class Words:
    power: int = 7

@dataclasses.dataclass(frozen=True)
class Base(Words, Method):
    lean: float = 2.0
    taken: int = 1

@dataclasses.dataclass(frozen=True)
class Mine(Base):
    about: "ClassVar[str]" = "Its own."
    among: tuple[int, ...] = (1, 2)
    taken: int = -3
"""


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("training/text/precision", "float32"),
        ("training/text/microbatch_rows", None),
        ("training/text/alarms", {"window": 100}),
        ("training/text/clip_norm", 1),
        ("sources/own/field", "text"),
        ("sources/own/files", ["text/*.txt"]),
        ("sources/own/files", "./text//*.txt"),
        ("packing/shard_tokens", 67108864),
        ("packing/hygiene", {"min_characters": 0}),
        ("evaluation/standard/choice/distractors_from", "same"),
        ("methods/pike/preset", "recommended"),
        ("methods/fixed/weights_by_domain", {"own": 1.0, "code": 2.0}),
        ("methods/mine/lean", 2),
        ("methods/mine/among", [1, 2]),
        ("methods/mine/taken", -3),
        ("scenarios/symbols/methods/pike", {"preset": "recommended", "zeta1": 0.6}),
        ("mixtures/found/options", {"leaves": 4, "concentration": 1}),
        ("compare", {"baseline": "mix"}),
        ("paper/headline", "cf"),
        ("results", "./results/"),
    ],
)
def test_a_default_that_is_written_out_is_no_change(small, own_modules, place, value):
    (own_modules / "mine.py").write_text(WITH_DEFAULTS)
    silent = planned(silence(small))
    set_at(small, way(place, "/"), value)
    written = planned(small)
    files = [plan.settings_by_path() for plan in (silent, written)]
    assert files[0].keys() == files[1].keys()
    # Those of databases hold the configuration as the report shows it.
    # As texts: 2 and 2.0 are equal to Python, and not to who compares records.
    texts = [{n: json.dumps(one) for n, one in of.items() if "runs" not in one} for of in files]
    assert texts[0] == texts[1]
    for section in ("databases", "report"):
        settings = written.settings_for_manifest(section, "")
        assert settings == silent.settings_for_manifest(section, "")
    mine = silent.runs["installed/nano/mine/seed0"]["method"]
    assert mine == {"lean": 2.0, "taken": -3, "among": [1, 2]}


def test_a_method_may_have_a_recipe_of_its_own(small):
    small["training"]["double"] = {**small["training"]["symbols"], "steps": 480}
    small["methods"]["longer"] = {"rule": "mix", "training": "double"}
    small["runs"][0]["methods"] = ["mix", "longer"]
    small["scenarios"]["installed"]["methods"] = {"longer": {"training": "text"}}
    runs = planned(small).runs
    steps = {name: run["training"]["steps"] for name, run in runs.items() if "seed0" in name}
    assert steps == {
        "installed/nano/mix/seed0": 150,
        "installed/nano/longer/seed0": 150,
        "symbols/nano/mix/seed0": 150,
        "symbols/nano/longer/seed0": 480,
    }
    assert runs["symbols/nano/longer/seed0"]["method"] == {}


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, True),
        ({"methods": ["mix", "pike"], "models": ["nano"], "seeds": [0, 1]}, True),
        ({"methods": ["pike"]}, False),
        ({"models": ["pico"]}, False),
        ({"seeds": [1]}, False),
    ],
)
def test_a_probe_and_all_checkpoints_may_be_for_some_runs(small, limits, kept):
    small["probe"]["standard"] |= limits
    del small["evaluation"]["standard"]["curves"]
    small["evaluation"]["standard"] |= {"curves": limits} if limits else {}
    plan, run = planned(small), "symbols/nano/mix/seed0"
    assert (run in plan.probes) == kept
    assert plan.evaluations[run]["checkpoints"] == ("all" if kept else "last")


def test_a_trained_tokenizer_leaves_out_what_packing_holds_out(small):
    small["packing"]["validation_share"] = 0.3
    small["tokenizers"]["given"] = {"kind": "file", "path": "spiece.model"}
    plan = planned(small)
    assert plan.tokenizers["installed"]["validation_share"] == 0.3
    assert "sources" not in plan.tokenizers["installed"]
    assert plan.tokenizer_sources["symbols"] == ["like-en", "like-hi", "like-zh", "like-ar"]
    assert plan.tokenizers["given"] == {"kind": "file", "path": "spiece.model"}
    assert plan.tokenizer_sources["given"] == []


@pytest.mark.slow
def test_a_table_needs_the_runs_that_it_selects(small):
    small["tables"] = {
        "perplexity": {},
        "costs": {"scenarios": ["symbols"], "models": ["nano"], "methods": ["mix"], "seeds": [1]},
        "gradients": {"seeds": [0, 1]},
    }
    plan = planned(small)
    assert plan.needed_runs_by_output["table", "perplexity"] == tuple(plan.runs)
    assert plan.needed_runs_by_output["table", "costs"] == ("symbols/nano/mix/seed1",)
    for name in ("perplexity", "gradients"):
        assert plan.database_path_of_output("table", name) == "results/pike.duckdb"
    assert plan.database_path_of_output("table", "costs") == "results/databases/table-costs.duckdb"
    written = plan.settings_by_path()
    assert "results/settings/databases/table-costs.json" in written
    assert "results/settings/databases/table-perplexity.json" not in written
    # That of some runs has what its tables read.
    assert "views" not in written["results/settings/experiment.json"]
    assert written["results/settings/databases/table-costs.json"]["views"] == ["table_costs"]


OWN = "methods.pike in scenario symbols"
IN_SYMBOLS = "scenarios/symbols/methods/pike"
ASKED = {"tasks": ["piqa", "hellaswag_de"], "shots": [0, 7], "formulations": ["cf"], "items": 9}
TWICE = [ASKED, {**ASKED, "tasks": ["piqa"], "items": 3}]
GAIN = {"method": "pike", "against": "mix", "board": "no target", "direction": "lower"}
PREDICTED = {"predictions": {"hypotheses": {"gain": {**GAIN, "expected": -0.01}}}}
LADDER = {"tables": {"ladder": {}}}
SWARM = {"runs": 2, "seed": 0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {
                "probe/standard/methods": ["mixx"],
                "tables/perplexity/methods": ["mixx"],
                "scenarios/installed/methods": {"pikes": {}},
            },
            [
                "probe.standard.methods: 'mixx' is unknown: did you mean 'mix'?",
                "tables.perplexity.methods: 'mixx' is unknown: did you mean 'mix'?",
                "scenarios.installed.methods: 'pikes' is u",
            ],
        ),
        (
            {IN_SYMBOLS: {"zeta9": 1, "every": 0.5}},
            [f"{OWN}.every: 0.5 is not a", f"{OWN}: 'zeta9' is unknown: did you mean 'zeta2'?"],
        ),
        # That of a method without runs is checked, too.
        (
            {IN_SYMBOLS: {"rule": "pyke"}, "runs/0/methods": ["mix"]},
            [f"{OWN}.rule: 'pyke' is unknown: did you mean 'pike'?"],
        ),
        ({"methods/pike/training": ["text"]}, ["methods.pike.training: \"['text']\" is unknown"]),
        ({f"{IN_SYMBOLS}/grid": 3}, ["scenarios.symbols.methods.pike.grid: '3' is unknown"]),
        (
            {"swarms": {"drawn": SWARM}, "methods/drawn-001": {"rule": "mix"}},
            ["methods.drawn-001: swarms.drawn makes a method of this name: rename one"],
        ),
        (
            {
                "swarms": {
                    "low": {**SWARM, "concentration": 0.001},
                    "high": {**SWARM, "concentration": 1e300},
                }
            },
            ["swarms.low.concentration: ", "swarms.high.concentration: "],
        ),
        # What only a recipe's own checks refuse is told with all else.
        (
            {
                "training/text/warmup_steps": 601,
                "methods/mix": {"rule": "single", "domain": "code"},
            },
            [
                "training.text.warmup_steps: must lie between 0 and steps (150)",
                "methods.mix in scenario symbols: domain: 'code' is unknown: known: like-de, ",
            ],
        ),
        (
            {
                "evaluation/standard/tasks": [{**ASKED, "tasks": ["piqua"]}],
                "tasks": {"hellaswag_deu": {"revision": "0" * 40}},
            },
            [
                "evaluation.standard.tasks[0].tasks: 'piqua' is unknown: did you mean 'piqa'",
                "tasks: 'hellaswag_deu' is unknown",
            ],
        ),
        (
            {"evaluation/standard/tasks": TWICE},
            [f"evaluation.standard.tasks: piqa, {n}-shot, cf is asked twice: take" for n in (0, 7)],
        ),
        (LADDER, ["tables.ladder: it shows regret to an oracle: name a method in compare.oracle"]),
        (
            {**LADDER, "compare": {"oracle": "pike"}, "runs/0/methods": ["mix"]},
            ["tables.ladder: it shows regret to pike, which has no run: add it to runs"],
        ),
        ({**LADDER, "compare": {"oracle": "pike"}}, []),
        (PREDICTED, []),
        (
            {**PREDICTED, "runs/0/models": ["nano", "pico"]},
            ["predictions: a hypothesis is about one model, runs have nano, pico"],
        ),
        (
            {
                "methods": {"equal": {"rule": "mix"}, "other": {"rule": "random"}},
                "runs/0/methods": ["equal"],
            },
            ["compare.baseline, which is not set: 'mix' is unknown"],
        ),
        (
            {"training/text/length": 8, "methods/pike/training": "text"},
            [
                f"evaluation.standard.{key}.context: questions of {tokens} tokens, candidates "
                f"included, do not fit into the 8 tokens of training.text in scenario {name}: "
                for name in ("installed", "symbols")
                for key, tokens in (("choice", 56), ("few_shot", 64))
            ],
        ),
    ],
)
def test_what_does_not_go_together_is_refused(small, changes, expected):
    for place, value in changes.items():
        set_at(small, way(place, "/"), value)
    if not expected:
        assert planned(small).runs
        return
    with pytest.raises(InputError) as caught:
        planned(small)
    told = str(caught.value).splitlines()
    for one in expected:
        assert [line for line in told if line.startswith(f"config.yaml: {one}")], told


def rooted(values, folder):
    return dataclasses.replace(planned(values), results=str(folder))


@pytest.mark.slow
def test_a_shared_folder_is_refused_to_a_clone_of_other_settings(small, tmp_path, monkeypatch):
    clones = [tmp_path / "one", tmp_path / "two"]
    for clone in clones:
        clone.mkdir()
    monkeypatch.chdir(clones[0])
    output_root.write_settings(rooted(small, tmp_path / "shared"))
    monkeypatch.chdir(clones[1])
    output_root.write_settings(rooted(small, tmp_path / "shared"))  # The same settings.
    small["methods"]["pike"]["zeta1"] = 9.0
    with pytest.raises(InputError) as caught:
        output_root.refuse_root_of_other_experiment(rooted(small, tmp_path / "shared"))
    assert f"was begun by the clone {clones[0]}, whose config.yaml has other" in str(caught.value)
    assert f"delete {tmp_path / 'shared' / 'experiment.json'}" in str(caught.value)
    monkeypatch.chdir(clones[0])
    output_root.write_settings(rooted(small, tmp_path / "shared"))


@pytest.mark.slow
def test_a_whole_clone_may_be_moved_with_its_results(small, tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    output_root.write_settings(rooted(small, "results"))
    (tmp_path / "one").rename(tmp_path / "two")
    monkeypatch.chdir(tmp_path / "two")
    small["methods"]["pike"]["zeta1"] = 9.0
    output_root.write_settings(rooted(small, "results"))


def test_results_that_cannot_be_written_are_told_with_a_way_out(small, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic_files, "write_json", full)
    with pytest.raises(InputError, match=r"shared cannot be written: .*: free some space"):
        output_root.write_settings(rooted(small, tmp_path / "shared"))


@pytest.mark.slow
def test_only_settings_that_changed_are_written_again(small, tmp_path):
    small["scenarios"]["symbols"]["methods"]["pike"]["zeta1"] = 1.0
    output_root.write_settings(rooted(small, tmp_path))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    small["methods"]["pike"]["zeta1"] = 9.0
    output_root.write_settings(rooted(small, tmp_path))
    touched = {path for path, time in before.items() if path.stat().st_mtime_ns != time}
    inside = {str(path.relative_to(tmp_path)) for path in touched}
    # The scenario `symbols` has a zeta1 of its own; the stamp of a shared root names the settings.
    assert inside == {
        "experiment.json",
        "settings/experiment.json",
        "runs/installed/nano/pike/seed0/run.json",
        "runs/installed/nano/pike/seed1/run.json",
    }
    changed = atomic_files.read_json(tmp_path / "runs/installed/nano/pike/seed0/run.json")
    assert changed["method"]["zeta1"] == 9.0


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("broken.yaml", b"", "is empty: a configuration is a mapping, such as config.yaml"),
        ("broken.yaml", b"- a\n", "holds a list: a configuration is a mapping, such as"),
        ("broken.yaml", b"\xff\xfe\xff", "is not UTF-8 ("),
        (".", None, "is a folder, a pipe or a device: name a file"),
        ("missing.yaml", None, "does not exist: check the path"),
        ("paper.yaml", None, "does not exist: did you mean workflow/configs/paper.yaml?"),
        ("x" * 300, None, "cannot be read (File name too long): check the path"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path, monkeypatch, name, content, expected):
    monkeypatch.chdir(ROOT)
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        planner.read_expanded_config(path)
    assert str(caught.value).startswith(f"{path} {expected}")


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    path = tmp_path / "marked.yaml"
    path.write_bytes(b"\xef\xbb\xbfexperiment: mine\n")
    assert planner.read_expanded_config(path) == {"experiment": "mine"}


def test_a_target_behind_configfile_is_named(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("experiment: mine\n")
    with pytest.raises(InputError, match=r"manifest\.json is no configuration: .* put targets in"):
        planner.plan_config_files([path, tmp_path / "manifest.json"], {})


def test_a_workflow_of_several_files_names_them_all(small, tmp_path):
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    paths[0].write_text(yaml.safe_dump(small), encoding="utf-8")
    paths[1].write_text("models: {nano: {depth: 3}}\n")
    with pytest.raises(InputError, match=r"a\.yaml \+ .*b\.yaml: models\.nano"):
        planner.plan_config_files(paths, {})


def test_downstream_tasks_are_asked_in_all_combinations(small):
    small["evaluation"]["standard"]["tasks"] = [ASKED]
    small["tasks"] = {
        "piqa": {"files": {"validation": "piqa.jsonl"}},
        "csqa": {"revision": "0" * 40},
    }
    plan = planned(small)
    asked = plan.evaluations["installed/nano/mix/seed0"]["tasks"]
    assert [(one["task"], one["shots"]) for one in asked] == [
        ("piqa", 0),
        ("piqa", 7),
        ("hellaswag_de", 0),
        ("hellaswag_de", 7),
    ]
    # What no evaluation asks is not fetched.
    assert plan.tasks == {"piqa": {"files": {"validation": "piqa.jsonl"}}, "hellaswag_de": {}}


def test_tasks_that_no_corpus_may_hold_are_fetched(small):
    def told(path):
        hygiene = {"decontaminate": {"files": [path], "ngram": 13}}
        small["packing"] = small["packing"] | {"hygiene": hygiene}
        return planned(small)

    for path in ("results/tasks/piqa/*.jsonl", "./x/../results//tasks/piqa/a.jsonl"):
        plan = told(path)
        assert plan.tasks == {"piqa": {}}
        made, given = rule_inputs.RuleInputs(plan).job_inputs("pack", "symbols/like-en")
        assert (made["tasks"], given) == ([plan.manifest_path("fetch", "piqa")], [])
    with pytest.raises(InputError, match=r"hygiene\.decontaminate\.files: 'piqua' is unknown"):
        told(Path("results/tasks/piqua/a.jsonl").absolute().as_posix())


def test_what_shows_the_theory_alone_needs_no_run(small):
    small["tables"] = {"audit": {}, "costs": {"methods": ["mix"]}}
    small["figures"] = {"figure3": {}}
    plan = planned(small)
    place = "results/databases/theory.duckdb"
    assert (
        plan.database_path_of_output("table", "audit")
        == plan.database_path_of_output("figure", "figure3")
        == place
    )
    written = plan.settings_by_path()
    alone = written["results/settings/databases/theory.json"]
    assert (alone["theory"], alone["runs"], alone["corpora"]) == ("results/theory", {}, {})
    # The whole experiment holds it too; what is for some runs does not wait for it.
    assert written["results/settings/experiment.json"]["theory"] == "results/theory"
    assert written["results/settings/databases/table-costs.json"]["theory"] is None


@pytest.mark.parametrize(
    ("at", "value", "reads"),
    [
        ("scenarios/symbols/target", dict(zip(THREE, (2, 1, 1), strict=True)), True),
        ("scenarios/symbols/about", "Said otherwise", True),
        ("runs/0/methods", ["pike"], False),
        ("runs/0/methods", ["mix", "doremi"], True),
        ("runs/0/seeds", [0, 1, 7], False),
        ("methods/mix/training", "text", True),
        ("scenarios/installed/about", "Said otherwise", False),
        ("sources/code/bytes", 1000, False),
    ],
)
def test_a_database_of_some_runs_records_what_it_reads_of_the_configuration(
    small, at, value, reads
):
    def recorded():
        runs = tuple(f"symbols/nano/pike/seed{seed}" for seed in (0, 1))
        some = plan.database_settings_of_selection(Selection(runs))
        return atomic_files.canonical_json(
            manifest_places.database_settings({**some, "config": small})
        )

    plan = planned(small)
    before = recorded()
    set_at(small, way(at, "/"), value)
    assert (recorded() != before) == reads


def test_options_are_read_as_a_configuration_is():
    words = [
        'training={"text": {"steps": 8}}',
        "training={text: {compile: true, note: '8'}}",
        "sources={python: {packages: [a, 1.5]}}",
        "results=there",
        "quick=8",
    ]
    # Snakemake's own reading.
    parsed = {
        "training": {
            "text": {"steps": "8", "precision": "float32", "compile": "true", "note": "8"}
        },
        "sources": {"python": {"packages": ["a", "1.5"]}},
        "results": "there",
        "quick": 8,
    }
    text = {"steps": 8, "compile": True, "note": "8"}
    assert planner.read_config_options(parsed, words) == {
        "training": {"text": text},
        "sources": {"python": {"packages": ["a", 1.5]}},
        "results": "there",
        "quick": 8,
    }
    assert planner.read_config_options(parsed, None) == parsed
    with pytest.raises(InputError, match=r"--config training: line 1: the number 99999.* digits"):
        planner.read_config_options(
            {"training": {}}, ["training={text: {steps: " + "9" * 5000 + "}}"]
        )
