"""Settings files and manifests that somebody has edited, cut off or put in another's place."""

from edits import GONE, copy, folder, put, remove, values
from trials import (
    CHOSEN,
    COMMANDS,
    CORPUS,
    FOUND,
    MIXTURE,
    RUN,
    SET,
    SOURCE,
    Trial,
    cases,
)

LAST = f"{RUN}/checkpoints/step4"
SETTINGS_FILES = {
    f"{SET}/sources/easy.json": ["download"],
    f"{SET}/tokenizers/letters.json": ["tokenizer"],
    f"{SET}/corpora/letters/easy.json": ["pack"],
    CHOSEN: ["mixture"],
    f"{SET}/experiment.json": ["database"],
    f"{SET}/tables/perplexity.json": ["table"],
    f"{SET}/figures/losses.json": ["figure"],
    f"{RUN}/run.json": ["pretrain"],
    f"{RUN}/evaluation.json": ["evaluate"],
    f"{RUN}/probe.json": ["probe"],
}
MANIFESTS = {
    f"{SOURCE}/manifest.json": ["pack", "tokenizer"],
    f"{CORPUS}/manifest.json": ["pretrain", "evaluate", "probe", "corpus", "verify corpus"],
    f"{RUN}/manifest.json": ["evaluate", "probe", "mixture"],
    f"{LAST}/manifest.json": ["evaluate", "probe"],
    f"{RUN}/evaluations/manifest.json": ["mixture"],
    MIXTURE: ["pretrain found"],
    "results/tokenizers/letters.json": ["database"],
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
        for command in (COMMANDS[name] for name in commands)
        for what, content in contents.items()
    ]


FIRST = {path: commands[:1] for path, commands in (SETTINGS_FILES | MANIFESTS).items()}
WHOLE = [
    *holding(SETTINGS_FILES | MANIFESTS, CONTENTS),
    *holding(MANIFESTS, NO_MANIFESTS),
    *holding(FIRST, {"nested without end": b"[" * 100_000}),
    *(
        Trial(f"{name}: {path} is a folder", COMMANDS[name], (path,), (folder(path),))
        for path, (name,) in FIRST.items()
        if path in SETTINGS_FILES
    ),
]

NAME = "words/tiny/mix/seed0"
CORPUS_MANIFEST, RUN_MANIFEST = f"{CORPUS}/manifest.json", f"{RUN}/manifest.json"
TRAINING = f"{RUN}/run.json"


def edited(name, path, at, *wrong, says=()):
    return [
        Trial(
            f"{name}: {path} has {'no ' if value is GONE else ''}{at}"
            + ("" if value is GONE else f" of {value!r:.30}"),
            COMMANDS[name],
            says or (path.removesuffix("/manifest.json"),),
            (values(path, {at: value}),),
        )
        for value in wrong
    ]


# What is no longer true, and one key that is gone or of another type from each reader;
# `tests/runtime/test_manifests.py` has the shapes of all.
EDITED = [
    *edited("pack", f"{SOURCE}/manifest.json", "files", GONE, {"../notes/manifest.json": None}),
    *edited("pretrain", CORPUS_MANIFEST, "splits/train/tokens", GONE, 10),
    *edited("pretrain", CORPUS_MANIFEST, "splits/train/shards/0/sha256", "0" * 64),
    *edited("pretrain", CORPUS_MANIFEST, "splits/train/shards/0/tokens", 3),
    *edited("pretrain", CORPUS_MANIFEST, "splits/train/shards/0/file", "../x", "/x", says=("/x",)),
    *edited("pretrain", CORPUS_MANIFEST, "dtype", "float64", "uint32"),
    *edited("pretrain", CORPUS_MANIFEST, "tokenizer/sha256", "0" * 64, says=(CORPUS,)),
    *edited("pretrain", CORPUS_MANIFEST, "tokenizer/vocabulary", 3, says=("easy",)),
    *edited("corpus", CORPUS_MANIFEST, "splits/train/lengths", {"a": 1}),
    *edited("verify corpus", CORPUS_MANIFEST, "stage", GONE, 5),
    *edited("evaluate", RUN_MANIFEST, "settings/training/length", 0),
    *edited("evaluate", RUN_MANIFEST, "checkpoints", GONE, [], [3]),
    *edited("mixture", RUN_MANIFEST, "domains", ["easy", "none"], says=(NAME,)),
    *edited("mixture", RUN_MANIFEST, "files", {}, says=(NAME,)),
    *edited("mixture", f"{RUN}/evaluations/manifest.json", "files", {}, says=(NAME,)),
    *edited("evaluate", f"{LAST}/manifest.json", "vocabulary", GONE, 8),
    *edited("pretrain found", MIXTURE, "weights_by_domain", GONE, {"easy": 1.0}),
    *edited("pretrain found", MIXTURE, "weights_by_domain/easy", -1.0),
    *edited("database", RUN_MANIFEST, "wall_seconds", "long", says=(NAME,)),
]

SETTINGS = [
    *edited("pretrain", TRAINING, "seed", 2**64, "0", says=(TRAINING, "seed")),
    *edited("pretrain", TRAINING, "domains", [], ["easy", "easy"], says=("domains",)),
    *edited("pretrain", TRAINING, "domains", ["none"], ["../../data/easy"], says=("corpora",)),
    *edited("pretrain", TRAINING, "rule", "pikee", GONE, says=("rule",)),
    *edited("pretrain", TRAINING, "method", {"zeta1": 1}, None, says=("method",)),
    *edited("pretrain", TRAINING, "training/length", 10**9, says=("length",)),
    *edited("pretrain", TRAINING, "model/width", 10**12, says=("width",)),
    *edited("evaluate", f"{RUN}/evaluation.json", "domains", [], "easy"),
    *edited("evaluate", f"{RUN}/evaluation.json", "choice/context", 14, 0, says=("context",)),
    *edited("probe", f"{RUN}/probe.json", "rows", 1, says=("rows",)),
    *edited("pack", f"{SET}/corpora/letters/easy.json", "validation_share", 1, 1e-9,
            says=("validation_share",)),
    *edited("tokenizer", f"{SET}/tokenizers/letters.json", "vocabulary", 8, says=("vocabulary",)),
    *edited("mixture", CHOSEN, "options", {"x": 1}, says=("options",)),
    *edited("table", f"{SET}/tables/perplexity.json", "name", GONE, "none", "../own",
            says=(f"{SET}/tables/perplexity.json",)),
    *edited("table", f"{SET}/tables/perplexity.json", "selection", [], {"methods": ["none"]}),
    *edited("figure", f"{SET}/figures/losses.json", "name", "none"),
    *edited("database", f"{SET}/experiment.json", "runs", GONE, {"own": {}}, says=("runs",)),
]  # fmt: skip

OTHERS = [
    Trial("pretrain: a source's manifest as the corpus's", COMMANDS["pretrain"], (CORPUS_MANIFEST,),
          (copy(CORPUS_MANIFEST, f"{SOURCE}/manifest.json"),)),
    Trial("pretrain: a run's manifest as the mixture", COMMANDS["pretrain found"], (MIXTURE,),
          (copy(MIXTURE, RUN_MANIFEST),)),
    Trial("pretrain: the notes' manifest as easy's", COMMANDS["pretrain"], (CORPUS,),
          (copy(CORPUS_MANIFEST, "results/corpora/letters/notes/manifest.json"),)),
    Trial("evaluate: an older checkpoint's manifest", COMMANDS["evaluate"], (LAST,),
          (copy(f"{LAST}/manifest.json", f"{RUN}/checkpoints/step2/manifest.json"),)),
    Trial("evaluate: another run's manifest", COMMANDS["evaluate"], (RUN,),
          (copy(RUN_MANIFEST, f"{FOUND}/manifest.json"),)),
    Trial("evaluate: no manifest", COMMANDS["evaluate"], (RUN_MANIFEST,), (remove(RUN_MANIFEST),)),
    Trial("verify: a file beside the folder", COMMANDS["verify"], ("config.yaml",),
          (values(f"{SOURCE}/manifest.json",
                  {"files": {"../../../config.yaml": {"bytes": 1, "sha256": "0"}}}),)),
]  # fmt: skip


@cases(WHOLE + EDITED + OTHERS + SETTINGS)
def test_a_file_that_holds_something_else_is_refused(refuses, sound, trial):
    refuses(trial, sound)
