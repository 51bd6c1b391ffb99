"""`export`: each trainer's files say the shares, as its own code or its documented schema reads."""

import ast
import gzip
import itertools
import json
import re
import runpy
import shlex
import sys
import tarfile
import tempfile
import types
from collections import Counter
from pathlib import Path
from unittest import mock

import documented
import numpy as np
import pytest
import yaml
from repository import ROOT

from pike_mixing import Delivered, method_registry
from pike_mixing.__main__ import EXAMPLES, OF_PIKE, main
from pike_mixing.errors import InputError
from pike_mixing.finders import saved_predictors
from pike_mixing.mixtures import export
from pike_mixing.mixtures.trainer_formats import FORMATS
from pipeline import cli
from pipeline.data.local_files import LocalSource

SHARES = {"web": 1 / 3, "tiny": 1.25e-7, "código": 2 / 3 - 1.25e-7, "none": 0.0}
ROWS = 10_000_000
READ = {name: share for name, share in SHARES.items() if share}
PATHS = {name: f"/data/{name}" for name in SHARES}


def run_with(text, **modules):
    """What a Python file defines, where these modules stand for its imports."""
    made = {}
    for place, names in modules.items():
        module = types.ModuleType(place)
        vars(module).update(names)
        made[place.replace("__", ".")] = module
    with mock.patch.dict(sys.modules, made):
        return defined(text)


def defined(text):
    """The names of a Python file."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mixture.py").write_text(text, encoding="utf-8")
        return runpy.run_path(f"{folder}/mixture.py")


def kept(*positional, **named):
    """What stands for a class, and keeps its arguments."""
    return types.SimpleNamespace(given=positional, **named)


def of_interleave(files):
    # A text with what a data set has beside its rows.
    loaded = type("Loaded", (str,), {"info": types.SimpleNamespace(builder_name="json")})
    modules = {
        "IterableDataset": None,
        "interleave_datasets": kept,
        "load_dataset": lambda path, split, streaming: loaded(path),
    }
    mixed = run_with(files["mixture.py"], datasets=modules, fsspec={})["mixture"]()
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
        "ConcatThenSplitPackingConfig": kept,
        "DatasetMixConfig": kept,
        "IndexedJsonlSource": types.SimpleNamespace(Config=kept),
        "SingleDatasetConfig": kept,
        "WeightedDataset": kept,
    }
    text = {"TextProcessor": types.SimpleNamespace(Config=kept)}
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
        "CombinedStreamingDataset": kept,
        "StreamingDataset": lambda path, shuffle: path,
    }
    mixed = run_with(files["mixture.py"], litdata=modules)["mixed"]
    assert not mixed.iterate_over_all, "it refuses weights otherwise"
    return zip(mixed.given[0], mixed.weights, strict=True)


def of_streaming(files):
    modules = {"Stream": kept, "StreamingDataset": kept}
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
    "transformers": of_interleave,
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
def test_shares_and_paths_come_back_by_the_documented_schema(trainer):
    plan = export.plan_of_shares(SHARES, "--mixture")
    files, remarks = export.export(trainer, plan, PATHS, rows=ROWS)
    read = dict(SCHEMAS[trainer](files))
    assert read == pytest.approx({PATHS[name]: share for name, share in READ.items()}, abs=1e-7)
    assert sum(read.values()) == pytest.approx(1, abs=1e-12)
    assert "left out, as their share is 0: none" in remarks
    for name, text in files.items():
        if name.endswith(".py"):
            ast.parse(text)


def prepare_energon(paths):
    """A data set of 60 samples in each folder, as `energon prepare` makes it."""
    from megatron.energon.epathlib import EPath
    from megatron.energon.flavors.webdataset import BaseWebdatasetFactory

    for path in map(Path, paths.values()):
        if (path / ".nv-meta").exists():
            continue
        with tarfile.open(path / "rows.tar", "w") as archive:
            for n in range(60):
                archive.addfile(tarfile.TarInfo(f"{n}.txt"))
        options = {"split_parts_ratio": [("train", 1.0)], "tar_index_only": False}
        place = EPath(str(path))
        BaseWebdatasetFactory.prepare_dataset(place, ["rows.tar"], workers=1, **options)
        kind = {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}
        (path / ".nv-meta" / "dataset.yaml").write_text(json.dumps(kind), encoding="utf-8")


# Two stages of 50 steps with 8 rows.
STAGES = {
    "rule": "schedule",
    "points": [{"web": 0.63, "code": 0.37}, {"web": 0.21, "code": 0.79}],
    "at": [0, 0.5],
}
STAGE_ROWS = 400


def of_ours():
    """Rows of each domain in both stages, in a loop of ours."""
    torch = pytest.importorskip("pike_mixing.torch")
    settings = {name: value for name, value in STAGES.items() if name != "rule"}
    rule = method_registry.build_method("schedule", settings | {"steps": 100}, "test")
    parts = {name: list(range(9)) for name in ("web", "code")}
    mixing = torch.Mixing(rule, torch.MixedDataset(parts, 8, steps=100), rounding="systematic")
    counts = np.zeros((2, 2))
    for step, batch in enumerate(mixing.data_loader()):
        mixing.record(batch.float())
        mixing.end_step()
        made = mixing.metrics()
        counts[step // 50] += [made[f"mixing/count/{name}"] for name in parts]
    return counts


def run_megatron(files, paths):
    utils = pytest.importorskip("megatron.core.datasets.utils")
    helpers = pytest.importorskip("megatron.core.datasets.helpers")
    words = next(iter(files.values()))
    words = json.loads(words) if words.startswith("[") else words.split()
    read, weights = utils.get_blend_from_list(words)
    assert read == list(paths.values())
    place, sample = np.zeros(STAGE_ROWS, np.int16), np.zeros(STAGE_ROWS, np.int64)
    helpers.build_blending_indices(place, sample, weights, len(weights), STAGE_ROWS, False)
    return np.bincount(place, minlength=2)


def run_grain(files, paths):
    grain = pytest.importorskip("grain")
    shares = dict(of_torchtitan(files))
    parts = [grain.MapDataset.source([k] * 9).repeat() for k in range(len(shares))]
    mixed = grain.MapDataset.mix(parts, weights=list(shares.values()))
    return np.bincount([mixed[n] for n in range(STAGE_ROWS)], minlength=2)


def run_axolotl(files, paths):
    datasets = pytest.importorskip("datasets")
    given = yaml.safe_load(files["datasets.yaml"])["datasets"]
    # axolotl joins what each split holds.
    return [len(datasets.load_dataset(one["path"], split=one["split"])) for one in given]


def run_interleaved(files, paths):
    pytest.importorskip("datasets")
    mixed = defined(files["mixture.py"])["mixture"]()
    names = [row["text"] for row in mixed.take(STAGE_ROWS)]
    return [names.count(name) for name in ("web", "code")]


def run_by_names(files, paths):
    """As LlamaFactory and ms-swift call `interleave_datasets` with what they read."""
    datasets = pytest.importorskip("datasets")
    shares = dict((of_llamafactory if "mixture.yaml" in files else of_swift)(files))
    parts = [datasets.load_dataset(p, split="train", streaming=True) for p in shares]
    mixed = datasets.interleave_datasets(
        parts, list(shares.values()), seed=1, stopping_strategy="all_exhausted"
    )
    names = [row["text"] for row in mixed.take(STAGE_ROWS)]
    return [names.count(name) for name in ("web", "code")]


def run_energon(files, paths):
    energon = pytest.importorskip("megatron.energon")
    prepare_energon(paths)
    cookers = [energon.Cooker(lambda sample: sample)]
    encoder = type("Encoder", (energon.TaskEncoder,), {"cookers": cookers})()
    place = Path(paths["web"]).parent / "metadataset.yaml"
    place.write_text(files["metadataset.yaml"], encoding="utf-8")
    mixed = energon.get_train_dataset(
        str(place), batch_size=None, shuffle_buffer_size=None, max_samples_per_sequence=None,
        worker_config=energon.WorkerConfig(rank=0, world_size=1, num_workers=0),
        task_encoder=encoder,
    )  # fmt: skip
    drawn = itertools.islice(energon.get_loader(mixed), STAGE_ROWS)
    names = [sample["__subflavors__"]["domain"] for sample in drawn]
    return [names.count(name) for name in ("web", "code")]


RUNS = {
    "megatron-lm": (run_megatron, True),
    "nemo": (run_megatron, True),
    "torchtitan": (run_grain, True),
    "axolotl": (run_axolotl, True),
    "transformers": (run_interleaved, False),
    "llamafactory": (run_by_names, False),
    "ms-swift": (run_by_names, False),
    "megatron-energon": (run_energon, False),
}
"""The mixing code of each trainer that runs here, and whether it counts or draws its rows."""


@pytest.mark.slow
@pytest.mark.parametrize("trainer", RUNS)
def test_two_stages_have_the_counts_of_the_schedule(trainer, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    paths = {name: str(tmp_path / name) for name in ("web", "code")}
    for name, path in paths.items():
        Path(path).mkdir()
        lines = (json.dumps({"text": name}) + "\n") * 900
        (Path(path) / "rows.jsonl").write_text(lines, encoding="utf-8")
    plan = export.plan_of_rule(STAGES, "s", steps=100)
    files, _ = export.export(trainer, plan, paths, steps=100, rows=2 * STAGE_ROWS)
    run, counts_exactly = RUNS[trainer]
    for stage, ours_K in enumerate(of_ours(), 1):
        place = f"stage-{stage}/"
        own = {n.removeprefix(place): t for n, t in files.items() if n.startswith(place)}
        # What is drawn lies within four standard deviations, sqrt(n p (1 - p)).
        spread = 1 if counts_exactly else 4 * np.sqrt(ours_K.prod() / STAGE_ROWS)
        came_K = run(own, paths)
        assert sum(came_K) == STAGE_ROWS
        np.testing.assert_allclose(came_K, ours_K, atol=spread, rtol=0)
    np.testing.assert_allclose(of_ours(), [[252, 148], [84, 316]], atol=1)


class Letters:
    """A tokenizer: a token for each character."""

    eos_token_id = 0

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [*([-1] * add_special_tokens), *map(ord, text)]}


@pytest.mark.slow
def test_a_mixture_of_files_packs_them_and_its_shares_are_of_tokens(tmp_path, said, monkeypatch):
    datasets = pytest.importorskip("datasets")
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # Documents of 9, 400 and 3,000 characters, one of them null.
    tickets = "".join(json.dumps({"text": f"{n:09d}"}) + "\n" for n in range(4000))
    (tmp_path / "tickets.jsonl.gz").write_bytes(gzip.compress(tickets.encode()))
    (tmp_path / "code").mkdir()
    for part in range(2):
        table = pa.table(
            {"content": [None, *(["x = 1\n\n" * 57 + "\n"] * 100)], "stars": [1] * 101}
        )
        pa.parquet.write_table(table, tmp_path / "code" / f"{part}.parquet")
    (tmp_path / "web").mkdir()
    for part in range(9):
        (tmp_path / "web" / f"{part}.txt").write_text("One line.\n\nAnd one.\n" * 150)
    shares = {"tickets": 0.2, "code": 0.3, "web": 0.5}
    given = [f"{name}={share}" for name, share in shares.items()]
    files = {"tickets": "tickets.jsonl.gz", "code": "code/*.parquet", "web": "web/*.txt"}
    paths = [f"{name}={tmp_path / file}" for name, file in files.items()]
    words = ["transformers", "--mixture", *given, "--path", *paths]
    space = defined(said("export", *words, "--field", "code=content"))
    mixed = space["mixture"](Letters(), length=64)
    assert isinstance(mixed, datasets.IterableDataset)
    rows = list(mixed.take(1600))
    assert {len(row["input_ids"]) for row in rows} == {64}
    assert all(row["labels"] == row["input_ids"] for row in rows)
    # All of the text comes, whole and in order, an end behind each document.
    for name, text in (
        ("tickets", "".join(f"{n:09d}\0" for n in range(4000))),
        ("code", ("x = 1\n\n" * 57 + "\n\0") * 200),
        ("web", ("One line.\n\nAnd one.\n" * 150 + "\0") * 9),
    ):
        came = [chr(i) for row in rows if row["domain"] == name for i in row["input_ids"]]
        assert "".join(came[: len(text) // 64 * 64]) == text[: len(text) // 64 * 64][: len(came)]
    delivered = Delivered(shares)
    batches = [rows[n : n + 8] for n in range(0, 1600, 8)]
    assert len([*delivered.watch(batches)]) == 200
    report = delivered.report()
    assert report.findings == report.unjudged == ()
    np.testing.assert_allclose(report.tokens_K / report.tokens_K.sum(), [0.2, 0.3, 0.5], atol=0.05)
    # A wrong field, too little text and a tokenizer without an end are said.
    module = said("export", *words, "--field", "code=content")
    for field in ("text", "stars"):
        wrong = defined(module.replace('"content"', f'"{field}"'))["mixture"]
        with pytest.raises(
            ValueError, match=r"code: (no field 'text' but content|'stars' is no text)"
        ):
            wrong(Letters())
    with pytest.raises(
        ValueError, match=r"4,000 documents .* have 40,000 tokens, fewer than the 99,999"
    ):
        list(space["mixture"](Letters(), length=99_999).take(9))
    monkeypatch.setattr(Letters, "eos_token_id", None)
    with pytest.raises(ValueError, match="has no eos_token"):
        space["mixture"](Letters())


def by_mixture(path, field, document="file", **options):
    pytest.importorskip("datasets")
    plan, paths = export.plan_of_shares({"web": 1}, "--mixture"), {"web": str(path)}
    files, _ = export.export("transformers", plan, paths, fields={"web": field})
    texts = []

    def tokenizer(text, add_special_tokens):
        texts.append(text)
        return {"input_ids": [len(texts) - 1]}

    tokenizer.eos_token_id = -1
    module = files["mixture.py"].replace('DOCUMENT = "file"', f"DOCUMENT = {document!r}")
    rows = defined(module)["mixture"](tokenizer, length=2, **options)
    return [texts[row["input_ids"][0]] for row in rows]


def by_script(path, field, **options):
    pytest.importorskip("transformers")
    space = runpy.run_path(str(ROOT / "examples" / "trainers" / "from_text.py"))
    return [*space["documents"](str(path), field, **options)]


def by_workflow(path, field, **settings):
    source = LocalSource(files=(str(path),), field=field, **settings)
    return [document.text for document in source.read(Counter(), [])]


TRAIN = """
class AutoTokenizer:
    eos_token_id = 0
    from_pretrained = classmethod(lambda cls, name: cls())

    def __call__(self, text, add_special_tokens):
        return {"input_ids": [*map(ord, text)]}


def Trainer(model, args, train_dataset):
    return {row["domain"] for row in train_dataset.take(20)}


model = args = None
"""


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), documented.tried("exported"))
def test_the_pages_module_is_found_by_a_training_script(page, command, said, tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # Rows must not wait where a domain ends, begins again or is left half read.
    pauses = []
    clock = types.SimpleNamespace(sleep=pauses.append)
    monkeypatch.setattr("datasets.iterable_dataset.time", clock)
    text, here = "words of a document " * 5000, tmp_path / "training"
    for folder in (here, tmp_path / "data/code", tmp_path / "data/web"):
        folder.mkdir(parents=True)
    tickets = f"{json.dumps({'text': text})}\n".encode()
    (tmp_path / "data/tickets.jsonl.gz").write_bytes(gzip.compress(tickets))
    table = pa.table({"content": [text], "text": [text]})
    for folder in ("code", "web"):
        pa.parquet.write_table(table, tmp_path / f"data/{folder}/0.parquet")
        (tmp_path / f"data/{folder}/0.jsonl").write_bytes(tickets)
        (tmp_path / f"data/{folder}/0.txt").write_text(text)
    monkeypatch.chdir(here)
    words = shlex.split(command.replace("=/data/", f"={tmp_path}/data/"))
    said(*words[1:])
    (script,) = (b for b in documented.blocks("docs/mixtures.md", "text") if "import mixture" in b)
    train = here / words[words.index("--out") + 1] / "train.py"
    train.write_text(TRAIN + script, encoding="utf-8")
    # As where a script is started, from elsewhere too.
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(train.parent)
    monkeypatch.delitem(sys.modules, "mixture", raising=False)
    came = runpy.run_path(str(train))["trainer"]
    assert sorted(came) == sorted(re.findall(r"(\w+)=\S*/data/", " ".join(words)))
    assert pauses == []


NESTED = [
    {"id": 1, "meta": {"text": "one", "a.b": {"c": "x"}}, "x.y": "p", "x": {"y": "no"}},
    {"id": 2, "meta": None, "x.y": None, "x": None},
    {"id": 3, "meta": {"text": "two", "a.b": None}, "x.y": "q", "x": {"y": "no"}},
]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("texts_by", [by_workflow, by_mixture, by_script])
def test_a_field_means_the_same_on_every_way_to_a_trainer(tmp_path, texts_by, suffix):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / f"rows.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in NESTED))
    else:
        pa.parquet.write_table(pa.Table.from_pylist(NESTED), path)
    found = {"meta.text": ["one", "two"], "meta.a.b.c": ["x"], "x.y": ["p", "q"]}
    for field, texts in found.items():
        assert texts_by(path, field) == texts
    for field in ("meta.title", "meta.", "id.text", "meta.text.en"):
        with pytest.raises((InputError, ValueError, SystemExit), match=r"no (field|column) "):
            texts_by(path, field)
    for field in ("meta", "id"):
        with pytest.raises(
            (InputError, ValueError, SystemExit), match=r"no text but|not a text|cast"
        ):
            texts_by(path, field)


@pytest.mark.parametrize("name", ["*.jsonl", "*.jsonl.gz", "*.parquet", "*.csv", "*.txt", "a.csv"])
def test_a_path_that_fits_no_file_is_named(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"web: no file fits .*{re.escape(name)}: set it"):
        by_mixture(tmp_path / name, "text")


@pytest.mark.slow
@pytest.mark.parametrize("texts_by", [by_mixture, by_script])
def test_a_large_text_file_is_cut_at_white_space(tmp_path, texts_by):
    # 1,500,000 characters in words of ten, then as many in one word.
    text = "ninechars " * 150_000 + "é" * 1_500_000
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    pieces = texts_by(tmp_path / "*.txt.gz", "text")
    assert "".join(pieces) == text
    assert [*map(len, pieces)] == [1_000_000, 500_000, 1_000_000, 500_000]
    (tmp_path / "b.txt").write_text("b" * 1_000_000)
    assert [*map(len, texts_by(tmp_path / "b.txt", "text"))] == [1_000_000]
    # Line ends are white space, too.
    (tmp_path / "c.txt").write_text("x" * 999_990 + "\n" + "y" * 20)
    assert [*map(len, texts_by(tmp_path / "c.txt", "text"))] == [999_991, 20]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "texts"),
    [
        ("file", ["one\n\ntwo\nlines\n \nthree  \n\n", "four"]),
        ("paragraphs", ["one", "two\nlines", "three  ", "four"]),
        ("lines", ["one", "two", "lines", "three  ", "four"]),
        ("7 characters", ["one\n\n", "two\n", "lines\n ", "\nthree ", "four"]),
    ],
)
def test_a_document_of_a_text_file_is_that_of_the_workflow(tmp_path, document, texts):
    (tmp_path / "a.txt").write_text(texts_of_a := "one\n\ntwo\nlines\n \nthree  \n\n")
    (tmp_path / "b.txt").write_text("four")
    path = tmp_path / "*.txt"
    assert by_mixture(path, "text", document) == texts
    assert by_workflow(path, "text", documents=document) == texts
    (tmp_path / "a.txt").write_bytes(texts_of_a.replace("\n", "\r\n").encode())
    if document != "7 characters":
        assert by_mixture(path, "text", document) == texts


@pytest.mark.slow
@pytest.mark.parametrize("word", ["paragraph", "0 characters", 7])
def test_other_words_and_folders_of_text_are_refused(tmp_path, said, word, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with pytest.raises(ValueError, match=f"DOCUMENT: {word!r} is unknown: write .*paragraphs"):
        by_mixture(tmp_path / "a.txt", "text", word)
    words = ["transformers", "--mixture", "web=1", "--path", f"web={tmp_path}/"]
    assert f"name the files: 'web={tmp_path}/*.txt'" in said("export", *words, code=2)
    (tmp_path / "a.txt").rename(tmp_path / "a.text")
    module = said("export", *words)
    (tmp_path / "a.text").rename(tmp_path / "a.txt")
    with pytest.raises(ValueError, match=rf"holds text files: set '{tmp_path}/\*\.txt' in"):
        defined(module)["mixture"]()


@pytest.mark.slow
@pytest.mark.parametrize("texts_by", [by_mixture, by_script])
def test_documents_come_in_order_or_shuffled(tmp_path, texts_by):
    for name in "abcd":
        rows = (json.dumps({"text": f"{name}{n:03d}"}) + "\n" for n in range(200))
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    ordered = texts_by(tmp_path / "*.jsonl", "text")
    assert ordered == [f"{name}{n:03d}" for name in "abcd" for n in range(200)]
    shuffled = texts_by(tmp_path / "*.jsonl", "text", shuffle=100)
    assert sorted(shuffled) == ordered != shuffled
    assert shuffled == texts_by(tmp_path / "*.jsonl", "text", shuffle=100)
    # Files come in another order, and a document at most about as far before its place as are held.
    assert [*dict.fromkeys(text[0] for text in shuffled)] != [*"abcd"]
    assert len({*shuffled[:100]} & {*ordered[:100]}) < 60


@pytest.mark.parametrize(
    ("trainer", "path", "ending"),
    [
        ("nemo", "/d/*.parquet", "parquet"),
        ("olmo-core", "/d/web.TXT", "TXT"),
        ("llamafactory", "/d/t.jsonl.gz", "jsonl.gz"),
        ("transformers", "/d/t.tsv", "tsv"),
        ("megatron-lm", "tokens.bin", "bin"),
    ],
)
def test_a_file_that_a_trainer_does_not_read_is_refused(
    said, tmp_path, monkeypatch, trainer, path, ending
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokens.bin").write_bytes(b"0")
    (tmp_path / "folder.jsonl").mkdir()
    words = ["export", trainer, "--mixture", "web=1", "code=1", "--path"]
    told = said(*words, "code=folder.jsonl", f"web={path}", code=2)
    assert re.search(rf"--path: web=\S+: .* reads no \.{re.escape(ending)}: give \S+", told), told
    assert "code=" not in told


SCHEDULE = {
    "rule": "schedule",
    "points": [{"web": 1, "code": 1}, {"web": 1, "code": 3}, {"web": 1, "code": 0}],
    "at": [0, 0.5, 0.9],
}


def test_stages_are_told_in_steps(said, tmp_path, capsys):
    (tmp_path / "s.json").write_text(json.dumps(SCHEDULE), encoding="utf-8")
    options = ["--from", tmp_path / "s.json", "--path", "*=/data/*", "web=/w", "--steps", "200"]
    staged = yaml.safe_load(said("export", "levanter", *options))["data"]
    assert staged["train_weights"] == [
        [0, {"web": 0.5, "code": 0.5}], [100, {"web": 0.25, "code": 0.75}], [180, {"web": 1.0}],
    ]  # fmt: skip
    assert staged["components"]["web"]["source"]["train_urls"] == ["/w"]
    words = ["export", "megatron-lm", *map(str, options), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    remarks = capsys.readouterr().err.splitlines()[-3:]
    steps = ("0 to 100 (100 steps)", "100 to 180 (80 steps)", "180 to 200 (20 steps)")
    begins = ("from the start", "from the checkpoint of stage-1", "from the checkpoint of stage-2")
    for n, remark in enumerate(remarks):
        told = f"stage-{n + 1}: steps {steps[n]}, {begins[n]}, with the learning-rate schedule of"
        assert remark.strip() == f"{told} the whole run"
    assert (tmp_path / "out/stage-2/blend.txt").read_text() == "0.25 /w\n0.75 /data/code\n"
    assert (tmp_path / "out/stage-3/blend.txt").read_text() == "1.0 /w\n"


def test_remarks_name_paths_that_are_not_here_and_end_with_the_next_step(tmp_path, capsys):
    # Of Megatron's files a path is the beginning of the name; of others that is no file.
    for name in ("data.bin", "part[1].jsonl"):
        (tmp_path / name).write_text('{"text": "a"}\n')
    there = ["data", "part[1].jsonl", "*"]
    away = ["dat", "away", "away/*.jsonl"]
    paths = [f"{tmp_path}/{name}" for name in there + away]
    paths += ["x.jsonl", "allenai/c4", "hf://datasets/x/*.jsonl"]
    given = dict(zip("abcdefghi", paths, strict=True))
    words = ["--mixture", *(f"{name}=1" for name in given)]
    words += ["--path", *(f"{name}={path}" for name, path in given.items())]
    assert main(["export", "transformers", *words]) == 0
    first, absent, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("transformers: shares are of: tokens")
    named = ", ".join(f"{name}={given[name]}" for name in "defg")
    assert absent == f"  not on this machine (fine if your trainer's machine has it): {named}"
    assert last.startswith("  next: `from mixture import mixture` in your training script")


def test_what_fit_and_advise_write_is_read(said, tmp_path):
    table, path = tmp_path / "s.csv", tmp_path / "mixture.json"
    table.write_text("weight/web,weight/code,loss/a\n1,0,2\n0.5,0.5,1\n0.25,0.75,1.5\n")
    fit = said("fit", "best", table, "--target", "a", "--format", "json", "--resamples", "0")
    shares = {"web": 0.5, "code": 0.5}
    advised = json.dumps([{"rule": {"rule": "mix"}, "shares": shares}])
    drawn = json.dumps([{"rule": {"rule": "pike", "every": 4}, "shares": shares}])
    saved = json.dumps({"format": saved_predictors.FORMAT, "phases": [1], "optimum": shares})
    for text in (fit, saved, advised, drawn, '{"web": 2, "code": 2}'):
        path.write_text(text, encoding="utf-8")
        plan = export.plan_of_file(path)
        assert plan.shares == ((0.5, 0.5),)
        assert bool(plan.warnings) == (text == drawn)


def test_caps_are_in_the_shares_and_their_absence_is_told(tmp_path):
    # Of 100 tokens web may be read 2 x 10: a fifth, in place of a half.
    settings = {
        "rule": "schedule", "points": [{"web": 1, "code": 1}], "epochs": 2, "steps": 10,
        "tokens_by_domain": {"web": 10, "code": 1000}, "budget_tokens": 100,
    }  # fmt: skip
    plan = export.plan_of_rule(settings, "s")
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
        (["hf-trainer", *MIXTURE], "TRL) type: pike-mixing export transformers"),
        (["nemo"], "--mixture: give shares"),
        (["nemo", "--from", "none.json"], "--from: none.json cannot be read"),
        ([*MIXTURE, "nemo", "--path", "*=/d"], "'nemo' too: type the trainer first: export nemo"),
        (["--from", "a.json"], "no trainer is named: type one behind export: transformers"),
        (["nemo", "--mixture", "web=-1"], "--mixture.web: must not be negative"),
        (["nemo", "--mixture", "web=0"], "--mixture: at least one must be positive"),
        (["nemo", "--mixture", "=1"], "--mixture: '=1' has no name before the ="),
        (["nemo", "--mixture", "code"], "'code' is not NAME=VALUE: type, for example, code=1"),
        (["nemo", "--mixture", "web=1,code=2"], "separate by spaces: --mixture web=1 code=2"),
        (["nemo", "--mixture", "web=1", ",code=2"], "',code=2': separate by spaces, without comm"),
        (["nemo", *MIXTURE, "--path", "/d"], "'/d' is not NAME=VALUE: type, for example, w"),
        (["nemo", *MIXTURE, "--path", "web=/d,code=/e"], "separate by spaces: --path web=/d code="),
        (["nemo", *MIXTURE, "--path", "wb=/d"], "--path names wb, but the mixture has web, code: "),
        (["nemo", *MIXTURE, "--path", "*=/d", "--epochs", "0.5"], "--epochs: 0.5 must be at least"),
        (["nemo", *MIXTURE, "--path", "*=/d", "--field", "web=body"], "--field: NeMo"),
        (["megatron-lm", *MIXTURE, "--path", "*=/my data/*"], "takes ' ' in a path or name"),
        (["llamafactory", "--mixture", "a,b=1", "--path", "*=/d"], "takes ',' in a path or name"),
        (["axolotl", *MIXTURE, "--path", "*=/d"], "--rows: axolotl has no weights"),
        (["axolotl", *MIXTURE, "--path", "*=/d", "--rows", "9" * 20], "--rows: 1e+20 must be"),
        (["axolotl", *MIXTURE, "--path", "*=/d", "--rows", "1"], "of 1 rows 'code' gets none"),
    ],
)
def test_what_cannot_be_told_is_refused(said, words, message):
    assert message in said("export", *words, code=2)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("transformers", "type: pike-mixing export transformers"),
        ("mixing-law", "type: pike-mixing fit mixing-law"),
        ("famo", "type: pike-mixing methods famo"),
        (
            "claims",
            "'claims' is a command of `pike`, which `make setup` puts into the clone: type:",
        ),
        ("exprot", "COMMAND: 'exprot' is unknown: did you mean 'export'?"),
    ],
)
def test_a_word_that_is_no_command_says_where_it_belongs(said, word, message):
    assert message in said(word, "--mixture", "web=1", code=2)


def test_commands_of_pike_alone_are_known():
    ours = EXAMPLES.keys()
    assert {c.name for c in cli.commands()} - ours == OF_PIKE


def write_records(path, records):
    """A file of records, in the format of its name."""
    kind, *packed = path.suffixes
    if kind == ".csv":
        text = "\n".join([",".join(records[0]), *(",".join(map(str, r.values())) for r in records)])
    else:
        text = "".join(json.dumps(record) + "\n" for record in records)
    if kind in (".parquet", ".arrow"):
        pa = pytest.importorskip("pyarrow")
        table = pa.Table.from_pylist(records)
        if kind == ".parquet":
            pa.parquet.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
    elif packed == [".zst"]:
        path.write_bytes(pytest.importorskip("zstandard").compress(text.encode()))
    else:
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.json", "a.jsonl.gz", "a.jsonl.zst", "a.csv", "a.parquet", "a.arrow"]
)
def test_a_field_that_the_first_records_lack_is_refused(said, tmp_path, name):
    nested = [{"meta": None}, {"meta": {"text": "a"}}, {"meta": {"text": None, "n": 2}}]
    records = [{"content": "a", "stars": 1, **({} if ".csv" in name else one)} for one in nested]
    write_records(tmp_path / name, records)
    options = ["--mixture", "web=1", "--path", f"web={tmp_path}/*{name[1:]}"]
    words = ["export", "transformers", *options]
    start = f"--field: domain 'web': {tmp_path / name} has no "
    told = said(*words, code=2)
    assert f"{start}field 'text', but content, stars" in told
    # It may be `meta.text`, too, and of a CSV file any column.
    assert told.endswith(": type web=FIELD, with the name of the field that has the text\n")
    said(*words, "--field", "web=content")
    if ".csv" not in name:
        said(*words, "--field", "web=meta.text")
        assert f"{start}field 'meta.body', but" in said(*words, "--field", "web=meta.body", code=2)
        for field in ("stars", "meta", "meta.n"):
            told = said(*words, "--field", f"web={field}", code=2)
            assert f"{start}text in the field '{field}': type web=FIELD" in told
    # What cannot be opened here is the trainer's affair.
    (tmp_path / name).write_bytes(b"\x1f\x8b\xff")
    said(*words)


def test_a_field_of_few_records_is_found_and_text_files_have_one(said, tmp_path):
    records = [{"id": n, **({"body": "x"} if n == 999 else {})} for n in range(1000)]
    write_records(tmp_path / "a.jsonl", [*records, {"late": "x"}])
    (tmp_path / "list.json").write_text('[{"id": 1}]')
    (tmp_path / "b.txt").write_text("words")
    words = ["export", "transformers", "--mixture", "web=1"]
    said(*words, "--path", f"web={tmp_path}/a.jsonl", "--field", "web=body")
    path = ["--path", f"web={tmp_path}/a.jsonl", "--field", "web=late"]
    assert "no field 'late', but id, body: type" in said(*words, *path, code=2)
    said(*words, "--path", f"web={tmp_path}/list.json")
    # Rows that are packed already have no text.
    write_records(tmp_path / "packed.jsonl", [{"input_ids": [1, 2], "source": "a"}])
    path = ["--path", f"web={tmp_path}/packed.jsonl"]
    said(*words, *path)
    assert "no field 'text'" in said(*words, *path, "--field", "web=text", code=2)
    path = ["--path", f"web={tmp_path}/*.txt"]
    said(*words, *path)
    assert "no field 'body', but text: type, for example, web=text" in said(
        *words, *path, "--field", "web=body", code=2
    )


def test_small_domains_are_named_with_how_often_they_are_read(tmp_path, capsys):
    # web ends when 1,200 bytes at half of all are read: code then is read 600 / 100 times, tickets
    # 600 / 400 times, of which nothing is said.
    for name, size in (("web/0", 1200), ("code/0", 60), ("code/1", 40), ("tickets/0", 400)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text("x" * size)
    words = ["--mixture", "web=2", "code=1", "tickets=1", "none=0"]
    paths = [f"{name}={tmp_path}/{name}/*.txt" for name in ("web", "code", "tickets")]
    words += ["--path", *paths]
    assert main(["export", "transformers", *words]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "read about" in line]
    assert told == ["  code: read about 6 times until the largest domain ends, by bytes of files"]
    (tmp_path / "code/1.txt").rename(tmp_path / "code/1.txt.gz")
    zipped = [word.replace("/code/*.txt", "/code/*.gz") for word in words]
    assert main(["export", "transformers", *zipped]) == 0
    assert "by bytes of files (compressed ones have more text)\n" in capsys.readouterr().err
    # Nothing is said where the files of a domain are elsewhere.
    assert main(["export", "transformers", *words[:-1], "tickets=/away/*.txt"]) == 0
    assert "read about" not in capsys.readouterr().err


def test_files_that_somebody_edited_are_kept(said, tmp_path):
    words = ["export", "llamafactory", *MIXTURE, "--path", "*=/data/*", "--out", tmp_path]
    *_, written = map(Path, said(*words).splitlines())
    text = written.read_text(encoding="utf-8")
    said(*words)
    written.write_text(text + "# mine\n", encoding="utf-8")
    told = said(*words, code=2)
    assert f"--out: {written} is there and differs from what would be written" in told
    assert "add --force" in told
    assert written.read_text(encoding="utf-8") == text + "# mine\n"
    said(*words, "--force")
    assert written.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("text", ['{"mixture": null}', '{"targets": 3}', '{"schedule": []}'])
def test_a_file_that_is_no_mixture_is_refused(said, tmp_path, text):
    (tmp_path / "m.json").write_text(text, encoding="utf-8")
    words = ["nemo", "--from", tmp_path / "m.json", "--path", "*=/d"]
    assert "m.json: is no mixture that `export` reads" in said("export", *words, code=2)
    (tmp_path / "m.json").write_text("[" * 100_000, encoding="utf-8")
    assert "cannot be read" in said("export", *words, code=2)


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
        export.plan_of_rule(settings, "f", steps=200)


def test_a_schedule_needs_its_length():
    with pytest.raises(InputError, match="--steps: give those of the run"):
        export.plan_of_rule(SCHEDULE, "f")
    plan = export.plan_of_rule(SCHEDULE, "f", steps=200)
    with pytest.raises(InputError, match="--steps: give those of the run"):
        export.export("levanter", plan, {"web": "/w", "code": "/c"})
    with pytest.raises(InputError, match="of 2 steps a stage has none"):
        export.export("levanter", plan, {"web": "/w", "code": "/c"}, steps=2)


def test_the_page_lists_every_format():
    page = (ROOT / "docs" / "mixtures.md").read_text(encoding="utf-8")
    lines = [
        f"| `{n}` | {f.trainer} | {f.counts} | {f.tested_with} | {f.stages} | {f.refusals_text} |"
        for n, f in FORMATS.items()
    ]
    assert "\n".join(lines) in page
    # What the table says is what the tests above do.
    ran = {name: "to a row" if counts else "by chance" for name, (_, counts) in RUNS.items()}
    assert ran == {n: f.stages for n, f in FORMATS.items() if f.stages in ran.values()}
    assert {n for n, f in FORMATS.items() if f.staged} == {
        n for n, f in FORMATS.items() if f.stages == "one file"
    }
