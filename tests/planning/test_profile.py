"""What profiles set, and what is refused before anything starts."""

import itertools
import re
import subprocess
import sys
import types

import documented
import pytest
import yaml
from repository import ROOT

from pike_mixing.errors import InputError
from pipeline.planning import snakemake_internals, workflow_profile

PROFILES = sorted((ROOT / "workflow" / "profiles").glob("*/*.yaml"))


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.parent.name)
def test_every_profile_that_is_shipped_is_fit(path):
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    asked = values.get("set-resources", {})
    found = workflow_profile.read_profile(asked, values.get("default-resources", {}))
    for rule, own in asked.items():
        for name in own:
            assert found.value_in_set_resources(rule, name) == str(own[name]).strip("'\"")


def test_what_is_not_set_is_the_callers_to_say():
    own = {"pretrain": {"longest": 60, "python": "'.venv-tpu/bin/python'"}}
    found = workflow_profile.read_profile(own, {})
    assert (found.time_limit_minutes("pretrain"), found.time_limit_minutes("pack")) == (60, 0)
    of_all = workflow_profile.read_profile(own, {"longest": 30})
    for rule, minutes, place in (
        ("pretrain", 60, "set-resources of pretrain"),
        ("tokenizer", 30, "default-resources"),
        ("report", 30, "default-resources"),
    ):
        assert (of_all.time_limit_minutes(rule), of_all.time_limit_place(rule)) == (minutes, place)
    assert found.value_in_set_resources("pretrain", "python") == ".venv-tpu/bin/python"
    assert found.value_in_set_resources("pretrain", "accelerator", "cpu") == "cpu"


@pytest.mark.parametrize(
    ("chosen", "device"),
    [
        ({}, "auto"),
        ({"accelerator": "a100-80gb"}, "cuda"),
        ({"accelerator": "tpu-v5e"}, "xla"),
        ({"accelerator": "cpu-bf16", "device": "auto"}, "auto"),
        # Somebody who means it.
        ({"accelerator": "h100", "device": "cpu"}, "cpu"),
        ({"device": "cuda"}, "cuda"),
    ],
)
def test_the_device_is_that_of_the_accelerator_which_jobs_book(chosen, device):
    found = workflow_profile.read_profile({"probe": chosen}, {})
    assert found.set_or_implied_device("probe") == device


def test_a_resource_at_the_margin_of_a_profile_is_named_before_snakemake_reads_it(tmp_path):
    """Snakemake: `unrecognized arguments: --slurm_account=mine`."""
    path = tmp_path / "config.yaml"

    def judge(text):
        path.write_text(text, encoding="utf-8")
        words = [sys.executable, "-m", "pipeline.planning.planner", path, "config.yaml"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    shipped = (ROOT / "workflow/profiles/slurm/config.yaml").read_text(encoding="utf-8")
    assert judge(shipped) == (0, "")
    code, told = judge(shipped.replace("  # slurm_account: ", "slurm_account: ", 1))
    assert code == 1
    assert told.startswith(f"PROFILE: {path}: slurm_account: at the margin it is no resource: put")
    # YAML 1.1, which Snakemake reads, takes the time of `sinfo` for a number of base 60.
    for old, new, where in (
        ("&longest 1440", "&longest 12:00:00", "set-resources of pretrain: longest: 12:00:00"),
        ("wait: 1440", "wait: 12:00:00", "set-resources of pretrain: wait: 12:00:00"),
    ):
        code, told = judge(shipped.replace(old, new, 1))
        assert code == 1
        assert f"PROFILE: {path}: {where} is not a whole number of minutes from" in told
        assert told.rstrip().endswith("on: write 720")
    for given, said in (
        ("0123", "Snakemake reads 83 here: put the value in quotes"),
        ("", "there is no value: write one, or take the line out"),
    ):
        text = shipped.replace("# slurm_account: mine", f"slurm_account: {given}")
        message = f"PROFILE: {path}: default-resources: slurm_account: {said}"
        assert judge(text) == (1, f"{message}\n")
    assert judge(shipped.replace("# slurm_account: mine", "slurm_account: '0123'")) == (0, "")


@pytest.mark.parametrize("words", ["--profile {}/config.yaml", "--profile={} -n"])
def test_a_time_is_refused_where_snakemake_itself_is_called(tmp_path, monkeypatch, words):
    """It hands over the number 43200."""
    path = tmp_path / "config.yaml"
    path.write_text("set-resources: {pretrain: {longest: 12:00:00}}\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["snakemake", *words.format(tmp_path).split()])
    given = types.SimpleNamespace(configfiles=[], config={}, config_args=[])
    resources = types.SimpleNamespace(
        overwrite_resources={"pretrain": {"longest": 43200}},
        default_resources={},
        overwrite_threads={},
        nodes=None,
    )
    workflow = types.SimpleNamespace(config_settings=given, resource_settings=resources)
    told = re.escape(f"{path}: set-resources of pretrain: longest: 12:00:00 is not a")
    with pytest.raises(InputError, match=f"{told} .* write 720"):
        snakemake_internals.SnakemakeRequest(workflow)


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.parent.name)
def test_what_must_be_filled_in_stands_in_one_place(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    section, filled = "", []
    for n, line in enumerate(lines):
        section = line if re.match(r"[a-z-]+:", line) else section
        # Elsewhere it is an alias.
        if found := re.match(r" *(?:# )?(accelerator|longest|slurm_\w+): (?!\*|\")", line):
            above = itertools.takewhile(lambda line: "#" in line, reversed(lines[:n]))
            assert "FILL IN" in "".join(above), line
            filled.append((section, found[1]))
    assert len({*filled}) == len(filled)
    expected = {"slurm": 6, "gpu": 1}.get(path.parent.name, len(filled))
    assert len(filled) == expected


def test_a_profile_of_slurm_that_nobody_has_filled_in_is_told():
    shipped = (ROOT / "workflow/profiles/slurm/config.yaml").read_text(encoding="utf-8")

    def told(text):
        values = yaml.safe_load(text)
        return workflow_profile.read_profile(
            values["set-resources"], values["default-resources"]
        ).explain_unfilled()

    lines = [
        ("slurm_partition: cpu", "slurm_partition: own", " (default-resources)"),
        ("\n  longest: 1440", "\n  longest: 60", " (default-resources)"),
        ("slurm_partition: &partition gpu", "slurm_partition: &partition own", " (pretrain)"),
        ("accelerator: &accelerator h100", "accelerator: &accelerator h200", " (pretrain)"),
        ("longest: &longest 1440", "longest: &longest 60", " (pretrain)"),
    ]
    left = [re.sub(r"&\w+ ", "", old).strip() + place for old, _, place in lines]
    for filled, (old, new, _) in enumerate(lines):
        assert told(shipped) == (
            "the profile's lines marked FILL IN, still unchanged: "
            f"{', '.join(left[filled:])}: if they are right for your cluster, go on"
        )
        assert old in shipped
        shipped = shipped.replace(old, new, 1)
    assert told(shipped) is None
    # Kubernetes has no partitions.
    other = workflow_profile.read_profile({"pretrain": {"accelerator": "h100"}}, {})
    assert other.explain_unfilled() is None
    assert workflow_profile.Profile({}).explain_unfilled() is None


def test_evaluations_that_may_get_another_gpu_than_trainings_are_told():
    def told(pretrain, others=None, defaults=None):
        own = {"pretrain": pretrain, "evaluate": others or {}, "probe": others or {}}
        chosen = {r: {"accelerator": "h100", "slurm_partition": "a"} | v for r, v in own.items()}
        return workflow_profile.read_profile(
            chosen, defaults or {}
        ).explain_possibly_different_gpu_models()

    for own in ({"gpu_model": "h100"}, {"constraint": "sxm"}):
        ((name, value),) = own.items()
        assert told(own) == (
            f"{name}: {value} is set for pretrain, and not for evaluate and probe, whose jobs may "
            "get any GPU: add it below evaluate and probe, too"
        )
        assert told(own, own) is None
        # A choice of their own.
        for others in ({"slurm_partition": "b"}, {"accelerator": "cpu"}):
            assert told(own, others) is None
    assert told({}, {"gpu_model": "h100"}).startswith(
        "gpu_model: h100 is set for evaluate and probe, and not for pretrain, whose jobs may"
    )
    # On several nodes, trainings name the GPU by `gres`.
    several = {"nodes": 2, "processes": 8, "gres": "gpu:h100:4"}
    assert told(several, {"gpu_model": "h100"}) is None
    assert told({}, None, {"constraint": "sxm"}) is None


def test_the_example_of_the_page_fills_in_the_profile_of_slurm():
    (shown,) = (b for b in documented.blocks("docs/running.md", "text") if "accelerator" in b)
    shipped = (ROOT / "workflow/profiles/slurm/config.yaml").read_text(encoding="utf-8")
    for line in shown.splitlines():
        name, colon, _ = line.partition(": ")
        assert re.search(rf"^(# )?{name.lstrip()}{colon}", shipped.replace("  ", ""), re.MULTILINE)
    values = yaml.safe_load(shown)
    found = workflow_profile.read_profile(values["set-resources"], values["default-resources"])
    assert found.set_or_implied_device("pretrain") == "cuda"
    assert found.time_limit_minutes("pretrain") == 2 * 24 * 60
    assert found.time_limit_minutes("tokenizer") == 24 * 60


def of(rule, name, value):
    return {"resources": {rule: {name: value}}, "defaults": {}}


def idle(kind, device):
    return {"resources": {"evaluate": {"device": device, "accelerator": kind}}, "defaults": {}}


def default(name, value):
    return {"resources": {}, "defaults": {name: value}}


ELSEWHERE = "nothing reads it there: set it in set-resources of"
IDLE = "set-resources of evaluate: device: {}: jobs are planned for accelerator: {},"
PLUGIN = "the Slurm plugin takes letters, digits, _ and . in a GPU's name: leave it out, and choose"
MINUTES = "whole number of minutes from 1 on"
WRONG = [
    (of("pretrain", "processes", 0), "processes: 0 is not a whole number of processes from 1 on"),
    (of("pack", "longest", 0), "set-resources of pack: longest: 0 is not"),
    (of("pretrain", "wait", -1), "wait: -1 is not a whole number of minutes from 0 on"),
    (of("table", "runtime", 0), "runtime: 0 is no limit: give 1 or more, or leave it out"),
    (of("pretrain", "accelerator", "h1000"), "'h1000' is unknown: did you mean 'h100'?"),
    (of("pretrain", "device", "gpu"), "device: gpu is unknown: give auto, cpu, cuda or xla"),
    (of("pretrain", "save_on", "USR3"), "save_on: USR3 is unknown: give USR1 or USR2"),
    (of("pretrain", "nodes", 0), "nodes: 0 is not a whole number of nodes from 1 on"),
    (of("pretrain", "tasks", 2), "tasks: 2: leave it out: `processes` and `nodes` of pretrain say"),
    (of("evaluate", "processes", 2), f"processes: {ELSEWHERE} pretrain"),
    (of("pack", "accelerator", "h100"), f"{ELSEWHERE} pretrain, evaluate or probe"),
    (of("pdf", "longest", 60), "set-resources of pdf: longest: nothing reads it there: set"),
    (of("probe", "gpu_model", "a100-sxm"), f"of probe: gpu_model: a100-sxm: {PLUGIN}"),
    (of("pretrain", "gres", "gpu:a100-sxm:4"), f"gres: gpu:a100-sxm:4: {PLUGIN}"),
    (of("pretrain", "procesess", 2), "procesess: nothing reads it: did you mean processes?"),
    (of("pretrane", "longest", 2), "set-resources: rule: 'pretrane' is unknown: did you mean"),
    (
        {"resources": {}, "defaults": {}, "threads": {"pretrane": 2}},
        "set-threads: rule: 'pretrane' is unknown: did you mean",
    ),
    # Times as `sinfo` shows them, and as people write them.
    *(
        (of("pretrain", "longest", text), f"longest: {text} is not a {MINUTES}: write {minutes}")
        for text, minutes in (
            ("12:00:00", "720"),
            ("2-00:00:00", "2880"),
            ("1-12", "2160"),
            ("30:00", "30"),
            ("1.5 hours", "90"),
            ("infinite", "43200, which is 30 days"),
        )
    ),
    (default("longest", "7-00:00:00"), f"longest: 7-00:00:00 is not a {MINUTES}: write 10080"),
    (of("pack", "runtime", "1-00:00:00"), f"runtime: 1-00:00:00 is not a {MINUTES}: write 1440"),
    # Words of sbatch.
    *(
        (given, f"{name}: nothing reads it: {remedy}")
        for name, remedy in (
            ("partition", "write slurm_partition"),
            ("time", "write longest"),
            ("gpus_per_node", "leave it out, and set `processes` of pretrain"),
        )
        for given in (of("pretrain", name, "4"), default(name, "4"))
    ),
    (of("pretrain", "gpu", 4), "of pretrain: gpu: 4: leave it out, and set `processes` of"),
    (default("gpu", 1), "default-resources: gpu: 1: leave it out, and set `processes` of"),
    (
        of("evaluate", "gres", "gpu:a100:2"),
        "of evaluate: gres: gpu:a100:2: a job uses 1 of them: leave it out",
    ),
    # What is read rule by rule is no default.
    (default("accelerator", "h100"), f"default-resources: accelerator: {ELSEWHERE}"),
    # A device that leaves the accelerator idle.
    *(
        (idle(kind, device), IDLE.format(device, kind))
        for kind, device in (
            ("a100-80gb", "auto"),
            ("tpu-v4", "cuda"),
            ("cpu", "cuda"),
        )
    ),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_what_is_not_fit_is_refused(given, message):
    with pytest.raises(InputError, match=re.escape(message)):
        workflow_profile.read_profile(**given)


def test_what_a_plugin_the_user_or_snakemake_may_read_is_left_alone():
    for name in ("mem", "disk", "mem_mb_per_cpu", "constraint", "qos", "cpus_per_gpu"):
        workflow_profile.read_profile({"pretrain": {name: "1"}}, {name: "1"})
    units = {"runtime": "2h", "mem_mb": "1000 * attempt", "nodes": 1}
    workflow_profile.read_profile({"pretrain": units}, {})
    # The chips of a TPU VM count as one; GPUs that the processes of a training use.
    for own in (
        {"accelerator": "tpu-v4", "processes": 4, "gpu": 1},
        {"processes": 8, "nodes": 2, "gres": "gpu:a100:4"},
        {"processes": 4, "gres": "gpu:4"},
        {"runtime": "20 - attempt"},
    ):
        workflow_profile.read_profile({"pretrain": own}, {})


def test_the_rules_are_those_of_the_workflow():
    files = [ROOT / "workflow/Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    found = [name for f in files for name in re.findall(r"^rule (\w+):", f.read_text(), re.M)]
    assert sorted(workflow_profile.RULES) == sorted(found)
