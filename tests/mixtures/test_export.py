"""`export`: each trainer's files say the shares, as its own code or its documented schema reads."""

import ast
import itertools
import json
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import pytest
import yaml
from repository import ROOT

from pike_mixing.errors import InputError
from pike_mixing.mixtures import export
from pike_mixing.mixtures.formats import FORMATS

SHARES = {"web": 1 / 3, "tiny": 1.25e-7, "código": 2 / 3 - 1.25e-7, "none": 0.0}
ROWS = 10_000_000
READ = {name: share for name, share in SHARES.items() if share}


@pytest.fixture
def paths(tmp_path):
    """A folder for each domain, with a file of rows that name it."""
    for name in SHARES:
        (tmp_path / name).mkdir()
        rows = [json.dumps({"text": name})] * 50
        (tmp_path / name / "rows.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return {name: str(tmp_path / name) for name in SHARES}


def exported(trainer, paths):
    plan = export.of_shares(SHARES, "--mixture")
    return export.export(trainer, plan, paths, rows=ROWS)


def run_with(text, **modules):
    """What a Python file defines, where these modules stand for its imports."""
    made = {}
    for place, names in modules.items():
        module = types.ModuleType(place)
        vars(module).update(names)
        made[place.replace("__", ".")] = module
    before = {name: sys.modules.get(name) for name in made}
    try:
        sys.modules.update(made)
        return defined(text)
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def defined(text):
    """The names of a Python file."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mixture.py").write_text(text, encoding="utf-8")
        return runpy.run_path(f"{folder}/mixture.py")


def kept(**fixed):
    """A class that keeps its arguments."""
    return lambda *positional, **named: types.SimpleNamespace(given=positional, **fixed, **named)


def of_interleave(files):
    modules = {
        "interleave_datasets": kept(),
        "load_dataset": lambda path, split, streaming: path,
    }
    mixed = run_with(files["mixture.py"], datasets=modules)["mixed"]
    return zip(mixed.given[0], mixed.probabilities, strict=True)


def of_pairs(words):
    return zip(words[1::2], map(float, words[::2]), strict=True)


def of_energon(files):
    blend = yaml.safe_load(files["metadataset.yaml"])["splits"]["train"]["blend"]
    assert {one["subflavors"]["domain"] for one in blend} == set(READ)
    return [(one["path"], one["weight"]) for one in blend]


def of_olmo(files):
    sources = yaml.safe_load(files["source_mixture.yaml"])["sources"]
    assert {one["source_name"] for one in sources} == set(READ)
    return [(one["paths"][0], one["target_ratio"]) for one in sources]


def of_torchtitan(files):
    data = {
        "ConcatThenSplitPackingConfig": kept(),
        "DatasetMixConfig": kept(),
        "IndexedJsonlSource": types.SimpleNamespace(Config=kept()),
        "SingleDatasetConfig": kept(),
        "WeightedDataset": kept(),
    }
    text = {"TextProcessor": types.SimpleNamespace(Config=kept())}
    modules = {"torchtitan__components__data": data, "torchtitan__hf_datasets__text_datasets": text}
    mixed = run_with(files["mixture.py"], **modules)["mixture"]
    for one in mixed.datasets:
        yield one.dataset.dataset.source.patterns[0], one.weight


def of_levanter(files):
    data = yaml.safe_load(files["data.yaml"])["data"]
    assert data["components"].keys() == data["train_weights"].keys() == READ.keys()
    for name, one in data["components"].items():
        assert one["source"]["type"] == "url"
        yield one["source"]["train_urls"][0], data["train_weights"][name]


def of_litdata(files):
    modules = {
        "CombinedStreamingDataset": kept(),
        "StreamingDataset": lambda path, shuffle: path,
    }
    mixed = run_with(files["mixture.py"], litdata=modules)["mixed"]
    assert not mixed.iterate_over_all, "it refuses weights otherwise"
    return zip(mixed.given[0], mixed.weights, strict=True)


def of_streaming(files):
    modules = {"Stream": kept(), "StreamingDataset": kept()}
    streams = run_with(files["mixture.py"], streaming=modules)["streams"]
    return [(one.local, one.proportion) for one in streams]


def of_axolotl(files):
    for one in yaml.safe_load(files["datasets.yaml"])["datasets"]:
        yield one["path"], int(re.fullmatch(r"train\[:(\d+)\]", one["split"])[1]) / ROWS


def of_llamafactory(files):
    values = yaml.safe_load(files["mixture.yaml"])
    assert values["mix_strategy"] == "interleave_over"
    names = [name.strip() for name in values["dataset"].split(",")]
    info = json.loads(files["dataset_info.json"])
    shares = map(float, values["interleave_probs"].split(","))
    return zip([info[name]["file_name"] for name in names], shares, strict=True)


def of_swift(files):
    words = shlex.split(files["arguments.sh"])
    flags = [n for n, word in enumerate(words) if word.startswith("--")] + [len(words)]
    values = {words[a]: words[a + 1 : b] for a, b in itertools.pairwise(flags)}
    return zip(values["--dataset"], map(float, values["--interleave_prob"]), strict=True)


SCHEMAS = {
    "interleave-datasets": of_interleave,
    "megatron-lm": lambda files: of_pairs(files["blend.txt"].split()),
    "megatron-energon": of_energon,
    "olmo-core": of_olmo,
    "torchtitan": of_torchtitan,
    "levanter": of_levanter,
    "litdata": of_litdata,
    "mosaicml-streaming": of_streaming,
    "axolotl": of_axolotl,
    "llamafactory": of_llamafactory,
    "ms-swift": of_swift,
    "nemo": lambda files: of_pairs(json.loads(files["paths.json"])),
}


@pytest.mark.parametrize("trainer", FORMATS)
def test_shares_and_paths_come_back_by_the_documented_schema(trainer, paths):
    files, remarks = exported(trainer, paths)
    read = dict(SCHEMAS[trainer](files))
    assert read == pytest.approx({paths[name]: share for name, share in READ.items()}, abs=1e-7)
    assert sum(read.values()) == pytest.approx(1, abs=1e-12)
    assert "left out, as their share is 0: none" in remarks
    for name, text in files.items():
        if name.endswith(".py"):
            ast.parse(text)


def by_datasets(files, paths):
    datasets = pytest.importorskip("datasets")
    space = defined(files["mixture.py"])
    assert isinstance(space["mixed"], datasets.IterableDataset)
    first = [row["text"] for row in space["mixed"].take(20)]
    assert set(first) <= set(READ)
    return zip(space["paths"].values(), space["mixed"]._ex_iterable.probabilities, strict=True)


def by_axolotl(files, paths):
    datasets = pytest.importorskip("datasets")
    for one in yaml.safe_load(files["datasets.yaml"])["datasets"]:
        rows = datasets.load_dataset(one["path"], split=one["split"])
        count = int(one["split"][7:-1])
        assert len(rows) == min(count, 50), "it takes no more rows than there are"
        yield one["path"], count / ROWS


OWN = {"interleave-datasets": by_datasets, "axolotl": by_axolotl}
"""Trainers whose own code is among the packages of the tests."""


@pytest.mark.slow
@pytest.mark.parametrize("trainer", OWN)
def test_the_trainers_own_code_reads_the_shares(trainer, paths, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    files, _ = exported(trainer, paths)
    read = dict(OWN[trainer](files, paths))
    assert read == pytest.approx({paths[name]: share for name, share in READ.items()}, abs=1e-6)


SCHEDULE = {
    "rule": "schedule",
    "points": [{"web": 1, "code": 1}, {"web": 1, "code": 3}, {"web": 1, "code": 0}],
    "at": [0, 0.5, 0.9],
}


def test_stages_are_told_in_steps(said, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(SCHEDULE), encoding="utf-8")
    options = ["--from", tmp_path / "s.json", "--path", "*=/data/*", "web=/w", "--steps", "200"]
    staged = yaml.safe_load(said("export", "levanter", *options))["data"]
    assert staged["train_weights"] == [
        [0, {"web": 0.5, "code": 0.5}], [100, {"web": 0.25, "code": 0.75}], [180, {"web": 1.0}],
    ]  # fmt: skip
    assert staged["components"]["web"]["source"]["train_urls"] == ["/w"]
    assert main_err(said, "megatron-lm", options, tmp_path / "out")[-3:] == [
        "stage-1: steps 0 to 100 (100 steps), from the start, with the learning-rate schedule of "
        "the whole run",
        "stage-2: steps 100 to 180 (80 steps), from the checkpoint of stage-1, with the "
        "learning-rate schedule of the whole run",
        "stage-3: steps 180 to 200 (20 steps), from the checkpoint of stage-2, with the "
        "learning-rate schedule of the whole run",
    ]
    assert (tmp_path / "out/stage-2/blend.txt").read_text() == "0.25 /w\n0.75 /data/code\n"
    assert (tmp_path / "out/stage-3/blend.txt").read_text() == "1.0 /w\n"


def main_err(said, trainer, options, out):
    """What a command writes on the standard error, in a process of its own."""
    words = [sys.executable, "-m", "pike_mixing", "export", trainer, *map(str, options)]
    done = subprocess.run([*words, "--out", out], capture_output=True, text=True, check=True)
    return [line.partition(": ")[2] for line in done.stderr.splitlines()]


def test_what_fit_and_advise_write_is_read(said, tmp_path):
    table = tmp_path / "s.csv"
    rows = ["weight/web,weight/code,loss/a", "1,0,2", "0.5,0.5,1", "0.25,0.75,1.5"]
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    fit = said("fit", "best", table, "--target", "a", "--format", "json", "--resamples", "0")
    advised = [{"rule": {"rule": "mix"}, "shares": {"web": 0.5, "code": 0.5}}]
    drawn = [{"rule": {"rule": "pike", "every": 4}, "shares": {"web": 0.5, "code": 0.5}}]
    for n, text in enumerate((fit, json.dumps(advised), json.dumps(drawn), '{"web":2,"code":2}')):
        (tmp_path / f"{n}.json").write_text(text, encoding="utf-8")
        plan = export.of_file(tmp_path / f"{n}.json")
        assert plan.shares == ((0.5, 0.5),)
        assert bool(plan.warnings) == (n == 2)


def test_caps_are_in_the_shares_and_their_absence_is_told(tmp_path):
    # Of 100 tokens web may be read 2 x 10: a fifth, in place of a half.
    settings = {
        "rule": "schedule", "points": [{"web": 1, "code": 1}], "epochs": 2, "steps": 10,
        "tokens_by_domain": {"web": 10, "code": 1000}, "budget_tokens": 100,
    }  # fmt: skip
    plan = export.of_rule(settings, "s")
    np.testing.assert_allclose(plan.shares, [[0.2, 0.8]], rtol=1e-5)
    _, remarks = export.export("nemo", plan, {"web": "/w", "code": "/c"}, epochs=2)
    told = " ".join(remarks)
    assert "the trainer itself does not hold it" in told
    assert "the cap of 2 epochs is not written" in told
    files, remarks = export.export("olmo-core", plan, {"web": "/w", "code": "/c"}, epochs=2)
    assert "max_repetition_ratio: 2\n" in files["source_mixture.yaml"]
    assert "is not written" not in " ".join(remarks)


MIXTURE = ["--mixture", "web=1", "code=1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nemo", *MIXTURE], "--path: domain 'web' has none: give web=/its/data"),
        (["nmo", *MIXTURE], "trainer: 'nmo' is unknown: did you mean 'nemo'?"),
        (["nemo"], "--mixture: give shares"),
        (["nemo", "--mixture", "web=-1"], "--mixture.web: must not be negative"),
        (["nemo", "--mixture", "web=0"], "--mixture"),
        (["axolotl", *MIXTURE, "--path", "*=/d"], "--rows: axolotl has no weights"),
        (["megatron-lm", *MIXTURE, "--path", "*=/my data/*"], "takes ' ' in a path or name"),
        (["ms-swift", *MIXTURE, "--path", "*=/d#1"], "takes '#' in a path or name"),
        (["llamafactory", "--mixture", "a,b=1", "--path", "*=/d"], "takes ',' in a path or name"),
        (["nemo", *MIXTURE, "--path", "wb=/d"], "--path: 'wb' is unknown: did you mean 'web'?"),
        (["nemo", *MIXTURE, "--path", "*=/d", "--epochs", "0.5"], "--epochs: 0.5 must be at least"),
        (["nemo", "--from", "none.json"], "--from: none.json cannot be read"),
    ],
)
def test_what_cannot_be_told_is_refused(said, words, message):
    assert message in said("export", *words, code=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({**SCHEDULE, "between": "linear"}, "between: no trainer's file has a linear ramp"),
        ({**SCHEDULE, "objective": {"web": 1, "code": 1}}, "objective: no trainer's file sets"),
        ({**SCHEDULE, "unit": "tokens", "at": [0, 5, 9]}, "--tokens: give those of the run"),
        ({"rule": "scale-free-pike"}, "rule 'scale-free-pike': its weights follow"),
        ({"rule": "schedule"}, "points: give the weights of each stage"),
        ({"rule": "fixed", "mixture": "found"}, "give its shares as weights_by_domain"),
        ({**SCHEDULE, "unit": "steps", "at": [0, 5, 300]}, "at: 300 lies behind the end"),
    ],
)
def test_rules_that_no_file_can_say_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        export.of_rule(settings, "f", steps=200)


def test_a_schedule_needs_its_length():
    with pytest.raises(InputError, match="--steps: give those of the run"):
        export.of_rule(SCHEDULE, "f")
    plan = export.of_rule(SCHEDULE, "f", steps=200)
    with pytest.raises(InputError, match="--steps: give those of the run"):
        export.export("levanter", plan, {"web": "/w", "code": "/c"})


def test_the_page_lists_every_format():
    page = (ROOT / "docs" / "mixtures.md").read_text(encoding="utf-8")
    lines = [f"| `{n}` | {f.trainer} | {f.counts} | {f.checked} |" for n, f in FORMATS.items()]
    assert "\n".join(lines) in page
