"""Settings files and manifests that somebody has edited, cut off or put in another's place."""

import shutil

import pytest
from trials import CORPUS, GONE, RUN, Trial, called, cases, copy, folder, put, remove, values

LETTERS = "results/tokenizers/letters.model"
OF_RUN = "--corpora results/corpora/letters --device cpu"
SET = "results/settings"
FOUND = "results/runs/words/tiny/found/seed0"
MIXTURE = "results/mixtures/words/tiny/chosen/seed0.json"
SOURCE = "results/data/easy"
LAST = f"{RUN}/checkpoints/step4"

PACK = f"pack {SET}/corpora/letters/easy.json --documents {SOURCE} --tokenizer {LETTERS} --out own"
TOKENIZER = f"tokenizer {SET}/tokenizers/letters.json --sources {SOURCE} --out own.model"
TRAIN = f"pretrain {RUN}/run.json {OF_RUN}"
TRAIN_FOUND = f"pretrain {FOUND}/run.json --mixture {MIXTURE} {OF_RUN}"
EVALUATE = f"evaluate {RUN}/evaluation.json --run {RUN} --tokenizer {LETTERS} {OF_RUN}"
PROBE = f"probe {RUN}/probe.json --run {RUN} {OF_RUN}"
FIND = f"mixture {SET}/mixtures/words/tiny/chosen/seed0.json --runs {RUN} --out own.json"
DATABASE = f"database {SET}/experiment.json --out own.duckdb"
TABLE = f"table {SET}/tables/perplexity.json --database results/pike.duckdb --out own.md"
FIGURE = f"figure {SET}/figures/losses.json --database results/pike.duckdb --out own.svg"
VERIFY = "verify results/data results/corpora"

SETTINGS_FILES = {
    f"{SET}/sources/easy.json": [f"download {SET}/sources/easy.json --out own"],
    f"{SET}/tokenizers/letters.json": [TOKENIZER],
    f"{SET}/corpora/letters/easy.json": [PACK],
    f"{SET}/mixtures/words/tiny/chosen/seed0.json": [FIND],
    f"{SET}/experiment.json": [DATABASE],
    f"{SET}/tables/perplexity.json": [TABLE],
    f"{SET}/figures/losses.json": [FIGURE],
    f"{RUN}/run.json": [TRAIN],
    f"{RUN}/evaluation.json": [EVALUATE],
    f"{RUN}/probe.json": [PROBE],
    f"{RUN}/starts.json": [TRAIN],
}
MANIFESTS = {
    f"{SOURCE}/manifest.json": [PACK, TOKENIZER],
    f"{CORPUS}/manifest.json": [TRAIN, EVALUATE, PROBE, f"corpus {CORPUS}", f"verify {CORPUS}"],
    f"{RUN}/manifest.json": [EVALUATE, PROBE, FIND],
    f"{LAST}/manifest.json": [EVALUATE, PROBE],
    f"{RUN}/evaluations/manifest.json": [FIND],
    MIXTURE: [TRAIN_FOUND],
    "results/tokenizers/letters.json": [DATABASE],
}
"""Every file of JSON with the commands that read it."""
CONTENTS = {
    "cut off": b'{"stage": "pretr',
    "null": b"null",
    "a list": b"[1]",
    "not UTF-8": b'{"stage": "\xff"}',
}
NO_MANIFESTS = {
    "an empty mapping": b"{}",
    "a mapping of null": b'{"stage": null, "settings": null, "files": null, "splits": null}',
}


def holding(listed, contents):
    return [
        # A checkpoint and a run are named by their folder.
        Trial(
            f"{command.split()[0]}: {path} is {what}",
            command,
            (path.removesuffix("/manifest.json"),),
            (put(path, content),),
        )
        for path, commands in listed.items()
        for command in commands
        for what, content in contents.items()
        if (path, what) != (f"{RUN}/starts.json", "a list")
    ]


FIRST = {path: commands[:1] for path, commands in (SETTINGS_FILES | MANIFESTS).items()}
WHOLE = [
    *holding(SETTINGS_FILES | MANIFESTS, CONTENTS),
    *holding(MANIFESTS, NO_MANIFESTS),
    *holding(FIRST, {"nested without end": b"[" * 100_000}),
    *(
        Trial(f"{command.split()[0]}: {path} is a folder", command, (path,), (folder(path),))
        for path, (command,) in FIRST.items()
        if path in SETTINGS_FILES
    ),
]

NAME = "words/tiny/mix/seed0"
CORPUS_MANIFEST, RUN_MANIFEST = f"{CORPUS}/manifest.json", f"{RUN}/manifest.json"
TRAINING = f"{RUN}/run.json"


def edited(command, path, at, *wrong, says=()):
    return [
        Trial(
            f"{command.split()[0]}: {path} has {'no ' if value is GONE else ''}{at}"
            + ("" if value is GONE else f" of {value!r:.30}"),
            command,
            says or (path.removesuffix("/manifest.json"),),
            (values(path, {at: value}),),
        )
        for value in wrong
    ]


EDITED = [
    *edited(PACK, f"{SOURCE}/manifest.json", "stage", "pack", None, GONE),
    *edited(PACK, f"{SOURCE}/manifest.json", "files", GONE, [], {"../notes/manifest.json": None}),
    *edited(PACK, f"{SOURCE}/manifest.json", "files/documents-00000.parquet", {}, {"bytes": "1"}),
    *edited(PACK, f"{SOURCE}/manifest.json", "bytes", GONE, "many"),
    *edited(PACK, f"{SOURCE}/manifest.json", "revision", GONE),
    *edited(PACK, f"{SOURCE}/manifest.json", "entropy_nats_per_character", GONE, "much"),
    *edited(TRAIN, CORPUS_MANIFEST, "format", GONE, 2, "1", None),
    *edited(TRAIN, CORPUS_MANIFEST, "splits", GONE, None, [], {}),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/tokens", GONE, -1, 10, "5", None, 1e300),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/shards", GONE, None, [], [{}], "none"),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/shards/0/sha256", GONE, None, "0" * 64),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/shards/0/tokens", GONE, -1, "5", 3),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/shards/0/file", GONE, None, 5, says=(CORPUS,)),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/shards/0/file", "../x", "/x", says=("/x",)),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/validation", GONE, None, []),
    *edited(
        TRAIN, CORPUS_MANIFEST, "dtype", GONE, None, 5, "nothing", "float64", "uint8", "uint32"
    ),
    *edited(TRAIN, CORPUS_MANIFEST, "tokenizer", GONE, None, [], {}),
    *edited(TRAIN, CORPUS_MANIFEST, "tokenizer/sha256", GONE, None, "0" * 64, says=(CORPUS,)),
    *edited(TRAIN, CORPUS_MANIFEST, "tokenizer/vocabulary", GONE, 3, "64", None, says=("easy",)),
    *edited(TRAIN, CORPUS_MANIFEST, "tokenizer/eos", GONE, None, "1", 1000, says=("easy",)),
    *edited(TRAIN, CORPUS_MANIFEST, "fingerprint", GONE, None, "0" * 64),
    *edited(TRAIN, CORPUS_MANIFEST, "files", GONE, None, [], {}),
    *edited(TRAIN, CORPUS_MANIFEST, "inputs", None, [], {"own.model": 5}),
    *edited(EVALUATE, CORPUS_MANIFEST, "tokenizer/eos", 1000),
    *edited(f"corpus {CORPUS}", CORPUS_MANIFEST, "splits/train/bytes", GONE, None, "5"),
    *edited(f"corpus {CORPUS}", CORPUS_MANIFEST, "splits/train/documents", GONE, 0, "5"),
    *edited(f"corpus {CORPUS}", CORPUS_MANIFEST, "splits/train/lengths", GONE, [], {"a": 1}),
    *edited(f"corpus {CORPUS}", CORPUS_MANIFEST, "licence", GONE),
    *edited(f"verify {CORPUS}", CORPUS_MANIFEST, "stage", GONE, 5),
    *edited(EVALUATE, RUN_MANIFEST, "settings", GONE, None, [], {}),
    *edited(EVALUATE, RUN_MANIFEST, "settings/domains", GONE, [], "easy"),
    *edited(EVALUATE, RUN_MANIFEST, "settings/training/length", GONE, 0, "16"),
    *edited(EVALUATE, RUN_MANIFEST, "settings/model", GONE, {}, [[]]),
    *edited(EVALUATE, RUN_MANIFEST, "checkpoints", GONE, None, [], ["4"], {}, [3]),
    *edited(EVALUATE, RUN_MANIFEST, "run", GONE),
    *edited(PROBE, RUN_MANIFEST, "checkpoints", GONE, None, [], ["4"], {}, [3]),
    *edited(PROBE, RUN_MANIFEST, "run", GONE),
    *edited(FIND, RUN_MANIFEST, "domains", GONE, None, "easy", ["easy", "none"], says=(NAME,)),
    *edited(FIND, RUN_MANIFEST, "steps", GONE, None, 5, "4", says=(NAME,)),
    *edited(FIND, RUN_MANIFEST, "files", GONE, [], {}, says=(NAME,)),
    *edited(FIND, f"{RUN}/evaluations/manifest.json", "files", GONE, {}, None, says=(NAME,)),
    *edited(EVALUATE, f"{LAST}/manifest.json", "model", GONE, None, {}, []),
    *edited(EVALUATE, f"{LAST}/manifest.json", "model/width", 16, 0, "8"),
    *edited(EVALUATE, f"{LAST}/manifest.json", "vocabulary", GONE, None, "64", 8, -8),
    *edited(EVALUATE, f"{LAST}/manifest.json", "sha256", GONE, None, [], {}, says=(LAST,)),
    *edited(EVALUATE, f"{LAST}/manifest.json", "format", 3, "2", None, says=(LAST,)),
    *edited(EVALUATE, f"{LAST}/manifest.json", "step", 3, GONE),
    *edited(TRAIN_FOUND, MIXTURE, "weights_by_domain", GONE, None, [], {}, {"easy": 1.0}),
    *edited(TRAIN_FOUND, MIXTURE, "weights_by_domain/easy", -1.0, "much", None, float("nan")),
    *edited(DATABASE, RUN_MANIFEST, "files", None, {"weights.parquet": {}}, says=(NAME,)),
    *edited(DATABASE, RUN_MANIFEST, "inputs", None, says=(NAME,)),
    *edited(DATABASE, RUN_MANIFEST, "code", {}, says=(NAME,)),
    *edited(DATABASE, RUN_MANIFEST, "wall_seconds", GONE, "long", says=(NAME,)),
    *edited(DATABASE, RUN_MANIFEST, "checkpoints", "all", says=(NAME,)),
    *edited(DATABASE, f"{LAST}/manifest.json", "model", GONE),
    *edited(DATABASE, f"{LAST}/manifest.json", "sha256", None),
    *edited(DATABASE, CORPUS_MANIFEST, "splits", GONE, {"train": {}}),
    *edited(DATABASE, CORPUS_MANIFEST, "tokenizer", {}),
]

SETTINGS = [
    *edited(TRAIN, TRAINING, "seed", 2**64, -1, "0", 0.5, None, says=(TRAINING, "seed")),
    *edited(TRAIN, TRAINING, "domains", [], ["easy", "easy"], "easy", [5], says=("domains",)),
    *edited(TRAIN, TRAINING, "domains", ["none"], ["../../data/easy"], says=("corpora",)),
    *edited(TRAIN, TRAINING, "rule", "pikee", "", 5, None, GONE, says=("rule",)),
    *edited(TRAIN, TRAINING, "method", {"zeta1": 1}, [], None, says=("method",)),
    *edited(TRAIN, TRAINING, "training/rows", 0, 10**9, "4", 4.5, True, says=("rows",)),
    *edited(TRAIN, TRAINING, "training/length", 0, 10**9, says=("length",)),
    *edited(TRAIN, TRAINING, "training/steps", 0, -4, says=("steps",)),
    *edited(TRAIN, TRAINING, "training/warmup_steps", 5, -1, says=("warmup_steps",)),
    *edited(TRAIN, TRAINING, "training/beta1", 1.0, -0.1, says=("beta1",)),
    *edited(TRAIN, TRAINING, "training/rounding", "up", None, says=("rounding",)),
    *edited(TRAIN, TRAINING, "training/max_epochs", 0.001, 0, says=("max_epochs",)),
    *edited(TRAIN, TRAINING, "model/head_width", 7, 0, says=("head_width",)),
    *edited(TRAIN, TRAINING, "model/width", 0, 10**12, says=("width",)),
    *edited(EVALUATE, f"{RUN}/evaluation.json", "rows", 0, 4.5, "4", None, says=("rows",)),
    *edited(EVALUATE, f"{RUN}/evaluation.json", "domains", [], "easy"),
    *edited(EVALUATE, f"{RUN}/evaluation.json", "choice/context", 14, 0, -1, says=("context",)),
    *edited(EVALUATE, f"{RUN}/evaluation.json", "checkpoints", "first", 4, says=("checkpoints",)),
    *edited(EVALUATE, f"{RUN}/evaluation.json", "tasks", [{}], [5], "arc_easy", says=("tasks",)),
    *edited(PROBE, f"{RUN}/probe.json", "rows", 1, 0, 4.5, says=("rows",)),
    *edited(PROBE, f"{RUN}/probe.json", "microbatch", 0, says=("microbatch",)),
    *edited(PROBE, f"{RUN}/probe.json", "split", "test", None, says=("split",)),
    *edited(PACK, f"{SET}/corpora/letters/easy.json", "validation_share", 0, 1, 1e-9, "half",
            says=("validation_share",)),
    *edited(PACK, f"{SET}/corpora/letters/easy.json", "shard_tokens", 0, 10.5, "1",
            says=("shard_tokens",)),
    *edited(TOKENIZER, f"{SET}/tokenizers/letters.json", "vocabulary", 3, 8, 0, "64",
            says=("vocabulary",)),
    *edited(TOKENIZER, f"{SET}/tokenizers/letters.json", "kind", "hubb", GONE, [], says=("kind",)),
    *edited(FIND, f"{SET}/mixtures/words/tiny/chosen/seed0.json", "finder", "bset", None, 5,
            says=("finder",)),
    *edited(FIND, f"{SET}/mixtures/words/tiny/chosen/seed0.json", "options", {"x": 1}, None, [],
            says=("options",)),
    *edited(TABLE, f"{SET}/tables/perplexity.json", "name", GONE, "none", 5, "../own",
            says=(f"{SET}/tables/perplexity.json",)),
    *edited(TABLE, f"{SET}/tables/perplexity.json", "selection", [], {"methods": ["none"]},
            {"none": [1]}, {"seeds": 0}),
    *edited(FIGURE, f"{SET}/figures/losses.json", "name", GONE, "none", 5),
    *edited(FIGURE, f"{SET}/figures/losses.json", "selection", [], {"methods": ["none"]}),
    *edited(DATABASE, f"{SET}/experiment.json", "runs", GONE, [], {}, {"own": {}}, says=("runs",)),
]  # fmt: skip

PIKE = {"zeta1": 0.1, "zeta2": 0.01, "every": 2, "first": 0, "rows": 4}
RULES = [
    Trial(f"pretrain: a rule {bad}", TRAIN, (says,),
          (values(TRAINING, {"rule": rule, "method": method}),))
    for bad, rule, method, says in (
        ("of a negative setting", "pike", {**PIKE, "zeta1": -1.0}, "zeta1"),
        ("that acts never", "pike", {**PIKE, "every": 0}, "every"),
        ("with a prior of nothing", "pike", {**PIKE, "prior": {"easy": 0, "notes": 0}}, "prior"),
        ("with a negative prior", "pike", {**PIKE, "prior": {"easy": -1, "notes": 2}}, "prior"),
        ("with half a prior", "pike", {**PIKE, "prior": {"easy": 1}}, "prior"),
        ("of one micro-batch", "pike", {**PIKE, "rows": 1}, "rows"),
        ("of no weights", "fixed", {}, "weights_by_domain"),
        ("of no weight", "fixed", {"weights_by_domain": {"easy": 0, "notes": 0}}, "weights"),
        ("of one domain's weight", "fixed", {"weights_by_domain": {"easy": 1}}, "notes"),
        ("of no domain", "single", {"domain": "none"}, "none"),
        ("of an endless temperature", "temperature", {"temperature": 0}, "temperature"),
    )
]  # fmt: skip

OTHERS = [
    Trial("evaluate: a source's manifest as the run's", EVALUATE, (RUN_MANIFEST,),
          (copy(RUN_MANIFEST, f"{SOURCE}/manifest.json"),)),
    Trial("pretrain: a source's manifest as the corpus's", TRAIN, (CORPUS_MANIFEST,),
          (copy(CORPUS_MANIFEST, f"{SOURCE}/manifest.json"),)),
    Trial("pack: a corpus's manifest as the source's", PACK, (f"{SOURCE}/manifest.json",),
          (copy(f"{SOURCE}/manifest.json", CORPUS_MANIFEST),)),
    Trial("pretrain: a run's manifest as the mixture", TRAIN_FOUND, (MIXTURE,),
          (copy(MIXTURE, RUN_MANIFEST),)),
    Trial("pretrain: the notes' manifest as easy's", TRAIN, (CORPUS,),
          (copy(CORPUS_MANIFEST, "results/corpora/letters/notes/manifest.json"),)),
    Trial("evaluate: an older checkpoint's manifest", EVALUATE, (LAST,),
          (copy(f"{LAST}/manifest.json", f"{RUN}/checkpoints/step2/manifest.json"),)),
    Trial("evaluate: another run's manifest", EVALUATE, (RUN,),
          (copy(RUN_MANIFEST, f"{FOUND}/manifest.json"),)),
    Trial("evaluate: no manifest", EVALUATE, (RUN_MANIFEST,), (remove(RUN_MANIFEST),)),
    Trial("probe: settings of the evaluation", PROBE, (f"{RUN}/probe.json",),
          (copy(f"{RUN}/probe.json", f"{RUN}/evaluation.json"),)),
    Trial("verify: a file beside the folder", VERIFY, ("config.yaml",),
          (values(f"{SOURCE}/manifest.json",
                  {"files": {"../../../config.yaml": {"bytes": 1, "sha256": "0"}}}),)),
]  # fmt: skip


@pytest.mark.parametrize(
    "command",
    sorted({c for read in (SETTINGS_FILES | MANIFESTS).values() for c in read} | {VERIFY}),
)
@pytest.mark.slow
def test_a_sound_project_is_accepted(sound, tmp_path, command):
    project = shutil.copytree(sound, tmp_path / "project")
    code, printed, _ = called(command, project)
    assert code == 0, printed


@cases(WHOLE)
def test_a_file_that_holds_something_else_is_refused(refuses, sound, trial):
    refuses(trial, sound)


@cases(EDITED + OTHERS)
def test_an_edited_manifest_is_refused(refuses, sound, trial):
    refuses(trial, sound)


@cases(SETTINGS + RULES)
def test_edited_settings_are_refused(refuses, sound, trial):
    refuses(trial, sound)
