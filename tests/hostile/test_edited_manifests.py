"""Settings files and manifests that somebody has edited, cut off or put in another's place."""

import shutil

import pytest
from edits import GONE, copy, folder, put, remove, values
from trials import CORPUS, RUN, Trial, called, cases

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
FIND = f"mixture {SET}/mixtures/words/tiny/chosen/seed0.json --out own.json"
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
CONTENTS = {"cut off": b'{"stage": "pretr', "null": b"null"}
NO_MANIFESTS = {"an empty mapping": b"{}"}


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


# Of every manifest a key that is gone, one of another type and, where the files can tell, one that
# is no longer true; `tests/runtime/test_manifests.py` has the shapes of all.
EDITED = [
    *edited(PACK, f"{SOURCE}/manifest.json", "files", GONE, {"../notes/manifest.json": None}),
    *edited(PACK, f"{SOURCE}/manifest.json", "entropy_nats_per_character", GONE, "much"),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/tokens", GONE, -1, 10, "5"),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/shards/0/sha256", None, "0" * 64),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/shards/0/tokens", "5", 3),
    *edited(TRAIN, CORPUS_MANIFEST, "splits/train/shards/0/file", "../x", "/x", says=("/x",)),
    *edited(TRAIN, CORPUS_MANIFEST, "dtype", GONE, "float64", "uint32"),
    *edited(TRAIN, CORPUS_MANIFEST, "tokenizer/sha256", GONE, "0" * 64, says=(CORPUS,)),
    *edited(TRAIN, CORPUS_MANIFEST, "tokenizer/vocabulary", GONE, 3, says=("easy",)),
    *edited(f"corpus {CORPUS}", CORPUS_MANIFEST, "splits/train/lengths", GONE, {"a": 1}),
    *edited(f"verify {CORPUS}", CORPUS_MANIFEST, "stage", GONE, 5),
    *edited(EVALUATE, RUN_MANIFEST, "settings/training/length", GONE, 0, "16"),
    *edited(EVALUATE, RUN_MANIFEST, "checkpoints", GONE, [], ["4"], [3]),
    *edited(FIND, RUN_MANIFEST, "domains", GONE, ["easy", "none"], says=(NAME,)),
    *edited(FIND, RUN_MANIFEST, "files", GONE, {}, says=(NAME,)),
    *edited(FIND, f"{RUN}/evaluations/manifest.json", "files", GONE, {}, says=(NAME,)),
    *edited(EVALUATE, f"{LAST}/manifest.json", "vocabulary", GONE, 8),
    *edited(TRAIN_FOUND, MIXTURE, "weights_by_domain", GONE, {"easy": 1.0}),
    *edited(TRAIN_FOUND, MIXTURE, "weights_by_domain/easy", -1.0, "much"),
    *edited(DATABASE, RUN_MANIFEST, "files", None, says=(NAME,)),
    *edited(DATABASE, RUN_MANIFEST, "wall_seconds", GONE, "long", says=(NAME,)),
    *edited(DATABASE, f"{LAST}/manifest.json", "model", GONE),
    *edited(DATABASE, CORPUS_MANIFEST, "tokenizer", {}),
]

SETTINGS = [
    *edited(TRAIN, TRAINING, "seed", 2**64, "0", says=(TRAINING, "seed")),
    *edited(TRAIN, TRAINING, "domains", [], ["easy", "easy"], says=("domains",)),
    *edited(TRAIN, TRAINING, "domains", ["none"], ["../../data/easy"], says=("corpora",)),
    *edited(TRAIN, TRAINING, "rule", "pikee", GONE, says=("rule",)),
    *edited(TRAIN, TRAINING, "method", {"zeta1": 1}, None, says=("method",)),
    *edited(TRAIN, TRAINING, "training/rows", 0, 10**9, says=("rows",)),
    *edited(TRAIN, TRAINING, "training/length", 10**9, says=("length",)),
    *edited(TRAIN, TRAINING, "training/max_epochs", 0.001, says=("max_epochs",)),
    *edited(TRAIN, TRAINING, "model/width", 10**12, says=("width",)),
    *edited(EVALUATE, f"{RUN}/evaluation.json", "domains", [], "easy"),
    *edited(EVALUATE, f"{RUN}/evaluation.json", "choice/context", 14, 0, says=("context",)),
    *edited(PROBE, f"{RUN}/probe.json", "rows", 1, says=("rows",)),
    *edited(PACK, f"{SET}/corpora/letters/easy.json", "validation_share", 1, 1e-9,
            says=("validation_share",)),
    *edited(TOKENIZER, f"{SET}/tokenizers/letters.json", "vocabulary", 8, says=("vocabulary",)),
    *edited(FIND, f"{SET}/mixtures/words/tiny/chosen/seed0.json", "options", {"x": 1},
            says=("options",)),
    *edited(TABLE, f"{SET}/tables/perplexity.json", "name", GONE, "none", "../own",
            says=(f"{SET}/tables/perplexity.json",)),
    *edited(TABLE, f"{SET}/tables/perplexity.json", "selection", [], {"methods": ["none"]}),
    *edited(FIGURE, f"{SET}/figures/losses.json", "name", "none"),
    *edited(DATABASE, f"{SET}/experiment.json", "runs", GONE, {"own": {}}, says=("runs",)),
]  # fmt: skip

OTHERS = [
    Trial("pretrain: a source's manifest as the corpus's", TRAIN, (CORPUS_MANIFEST,),
          (copy(CORPUS_MANIFEST, f"{SOURCE}/manifest.json"),)),
    Trial("pretrain: a run's manifest as the mixture", TRAIN_FOUND, (MIXTURE,),
          (copy(MIXTURE, RUN_MANIFEST),)),
    Trial("pretrain: the notes' manifest as easy's", TRAIN, (CORPUS,),
          (copy(CORPUS_MANIFEST, "results/corpora/letters/notes/manifest.json"),)),
    Trial("evaluate: an older checkpoint's manifest", EVALUATE, (LAST,),
          (copy(f"{LAST}/manifest.json", f"{RUN}/checkpoints/step2/manifest.json"),)),
    Trial("evaluate: another run's manifest", EVALUATE, (RUN,),
          (copy(RUN_MANIFEST, f"{FOUND}/manifest.json"),)),
    Trial("evaluate: no manifest", EVALUATE, (RUN_MANIFEST,), (remove(RUN_MANIFEST),)),
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
    code, printed = called(command, project)
    assert code == 0, printed


@cases(WHOLE)
def test_a_file_that_holds_something_else_is_refused(refuses, sound, trial):
    refuses(trial, sound)


@cases(EDITED + OTHERS)
def test_an_edited_manifest_is_refused(refuses, sound, trial):
    refuses(trial, sound)


@cases(SETTINGS)
def test_edited_settings_are_refused(refuses, sound, trial):
    refuses(trial, sound)
