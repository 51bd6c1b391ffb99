"""Files with other bytes than were written: texts, tokenizers, shards, checkpoints, records."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
from trials import CORPUS, RUN, Trial, cases, copy, cut, flip, folder, link, put, remove

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
FIND = f"mixture {SET}/mixtures/words/tiny/chosen/seed0.json --runs {RUN} --out own.json"
DATABASE = f"database {SET}/experiment.json --out own.duckdb"
VERIFY = "verify results/data results/corpora"
NGRAMS = f"corpus {CORPUS} --ngrams 2"

READERS = {
    f"{DATA}/documents-00000.parquet": [PACK, TOKENIZER, VERIFY],
    LETTERS: [PACK, EVALUATE],
    f"{CORPUS}/train-00000.bin": [TRAIN, EVALUATE, VERIFY, NGRAMS],
    f"{CORPUS}/train-documents.npy": [TRAIN, EVALUATE, VERIFY],
    f"{CORPUS}/validation-00000.bin": [EVALUATE, PROBE, VERIFY, NGRAMS],
    f"{CORPUS}/validation-documents.npy": [EVALUATE, VERIFY],
    f"{LAST}/model.safetensors": [EVALUATE, PROBE],
    f"{RUN}/weights.parquet": [FIND, DATABASE],
    f"{SCORES}/perplexities.parquet": [FIND, DATABASE],
    f"{RUN}/probes/step4.parquet": [DATABASE],
}
"""Every file of data with the commands that read it."""
SPOILED = {
    "has a flipped byte": lambda path: flip(path, 150),
    "has a flipped byte near its end": lambda path: flip(path, -2),
    "is cut off": cut,
    "is empty": put,
    "is another file": lambda path: copy(path, "config.yaml"),
    "is a folder": folder,
    "is gone": remove,
    "is a link to nothing": lambda path: link(path, "nowhere"),
}
BYTES = [
    Trial(
        f"{command.partition(' --')[0].replace(f'{SET}/', '')}: {path} {what}",
        command,
        (path.rpartition("/")[0] if path != LETTERS else "letters",),
        (spoil(path),),
    )
    for path, commands in READERS.items()
    for command in commands
    for what, spoil in SPOILED.items()
]

OWN = "download own.json --out own"


def source(bad, *says, name="own.jsonl", content=b'{"text": "one"}\n', **settings):
    values = {"kind": "local", "files": f"texts/{name}", **settings}
    edits = (put("own.json", json.dumps(values)), put(f"texts/{name}", content))
    return Trial(bad, OWN, says or (name,), edits)


def parquet(column):
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": column}), sink)
    return sink.getvalue()


def line(value):
    return json.dumps(value).encode() + b"\n"


NESTED = b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
TEXTS = [
    source("nested a thousand times", "own.jsonl:1", content=b"[" * 990 + b"]" * 990),
    source("nested without end", "own.jsonl:1", content=NESTED),
    source("an id of half a letter", "own.jsonl:1", content=b'{"text": "a", "id": "\\ud800"}\n'),
    source("a text of half a letter", "own.jsonl:1", content=b'{"text": "\\ud800"}\n'),
    source("a number as text", "own.jsonl:1", content=line({"text": 5})),
    source("a number without end", "own.jsonl:1", content=b'{"text": ' + b"9" * 5000 + b"}\n"),
    source("no text", "own.jsonl:1", content=line({"body": "a"})),
    source("no mapping", "own.jsonl:1", content=line(["a"])),
    source("half a line", "own.jsonl:1", content=b'{"text": "a'),
    source("not UTF-8", "own.jsonl:1", content=b'{"text": "\xff"}\n'),
    source("UTF-16", "own.jsonl", content='{"text": "a"}\n'.encode("utf-16")),
    source("zeros", "own.jsonl", content=bytes(4096)),
    source("blanks", "sources.own", content=line({"text": " "})),
    source("empty", content=b""),
    source("an unknown format", name="own.csv", content=b"text\none\n"),
    source("no suffix", name="own", content=b"one\n"),
    source("packed in name alone", name="own.jsonl.gz"),
    source("columns in name alone", name="own.parquet"),
    source("a column of numbers", name="own.parquet", content=parquet([1, 2])),
    source("a column of nothing", name="own.parquet", content=parquet([None, None])),
    source("half a file of columns", name="own.parquet", content=parquet(["a"] * 9)[:-9]),
    source("a text not in UTF-8", name="own.txt", content=b"\xff\xfe\xfd"),
    source("a name not in UTF-8", "own", name="own\udcff.jsonl", files="texts/*.jsonl"),
    source("a folder", "text", files="text"),
    source("nothing there", "none/*.txt", files="none/*.txt"),
    source("an absolute pattern of nothing", "/none/*.txt", files="/none/*.txt"),
    source("an empty pattern", "files", files=""),
    source("a list of nothing", "files", files=[]),
    source("a pattern that is a number", "files", files=5),
    source("an unfinished pattern", "texts/[", files="texts/["),
    source("a NUL in a pattern", "files", files="texts/\0"),
    source("an unknown field", "body", field="body"),
    source("an unknown way with bytes", "invalid_utf8", invalid_utf8="ignore"),
    source("an unknown kind", "kind", kind="lokal"),
    source("no bytes", "bytes", bytes=0),
    source("half a byte", "bytes", bytes=0.5),
]
LANGUAGE = {"kind": "synthetic", "order": 1, "symbols": 8, "successors": 2, "noise": 0.0} | {
    "alphabet": 0x4E00,
    "documents": 4,
    "length": 20,
    "seed": 1,
}
LANGUAGES = [
    Trial(f"a language of {name} {value}", OWN, (name,), (put("own.json", json.dumps(values)),))
    for name, value in (
        *(("order", n) for n in (-1, 3, 1.5, None)),
        *(("symbols", n) for n in (0, 1, -8, 10**7, "8")),
        *(("successors", n) for n in (0, 9, -1)),
        *(("noise", n) for n in (-0.1, 1.1, "none", None)),
        *(("alphabet", n) for n in (-1, 0, 0xD800, 0x10FFFF, 0x110000, 9)),
        *(("documents", n) for n in (0, -1, 4.5)),
        *(("length", n) for n in (0, -1)),
        *(("seed", n) for n in (-1, 0.5, None)),
        *(("overlap", n) for n in (-1, 2)),
    )
    for values in [{**LANGUAGE, name: value}]
]


@cases(BYTES)
def test_spoiled_bytes_are_refused(refuses, sound, trial):
    refuses(trial, sound)


@cases(TEXTS + LANGUAGES)
def test_a_source_is_refused(refuses, unmade, trial):
    refuses(trial, unmade)
