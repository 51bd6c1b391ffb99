"""Files with other bytes than were written: documents, tokenizers, shards, checkpoints, records."""

from edits import cut, flip, folder, remove
from trials import CORPUS, RUN, Trial, cases

LETTERS = "results/tokenizers/letters.model"
OF_RUN = "--corpora results/corpora/letters --device cpu"
SET = "results/settings"
DATA = "results/data/easy"
LAST = f"{RUN}/checkpoints/step4"
SCORES = f"{RUN}/evaluations/step4"

PACK = f"pack {SET}/corpora/letters/easy.json --documents {DATA} --tokenizer {LETTERS} --out own"
TOKENIZER = f"tokenizer {SET}/tokenizers/letters.json --sources {DATA} --out own.model"
TRAIN = f"pretrain {RUN}/run.json {OF_RUN}"
EVALUATE = f"evaluate {RUN}/evaluation.json --run {RUN} --tokenizer {LETTERS} {OF_RUN}"
PROBE = f"probe {RUN}/probe.json --run {RUN} {OF_RUN}"
FIND = f"mixture {SET}/mixtures/words/tiny/chosen/seed0.json --out own.json"
DATABASE = f"database {SET}/experiment.json --out own.duckdb"
VERIFY = "verify results/data results/corpora"

READERS = {
    f"{DATA}/documents.parquet": [PACK, TOKENIZER, VERIFY],
    LETTERS: [PACK, EVALUATE],
    f"{CORPUS}/train-00000.bin": [TRAIN, EVALUATE, VERIFY],
    f"{CORPUS}/train-documents.npy": [TRAIN, EVALUATE, VERIFY],
    f"{CORPUS}/validation-00000.bin": [EVALUATE, PROBE, VERIFY],
    f"{CORPUS}/validation-documents.npy": [EVALUATE, VERIFY],
    f"{LAST}/model.safetensors": [EVALUATE, PROBE],
    f"{RUN}/weights.parquet": [FIND, DATABASE],
    f"{SCORES}/perplexities.parquet": [DATABASE],
    f"{SCORES}/search_losses.parquet": [FIND],
    f"{RUN}/probes/step4.parquet": [DATABASE],
}
"""Every file of data with the commands that read it."""
SPOILED = {
    "has a flipped byte": lambda path: flip(path, 150),
    "is cut off": cut,
    "is a folder": folder,
    "is gone": remove,
}
BYTES = [
    Trial(
        f"{command.partition(' --')[0].replace(f'{SET}/', '')}: {path} {what}",
        command,
        (path.rpartition("/")[0] if path != LETTERS else "letters",),
        (spoil(path),),
    )
    for path, commands in READERS.items()
    for n, command in enumerate(commands)
    for what, spoil in SPOILED.items()
    # What a reader is told of is told to all that use it.
    if n == 0 or "flipped" in what
]


@cases(BYTES)
def test_spoiled_bytes_are_refused(refuses, sound, trial):
    refuses(trial, sound)
