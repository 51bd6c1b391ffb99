"""Files with other bytes than were written: documents, tokenizers, shards, checkpoints, records."""

from edits import cut, flip, folder, remove
from trials import COMMANDS, CORPUS, LETTERS, RUN, SET, SOURCE, Trial, cases

LAST = f"{RUN}/checkpoints/step4"
SCORES = f"{RUN}/evaluations/step4"

READERS = {
    f"{SOURCE}/documents.parquet": ["pack", "tokenizer", "verify"],
    LETTERS: ["pack", "evaluate"],
    f"{CORPUS}/train-00000.bin": ["pretrain", "evaluate", "verify"],
    f"{CORPUS}/train-documents.npy": ["pretrain", "evaluate", "verify"],
    f"{CORPUS}/validation-00000.bin": ["evaluate", "probe", "verify"],
    f"{CORPUS}/validation-documents.npy": ["evaluate", "verify"],
    f"{LAST}/model.safetensors": ["evaluate", "probe"],
    f"{RUN}/weights.parquet": ["mixture", "database"],
    f"{SCORES}/perplexities.parquet": ["database"],
    f"{SCORES}/search_losses.parquet": ["mixture"],
    f"{RUN}/probes/step4.parquet": ["database"],
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
    for n, command in enumerate(COMMANDS[name] for name in commands)
    for what, spoil in SPOILED.items()
    # What a reader is told of is told to all that use it.
    if n == 0 or "flipped" in what
]


@cases(BYTES)
def test_spoiled_bytes_are_refused(refuses, sound, trial):
    refuses(trial, sound)
