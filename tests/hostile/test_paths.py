"""Paths that lead to the wrong place: what lies there must stay, and the message names it."""

from edits import copy, link, put
from trials import RUN, Trial, cases

LETTERS = "results/tokenizers/letters.model"
MODELS = "results/corpora/letters"
SET = "results/settings"
DATABASE = "results/pike.duckdb"
MINE = put("mine/thesis.txt", "years of work\n")

FOLDERS = {
    "download": f"download {SET}/sources/easy.json --out",
    "pack": f"pack {SET}/corpora/letters/easy.json --documents results/data/easy"
    f" --tokenizer {LETTERS} --workers 1 --out",
    "theory": "theory --out",
}
FILES = {
    "tokenizer": f"tokenizer {SET}/tokenizers/letters.json"
    " --sources results/data/easy results/data/notes --out",
    "database": f"database {SET}/experiment.json --out",
    "table": f"table {SET}/tables/perplexity.json --database {DATABASE} --out",
    "figure": f"figure {SET}/figures/losses.json --database {DATABASE} --out",
    "report": f"report {SET}/experiment.json --database {DATABASE} --tables results/tables"
    " --figures results/figures --out",
    "mixture": f"mixture {SET}/mixtures/words/tiny/chosen/seed0.json --out",
}
NOT_FOR_A_FOLDER = {
    "a folder of one's own": ("mine", "mine", MINE),
    "a folder within one's own, through a link": ("short", "short", MINE, link("short", "mine")),
    "the working directory": (".", "--out"),
    "the folder above": ("..", "--out"),
    "nothing": ("''", "--out"),
    "the results": ("results", "results"),
    "another stage's work": (RUN, RUN),
    "a file": ("config.yaml", "config.yaml"),
    "a link to a file": ("short", "short", link("short", "config.yaml")),
    "a place of the system's": ("/proc/own/own", "/proc/own"),
}
NOT_FOR_A_FILE = {
    "a folder of one's own": ("mine", "mine", MINE),
    "the working directory": (".", "--out"),
    "the folder above": ("..", "--out"),
    "nothing": ("''", "--out"),
    "a place of the system's": ("/proc/own/own.md", "/proc/own"),
    "the text": ("text/notes.jsonl", "text/notes.jsonl"),
    "a link to the text": ("short", "short", link("short", "text/notes.jsonl")),
    "the settings": ("settings.json", "settings.json"),
}
EVERYWHERE = ("a folder of one's own", "a file", "the text", "the settings")
SETTINGS = {
    name: copy("settings.json", command.split()[1]) for name, command in FILES.items()
}  # fmt: skip


def onto(name, command, where, way):
    out, says, *edits = way
    own = SETTINGS.get(name) if out == "settings.json" else None
    if own:
        command = command.replace(command.split()[1], "settings.json")
    return Trial(
        f"{name}: onto {where}", f"{command} {out}", (says,), (*edits, *([own] if own else []))
    )


OUTPUTS = [
    onto(name, command, where, way)
    for commands, ways in ((FOLDERS, NOT_FOR_A_FOLDER), (FILES, NOT_FOR_A_FILE))
    for name, command in commands.items()
    for where, way in ways.items()
    # Whatever the command, the same functions look at a place: one command tries them all.
    if name in ("download", "tokenizer") or where in EVERYWHERE
]
SAME = [
    Trial("pack: onto its documents", FOLDERS["pack"] + " results/data/easy",
          ("results/data/easy",)),
    Trial(
        "tokenizer: a model beside settings of its name",
        FILES["tokenizer"].replace(f"{SET}/tokenizers/letters.json", "own.json") + " own.model",
        ("own.json",),
        (copy("own.json", f"{SET}/tokenizers/letters.json"),),
    ),
    Trial(
        "figure: a picture beside settings of its name",
        FILES["figure"].replace(f"{SET}/figures/losses.json", "own.json") + " own.svg",
        ("own.json",),
        (copy("own.json", f"{SET}/figures/losses.json"),),
    ),
    Trial("mixture: onto a run's settings", FILES["mixture"] + f" {RUN}/run.json",
          (f"{RUN}/run.json",)),
]  # fmt: skip

TRAIN = "pretrain {0} --corpora {1} --device cpu"
EVALUATE = "evaluate {0} --run {1} --corpora {2} --tokenizer {3} --device cpu"
PROBE = "probe {0} --run {1} --corpora {2} --device cpu"
PACK = "pack {0} --documents {1} --tokenizer {2} --out own"
READ = {
    TRAIN: (f"{RUN}/run.json", MODELS),
    EVALUATE: (f"{RUN}/evaluation.json", RUN, MODELS, LETTERS),
    PROBE: (f"{RUN}/probe.json", RUN, MODELS),
    PACK: (f"{SET}/corpora/letters/easy.json", "results/data/easy", LETTERS),
    "tokenizer {0} --sources {1} --out own.model": (
        f"{SET}/tokenizers/letters.json",
        "results/data/easy",
    ),
    "download {0} --out own": (f"{SET}/sources/easy.json",),
    "mixture {0} --out own.json": (f"{SET}/mixtures/words/tiny/chosen/seed0.json",),
    "database {0} --out own.duckdb": (f"{SET}/experiment.json",),
    "table {0} --database {1} --out own.md": (f"{SET}/tables/perplexity.json", DATABASE),
    "figure {0} --database {1} --out own.svg": (f"{SET}/figures/losses.json", DATABASE),
    "report {0} --database {1} --tables results/tables --figures results/figures --out own.html": (
        f"{SET}/experiment.json",
        DATABASE,
    ),
}
"""What each command reads: every place in turn is replaced by a wrong one."""
WRONG = {"nothing there": ("none", ()), "a text": ("text/notes.jsonl", ())}


def replaced(given, place, wrong):
    return [wrong if n == place else path for n, path in enumerate(given)]


INPUTS = [
    Trial(
        f"{command.split()[0]}: {where} in place of {path}",
        command.format(*replaced(given, place, wrong)),
        (wrong,),
        edits,
    )
    for command, given in READ.items()
    for place, path in enumerate(given)
    for where, (wrong, edits) in WRONG.items()
]


@cases(OUTPUTS + SAME)
def test_an_output_is_refused(refuses, sound, trial):
    refuses(trial, sound)


@cases(INPUTS)
def test_an_input_is_refused(refuses, sound, trial):
    refuses(trial, sound)
