"""Paths that lead to the wrong place: what lies there must stay, and the message names it."""

from edits import copy, link, put
from trials import COMMANDS, RUN, SET, SOURCE, Trial, cases, onto

MINE = put("mine/thesis.txt", "years of work\n")

FOLDERS = {**{name: COMMANDS[name] for name in ("download", "pack")}, "theory": "theory --out own"}
MAKE_FILES = ("tokenizer", "database", "table", "figure", "report", "mixture")
FILES = {name: COMMANDS[name] for name in MAKE_FILES}
NOWHERE = {
    "a folder of one's own": ("mine", "mine", MINE),
    "the working directory": (".", "--out"),
    "the folder above": ("..", "--out"),
    "nothing": ("''", "--out"),
}
NOT_FOR_A_FOLDER = NOWHERE | {
    "a folder within one's own, through a link": ("short", "short", MINE, link("short", "mine")),
    "the results": ("results", "results"),
    "another stage's work": (RUN, RUN),
    "a file": ("config.yaml", "config.yaml"),
    "a link to a file": ("short", "short", link("short", "config.yaml")),
    "a place of the system's": ("/proc/own/own", "/proc/own"),
}
NOT_FOR_A_FILE = NOWHERE | {
    "a place of the system's": ("/proc/own/own.md", "/proc/own"),
    "the text": ("text/notes.jsonl", "text/notes.jsonl"),
    "a link to the text": ("short", "short", link("short", "text/notes.jsonl")),
    "the settings": ("settings.json", "settings.json"),
}
EVERYWHERE = ("a folder of one's own", "a file", "the text", "the settings")


def tried(name, command, where, way):
    out, says, *edits = way
    if out == "settings.json":
        settings = command.split()[1]
        command = command.replace(settings, out)
        edits.append(copy(out, settings))
    return Trial(f"{name}: onto {where}", onto(command, out), (says,), tuple(edits))


OUTPUTS = [
    tried(name, command, where, way)
    for commands, ways in ((FOLDERS, NOT_FOR_A_FOLDER), (FILES, NOT_FOR_A_FILE))
    for name, command in commands.items()
    for where, way in ways.items()
    # Whatever the command, the same functions look at a place: one command tries them all.
    if name in ("download", "tokenizer") or where in EVERYWHERE
]
SAME = [
    Trial("pack: onto its documents", onto(COMMANDS["pack"], SOURCE), (SOURCE,)),
    Trial(
        "tokenizer: a model beside settings of its name",
        FILES["tokenizer"].replace(f"{SET}/tokenizers/letters.json", "own.json"),
        ("own.json",),
        (copy("own.json", f"{SET}/tokenizers/letters.json"),),
    ),
    Trial("mixture: onto a run", onto(FILES["mixture"], f"{RUN}/run.json"), (f"{RUN}/run.json",)),
]

READING = [COMMANDS[name] for name in (*FILES, "pretrain", "evaluate", "probe", "pack", "download")]
WRONG = {"nothing there": "none", "a text": "text/notes.jsonl"}
INPUTS = [
    Trial(
        f"{command.split()[0]}: {where} in place of {path}",
        " ".join(wrong if word == path else word for word in command.split()),
        (wrong,),
    )
    for command in READING
    for path in command.split()
    # Folders of tables and figures may lack.
    if "/" in path and path not in ("results/tables", "results/figures")
    for where, wrong in WRONG.items()
]


@cases(OUTPUTS + SAME + INPUTS)
def test_a_place_is_refused(refuses, sound, trial):
    refuses(trial, sound)
