"""The jobs of an experiment and the bill."""

import json
import re

import pytest
import yaml
from recipes import of_run
from repository import CONFIGS, ROOT

from pike_mixing.errors import InputError
from pipeline import __main__, settings
from pipeline.planning import (
    cost,
    job_estimates,
    planner,
    requested_resources,
    run_estimates,
    workflow_profile,
)
from pipeline.runtime import accelerators
from pipeline.runtime.validate_settings import validate

PAPER = ROOT / "workflow/configs/paper.yaml"
TABLE, MIX = "tables/table1.md", "mc4-en-hi-de/gpt2-large/mix/seed0"


def planned(path, device="cpu"):
    plan = planner.plan(planner.read_expanded_config(path), path.name)
    return job_estimates.JobEstimates(plan, accelerators.accelerator_of_name(device))


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_configuration_is_sound_and_every_job_knows_its_memory_and_time(path):
    work = planned(path)
    assert work.plan.runs
    for name, values in work.plan.runs.items():
        validate(settings.Run, values, name)
    for key in work.counted_jobs_from_scratch():
        job = work.estimate(*key)
        # A tokenizer that is given takes none.
        assert job.seconds > 0 or key[0] == "tokenizer", key
        assert job.host_bytes > 2**28, key


def test_every_run_of_the_paper_fits_the_gpu_that_profiles_name():
    profile = yaml.safe_load((ROOT / "workflow/profiles/gpu/config.yaml").read_text())
    work = planned(PAPER, profile["set-resources"]["pretrain"]["accelerator"])
    taken = {run: work.training_estimate(run) for run in work.plan.runs}
    assert len(taken) == 97
    assert [run for run, each in taken.items() if not each.fits or each.devices > 1] == []


def test_memory_grows_for_two_more_tries_and_not_with_every_slice_of_a_time_limit():
    job = run_estimates.JobEstimate(seconds=1.0, host_bytes=1_500_000_001, disk_bytes=0)
    assert [job.memory_mb(n) for n in (1, 2, 3, 4, 24)] == [1501, 3002, 4503, 4503, 4503]


def test_an_evaluation_takes_disk_by_its_windows_and_by_the_losses_that_it_keeps():
    work = planned(ROOT / "workflow/configs/leaderboard.yaml")
    runs = [f"{scenario}/pico/mix/seed0" for scenario in ("text", "twenty")]
    work.plan.evaluations[runs[1]]["token_losses"] = True
    # 64 rows of 64 tokens of 4 and of 20 domains.
    sizes = [work.estimate("evaluate", run).disk_bytes for run in runs]
    assert sizes == [16_384 + 16 * 256, 16_384 + 16 * 1280 + 4 * 64 * 1280]


def test_the_page_has_the_hours_of_the_paper():
    page = (ROOT / "docs/running.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (\d) \| ([\d.]+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert [number for number, *_ in shown] == ["1", "4"]
    runs = [
        f"{scenario}/gpt2-{size}/single-{domain}/seed0"
        for size in ("small", "large")
        for scenario, domain in (("open-glam-news", "news"), ("mc4-en", "en"))
    ]
    for number, *hours in shown:
        text = cost.cost_report([PAPER], devices=[f"tpu-v4:{number}"])
        for run, told in zip(runs, hours, strict=True):
            planned = re.search(rf"^{run} .* ([\d.]+)$", text, re.MULTILINE)[1]
            assert float(told) == pytest.approx(float(planned), rel=0.025)


def bill_of(config, targets, device):
    """Trainings, hours, days of four devices, hours of the longest training, downloads, TiB of them
    and of the disk; and hours of download and packing.
    """
    path = ROOT / f"workflow/configs/{config}.yaml"
    (bill,) = json.loads(
        cost.cost_report([path], devices=[device], targets=targets, format="json")
    )["devices"]
    rules = {rule["rule"]: rule for rule in bill["rules"]}
    nothing = dict.fromkeys(("jobs", "longest_seconds", "disk_bytes"), 0)
    trained, fetched = rules.get("pretrain", nothing), rules.get("download", nothing)
    hours, longest = sum(rule["hours"] for rule in rules.values()), trained["longest_seconds"]
    return (
        trained["jobs"],
        hours,
        max(hours / 4, longest / 3600) / 24,
        longest / 3600,
        fetched["jobs"],
        fetched["disk_bytes"] / 2**40,
        sum(rule["disk_bytes"] for rule in rules.values()) / 2**40,
        (fetched["longest_seconds"] + rules["pack"]["longest_seconds"]) / 3600,
    )


def rounded(numbers):
    return [
        f"{number:,.{digits}f}"
        for number, digits in zip(numbers, (0,) * 5 + (1, 1, 0), strict=True)
    ]


@pytest.mark.slow
def test_the_page_has_the_cost_of_each_table():
    page = (ROOT / "docs/paper-data.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (Tables? [\d and]+|everything) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) == 16
    for name, shown in rows:
        targets = [f"results/paper/tables/table{n}.md" for n in re.findall(r"\d+", name)]
        *told, before = rounded(bill_of("paper", targets, "a100-80gb"))
        assert shown.split(" | ") == told, name
        if name in ("Table 1", "Tables 1 and 2", "Table 2"):
            assert before == ("26" if name == "Table 2" else "52")
    smaller = re.findall(r"^\| `workflow/configs/(.+)\.yaml` \| .*?[a-z] \| (.*) \|$", page, re.M)
    assert [name for name, _ in smaller] == ["gpu-hour", "middle"]
    for name, shown in smaller:
        a100, h100 = (rounded(bill_of(name, (), device)) for device in ("a100-80gb", "h100"))
        assert shown.split(" | ") == [*a100[:2], h100[1], a100[4], a100[6]]


def test_the_page_has_the_budget_of_each_source():
    page = (ROOT / "docs/paper-data.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| ([\d.]+) \|$", page, re.MULTILINE)
    sources = planned(PAPER).plan.sources
    left = {*sources}
    for names, budget, each in rows:
        own = {n for n in sources if n in re.findall(r"[a-z]{2}", names.partition(" (")[0])}
        own = own if not names.startswith("stand-ins") else {n for n in sources if "open" in n}
        assert {sources[name]["bytes"] for name in own} == {int(budget) * 10**9}, names
        tokens = 120_000 * 256 * 1024 / (6 if "sixth" in names or "same" in names else 1)
        assert each == f"{int(budget) * 1e9 / tokens:.1f}", names
        left -= own
    assert left == set()


def test_text_that_no_run_reads_is_not_counted(config):
    values = config()
    values["sources"]["unread"] = values["sources"]["like-en"]
    counted = job_estimates.JobEstimates(
        planner.plan(values, "config.yaml"), accelerators.accelerator_of_name("cpu")
    ).counted_jobs_from_scratch()
    assert {name for rule, name in counted if rule == "download"} == {*config()["sources"]}


def test_a_target_counts_itself_and_what_it_needs():
    def jobs_of(*targets):
        work = job_estimates.JobEstimates(
            planned(PAPER).plan, accelerators.accelerator_of_name("h100"), targets=targets
        )
        return set(work.counted_jobs_from_scratch())

    mix = "mc4-en-hi-de/gpt2-large/mix/seed0"
    packed = {(rule, f"{on}{d}") for d in ("en", "hi", "de")
              for rule, on in (("download", ""), ("pack", "mt5/"))}  # fmt: skip
    trained = packed | {("tokenizer", "mt5"), ("pretrain", mix)}
    # A run by its folder, its manifest, or a file in it.
    for end in ("", "/manifest.json", "/model.safetensors"):
        assert jobs_of(f"results/paper/runs/{mix}{end}") == trained
    # Any file of a table; two share what they need; the database needs all.
    assert jobs_of("results/paper/tables/table1.csv") == jobs_of("results/paper/tables/table1.md")
    both = jobs_of("results/paper/tables/table1.md", "results/paper/tables/table2.md")
    assert len([1 for rule, _ in both if rule == "pretrain"]) == 33
    assert len([1 for rule, _ in jobs_of("results/paper/pike.duckdb") if rule == "pretrain"]) == 97


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu-v4:0", "is 1 or more: tpu-v4:4"),
        ("tpu-v4:8", "a host has at most 4 tpu-v4: ask for 4"),
        ("4xA100", r"--devices: 4xA100: the kind comes first: type a100-40gb:4 or a100-80gb:4$"),
        ("h100x8", r"--devices: h100x8: the kind comes first: type h100:8$"),
        ("4xH10O", r"--devices: 'H10O' is unknown: did you mean 'h100'\?"),
    ],
)
def test_devices_that_there_are_not_are_refused(device, message):
    with pytest.raises(InputError, match=message):
        cost.cost_report([ROOT / "config.yaml"], devices=["cpu", device])


@pytest.mark.parametrize(
    "words",
    [
        "{table} {paper} --devices h100,a100-80gb",
        "--devices h100 {paper} --devices a100-80gb {table}",
    ],
)
def test_targets_and_devices_stand_in_any_order(words, capsys):
    table = "results/paper/tables/table4.md"
    asked = ["plan", *words.format(table=table, paper=f"--config {PAPER}").split()]
    assert __main__.main([*asked, "--format", "json"]) == 0
    bills = json.loads(capsys.readouterr().out)["devices"]
    assert [bill["device"] for bill in bills] == ["h100", "a100-80gb"]
    # Table 4 shows the stand-ins' six corpora, and takes no training.
    jobs_of = {rule["rule"]: rule["jobs"] for rule in bills[0]["rules"]}
    assert (jobs_of["pack"], jobs_of["table"], jobs_of.get("pretrain")) == (6, 1, None)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"results/{TABLE}", f"makes 'results/{TABLE}': did you mean 'results/paper/{TABLE}'?"),
        ("table1", f"did you mean 'results/paper/{TABLE}'?"),
        (f"runs/{MIX}", f"did you mean 'results/paper/runs/{MIX}'?"),
        ("--devices tpu-v4 tpu-v4:4", "no file to make: type --devices tpu-v4,tpu-v4:4"),
        ("h100", "h100: a kind of device, and no file to make: type --devices h100"),
        (
            "--devices cpu mine.yaml",
            f"mine.yaml: a configuration, and no file to make: type --config {PAPER} mine.yaml",
        ),
    ],
)
def test_a_target_that_nothing_makes_is_told_what_to_type(words, told, capsys):
    assert __main__.main(["plan", "--config", str(PAPER), *words.split()]) == 2
    assert capsys.readouterr().err.rstrip().endswith(told)


@pytest.mark.parametrize(
    ("target", "config"),
    [
        ("results/paper/tables/table1.md", "workflow/configs/paper.yaml"),
        ("results/decide/runs/installed", "workflow/configs/decide.yaml"),
        # Begun with files of the user's own.
        ("results/own/tables/table1.md", "mine.yaml more.yaml"),
    ],
)
def test_a_target_in_another_configurations_folder_is_told_that_configuration(
    target, config, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for name in ("config.yaml", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    label = tmp_path / "results/own/experiment.json"
    label.parent.mkdir(parents=True)
    label.write_text(json.dumps({"started_with": ["mine.yaml", "more.yaml"]}))
    assert __main__.main(["plan", target, "--devices", "h100"]) == 2
    assert capsys.readouterr().err == (
        f"pike plan: target of config.yaml: '{target}' is of {config}: type --config {config}\n"
    )


@pytest.mark.parametrize(
    ("cores", "words"),
    [
        # By hand, from the table: hours / cores, but at least the longest training and evaluation.
        (2, "about 13 min on this machine's 2 cores"),
        (1, "about 25 min on this machine's 1 core"),
        (64, "about 2 min on this machine's 64 cores"),
    ],
)
def test_the_time_on_this_machine_stands_beside_the_core_hours(monkeypatch, cores, words):
    monkeypatch.setattr(cost.environment, "affinity_cpu_count", lambda: cores)
    template = [ROOT / "config/config.yaml"]
    assert f"core-hours: {words}; most other" in cost.cost_report(template, devices=["cpu"])
    (bill,) = json.loads(cost.cost_report(template, devices=["cpu"], format="json"))["devices"]
    trained = [rule for rule in bill["rules"] if rule["hours"]]
    hours, longest = (sum(rule[key] for rule in trained) for key in ("hours", "longest_seconds"))
    assert bill["seconds_here"] == pytest.approx(max(3600 * hours / cores, longest))
    assert "this machine's" not in cost.cost_report(template, devices=["h100"])


def test_what_is_refused_is_named_and_not_counted():
    bill = json.loads(cost.cost_report([PAPER], devices=["tpu-v4", "tpu-v4:4"], format="json"))
    one, four = bill["devices"]
    assert (one["processes"], four["processes"]) == (1, 4)
    # 20 bytes for each of 1,028 million parameters, with headroom, leave too little of 32 GiB.
    assert all("/gpt2-large/" in run and "pike" in run for run in one["refused"])
    assert len(one["refused"]) == 5
    assert "gpt2-large takes 32.9 GiB on each of 1 tpu-v4, which have 32 GiB" in next(
        iter(one["refused"].values())
    )
    jobs_of = [{rule["rule"]: rule["jobs"] for rule in bill["rules"]} for bill in (one, four)]
    assert four["refused"] == {}
    for rule in ("pretrain", "evaluate"):
        assert [of[rule] for of in jobs_of] == [97 - 5, 97]
    text = cost.cost_report([PAPER], devices=["tpu-v4"])
    assert "refused, and not counted: run mc4-en-hi/gpt2-large/pike/seed0: model gpt2-" in text
    assert text.endswith("\n  and 2 more")


def test_a_model_of_transformers_is_not_counted_where_it_is_not_trained(tmp_path):
    """No TPU, no blocks that are computed again, no shards; else it is priced as a decoder."""
    config = {"model_type": "llama", "n_layer": 2, "n_embd": 16, "n_head": 2}
    (tmp_path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    values = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    values["models"] = {"nano": {"transformers": str(tmp_path / "config.json")}}
    path = tmp_path / "own.yaml"

    def bills(**training):
        (name,) = values["training"]
        recipe = {name: {**values["training"][name], "length": 64, **training}}
        path.write_text(yaml.safe_dump({**values, "training": recipe}))
        answer = cost.cost_report([path], devices=["cpu", "h100:2", "tpu-v4"], format="json")
        return [(bill["refused"], bill["rules"]) for bill in json.loads(answer)["devices"]]

    cpu, h100, tpu = bills()
    assert (cpu[0], h100[0]) == ({}, {})
    assert {why.partition(": model ")[2] for why in tpu[0].values()} == {
        "nano is one of transformers: device: train it on cpu or cuda"
    }
    assert "pretrain" not in {rule["rule"] for rule in tpu[1]}
    for training, told in (
        ({"length": 128}, "training.length: it reads 64 tokens (max_position_embeddings)"),
        ({"compile": True}, "training.compile: leave it out"),
    ):
        refused, _ = bills(**training)[0]
        assert refused
        assert all(why.endswith(told) for why in refused.values())


def test_the_tpu_profile_trains_the_papers_large_model_on_four_chips_with_recomputation():
    chosen = yaml.safe_load((ROOT / "workflow/profiles/tpu/config.yaml").read_text())
    profile = workflow_profile.read_profile(chosen["set-resources"], {})
    plan = planned(PAPER).plan
    takes = requested_resources.RuleResources(plan, profile)
    arguments = takes.process_and_sharding_options(of_run(MIX), None)
    assert arguments == ["--processes", "4", "--recompute"]
    work = job_estimates.JobEstimates(plan, accelerators.accelerator_of_name("tpu-v4"), 4)
    # Twice the expected time, and ten minutes.
    expected = 10 + 2 * work.estimate("pretrain", MIX).seconds / 60
    booked = takes.resources("pretrain")["runtime"](of_run(MIX), attempt=1)
    assert booked == pytest.approx(expected, abs=1)


def test_what_a_plan_does_not_know_is_assumed_and_said(config, tmp_path):
    values = config()
    values["results"] = str(tmp_path / "nowhere")
    values["methods"]["random"] = {"rule": "pike_mixing.rules.static:Random"}
    values["tokenizers"]["installed"] = {"kind": "file", "path": str(tmp_path / "none.model")}
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(values))
    damaged = tmp_path / "nowhere" / "tokenizers" / "symbols.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{", encoding="utf-8")
    text = cost.cost_report([path], devices=["cpu"])
    assert "\nrule pike_mixing.rules.static:Random: `pike plan` does not load your class:" in text
    assert "\ntokenizer installed: its file is not here: 256,000 pieces are assumed" in text


def test_the_size_of_a_local_source_is_that_of_its_files(config, tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(300))
    (tmp_path / "b.jsonl.gz").write_bytes(bytes(100))
    values = config()
    source = {"kind": "local", "files": [f"{tmp_path}/*"], "licence": "mine"}
    for further, size in (
        ({}, 700),
        ({"bytes": 50}, 50),
        ({"files": ["none"]}, job_estimates.SMALL_SOURCE),
    ):
        values["sources"]["code"] = source | further
        plan = planner.plan(values, "mine.yaml")
        work = job_estimates.JobEstimates(plan, accelerators.accelerator_of_name("cpu"))
        assert work.estimate("download", "code").disk_bytes == size
        assert work.estimate("pack", "installed/code").disk_bytes == size


def test_the_bill_tells_seeds_and_runs_that_serve_others_apart():
    text = cost.cost_report([PAPER], devices=["h100"])
    assert re.search(r"^rule +jobs +GPU-hours .*^pretrain +97 ", text, re.M | re.S)
    shown = dict(
        re.findall(r"^  (seed \d|to choose settings or mixtures): (\d+) runs, ", text, re.M)
    )
    # Tables 11 and 12 have seeds of their own; grids of six pairs in three scenarios.
    assert shown == {
        "seed 0": "69",
        "seed 1": "6",
        "seed 2": "4",
        "to choose settings or mixtures": "18",
    }
