"""Configurations that no experiment can have: refused by `pike plan`, before anything is made."""

import math
from pathlib import Path

import yaml
from trials import GONE, Trial, called, cases, folder, put, remove, values

HERE = Path(__file__).parent
CONFIG = yaml.safe_load((HERE / "config.yaml").read_text(encoding="utf-8"))
PLAN = "plan --config config.yaml --devices cpu"


def places(inner, at=""):
    """Each value within a mapping or list, with its place: runs/0/seeds."""
    for key, value in inner.items() if isinstance(inner, dict) else enumerate(inner):
        yield f"{at}{key}", value
        if isinstance(value, dict | list):
            yield from places(value, f"{at}{key}/")


PLACES = dict(places(CONFIG))
SECTIONS = [key for key, value in CONFIG.items() if not isinstance(value, str)]


def changed(what, at, value, *says):
    last = at.split("/")[-1]
    named = says or (at.split("/")[-2] if last.isdecimal() else last,)
    return Trial(f"{at} {what}", PLAN, named, (values("config.yaml", {at: value}),))


# A scenario may lay other values over a method's: those of a run are judged.
NUMBERS = [
    at
    for at, value in PLACES.items()
    if isinstance(value, int | float) and not at.startswith("methods/")
]
NO_NUMBERS = {
    "a word": "eight",
    "negative": -1,
    "nan": math.nan,
    "infinite": math.inf,
    "a list": [],
    "a mapping": {},
    "null": None,
    "true": True,
}
OF_EACH_TYPE = ("training/short/rows", "packing/validation_share", "runs/0/seeds/0")
"""A whole number, a share and an entry of a list; all else is checked by the same code."""
WRONG_NUMBERS = [
    changed(f"is {wrong}", at, value)
    for at in NUMBERS
    for wrong, value in NO_NUMBERS.items()
    if wrong in ("a word", "negative") or at in OF_EACH_TYPE
]

FREE_TEXTS = ("about", "licence")
TEXTS = [at for at, value in PLACES.items() if isinstance(value, str)]
NO_TEXTS = {"a number": 5, "a list": [[]], "a mapping": {}, "null": None}
WRONG_TEXTS = [
    changed(f"is {w}", at, v)
    for at in TEXTS
    for w, v in NO_TEXTS.items()
    if w == "a number" or (w == "null" and at != "methods/found/mixture") or at == "experiment"
]
EMPTY_TEXTS = [
    changed("is empty", at, "") for at in TEXTS if not at.endswith((*FREE_TEXTS, "files"))
]

NO_SECTIONS = {"a text": "text", "a number": 5, "null": None, "a list of numbers": [5]}
WRONG_SECTIONS = [changed(f"is {w}", at, v) for at in SECTIONS for w, v in NO_SECTIONS.items()]

OPTIONAL = (
    *("losses", "perplexity", "vocabulary_multiple", "choice", "probe", "pike", "licence", "about"),
    *("0", "1", "zeta1", "zeta2", "every", "first", "rows", "mixture"),
    *("distractors", "distractors_from", "split"),
)
"""Last parts of places that may be left out somewhere."""
ONLY = ("tokenizers/letters", "models/tiny", "training/short", "evaluation/few", "scenarios/words")
"""Their sections hold nothing else."""
MISSING = [
    changed("is missing", at, GONE, *{"mixtures": ["chosen"]}.get(at, at.split("/")[: at in ONLY]))
    for at in PLACES
    if at.split("/")[-1] not in OPTIONAL or at in ("training/short/rows", "evaluation/few/rows")
]

SURPRISES = [
    Trial(
        f"a key of no meaning in {at or 'the file'}",
        PLAN,
        ("surprise",),
        (values("config.yaml", {f"{at}/surprise".lstrip("/"): 1}),),
    )
    for at in ["", *(at for at, value in PLACES.items() if isinstance(value, dict))]
]

NO_NAMES = ["Mix", "mix\n", "-mix", "a b", "a/b", "..", "ünlü", "x" * 61, "mix{seed}", "a\x00b"]
WRONG_NAMES = [
    Trial(
        f"a name in {section} is {name!a:.20}",
        PLAN,
        (repr(name), "no text has" if "\0" in name else "lower-case letters"),
        (values("config.yaml", {section: {**CONFIG[section], name: {}}}),),
    )
    for section in ("sources", "methods", "scenarios")
    for name in NO_NAMES
]


def sets(what, changes, *says):
    return Trial(what, PLAN, says, (values("config.yaml", changes),))


def text(what, content, *says):
    return Trial(what, PLAN, says or ("config.yaml",), (put("config.yaml", content),))


SOUND = (HERE / "config.yaml").read_text(encoding="utf-8")
FILES = [
    Trial("no file", PLAN, ("config.yaml",), (remove("config.yaml"),)),
    Trial("a folder", PLAN, ("config.yaml",), (folder("config.yaml"),)),
    text("empty", "", "config.yaml", "empty"),
    text("a list", "- experiment: a\n"),
    text("not UTF-8", SOUND.encode().replace(b"notes", b"n\xf6tes")),
    text("a NUL", SOUND + "\0"),
    text("two documents", SOUND + "---\n" + SOUND),
    text("an unknown tag", SOUND + "quick: !!python/object:os.system {}\n"),
    text("a list within itself", SOUND + "quick: &a {tables: [*a]}\n", "line 65", "anchor"),
    text("a name that is a number", SOUND.replace("  pike:", "  7:"), "line 42", "7"),
    text("a value that is a date", SOUND.replace("CC0-1.0", "2024-01-01"), "licence"),
    text("1e-2, a text in YAML", SOUND.replace("1.0e-2", "1e-2"), "peak_learning_rate", "1.0e-2"),
    text("a thousand nested lists", SOUND + f"quick: {'[' * 1000}{']' * 1000}\n"),
]

NEVER = "0" * 40
HUB = {"kind": "huggingface", "dataset": "a/b", "revision": NEVER, "field": "text"} | {
    "bytes": 1000,
    "licence": "x",
}
MODEL = {"kind": "hub", "repository": "a/b", "revision": NEVER, "sha256": "0" * 64}
RULE = "methods/pike"
TOGETHER = [
    sets("warm-up longer than the run", {"training/short/warmup_steps": 5}, "warmup_steps"),
    sets("an odd head width", {"models/tiny/head_width": 7}, "head_width"),
    sets("a domain twice", {"scenarios/words/domains": ["easy", "easy"]}, "domains"),
    sets("a domain that is no source", {"scenarios/words/domains": ["esay"]}, "esay", "easy"),
    sets("no domains", {"scenarios/words/domains": []}, "domains"),
    sets("a seed twice", {"runs/0/seeds": [0, 0]}, "seeds"),
    sets("a seed above 64 bits", {"runs/0/seeds": [2**64]}, "seeds"),
    sets("no runs", {"runs": []}, "runs"),
    sets("a candidate beyond the rows", {"evaluation/few/choice/context": 600}, "context"),
    sets("a share of all", {"packing/validation_share": 1}, "validation_share"),
    sets("a share of nothing", {"packing/validation_share": 0.0}, "validation_share"),
    sets("half a row", {"training/short/rows": 4.5}, "rows"),
    sets("an order of three", {"sources/easy/order": 3}, "order"),
    sets("more successors than symbols", {"sources/easy/successors": 9}, "successors"),
    sets("an alphabet beyond Unicode", {"sources/easy/alphabet": 0x110000}, "alphabet"),
    sets("an alphabet of surrogates", {"sources/easy/alphabet": 0xD800}, "alphabet"),
    sets("a source of no kind", {"sources/easy": {}}, "kind"),
    sets("a source of an unknown kind", {"sources/easy/kind": "syntetic"}, "syntetic"),
    sets("no files", {"sources/notes/files": []}, "files"),
    sets("an empty pattern", {"sources/notes/files": ""}, "files"),
    sets("a branch of the Hub", {"sources/web": {**HUB, "revision": "main"}}, "revision"),
    sets("a pasted address", {"sources/web": HUB | {"dataset": "https://hf.co/a/b"}}, "dataset"),
    sets("an address of a model", {"tokenizers/t": {**MODEL, "repository": "https://a.b/c"}},
         "repository"),
    sets("a way out of a repository", {"tokenizers/t": {**MODEL, "repository": "../.."}},
         "repository"),
    sets("a checksum cut off", {"tokenizers/t": MODEL | {"sha256": "0" * 63}}, "sha256"),
    sets("a tokenizer without sources", {"tokenizers/letters/sources": []}, "sources"),
    sets("a tokenizer's unknown source", {"tokenizers/letters/sources": ["none"]}, "none"),
    sets("an unknown tokenizer", {"scenarios/words/tokenizer": "leters"}, "leters", "letters"),
    sets("an unknown rule", {f"{RULE}/rule": "pikee"}, "pikee", "pike"),
    sets("a setting of no rule", {f"{RULE}/zeta3": 1}, "zeta3"),
    sets("a mixture of itself", {"mixtures/chosen/methods": ["found"]}, "found", "circle"),
    sets("its own reference", {"methods/mix": {"rule": "doremi", "reference": "mix"}}, "reference"),
    sets("an unknown mixture", {"methods/found/mixture": "chosn"}, "chosn", "chosen"),
    sets("an unknown finder", {"mixtures/chosen/finder": "bset"}, "bset", "best"),
    sets("an option of no finder", {"mixtures/chosen/options": {"x": 1}}, "x"),
    sets("a mixture of nothing", {"mixtures/chosen": {"finder": "best"}}, "chosen"),
    sets("a swarm of none", {"swarms": {"s": {"runs": 0, "seed": 0}}}, "runs"),
    sets("a swarm of a million", {"swarms": {"s": {"runs": 10**6, "seed": 0}}}, "runs"),
    sets("an unknown table", {"tables/perplexitee": {}}, "perplexitee", "perplexity"),
    sets("a table of no run", {"tables/perplexity": {"methods": ["pike"]}}, "perplexity", "pike"),
    sets("a table of an unknown seed", {"tables/perplexity": {"seeds": [9]}}, "seeds", "9"),
    sets("an unknown figure", {"figures/loses": {}}, "loses", "losses"),
    sets("an unknown baseline", {"compare": {"baseline": "mixx"}}, "mixx", "mix"),
    sets("a role that the paper has not", {"paper": {"methods": {"mix": "nothing"}}}, "nothing"),
    sets("a task of no set", {"evaluation/few/tasks": [{"tasks": ["arc"], "shots": [0],
         "formulations": ["cf"]}]}, "arc"),
    sets("a task's branch", {"tasks": {"arc_easy": {"revision": "main"}}}, "revision"),
    sets("a results folder of nothing", {"results": ""}, "results"),
    sets("a results folder with a blank", {"results": "my results"}, "results"),
    sets("a file as results folder", {"results": "config.yaml"}, "config.yaml"),
    sets("more steps than a float counts", {"training/short/steps": 10**400}, "steps"),
    sets("a name as long as a page", {"scenarios/words/tokenizer": "x" * 9000}, "tokenizer"),
]  # fmt: skip

POSITIVE = (
    *("rows", "length", "steps", "checkpoint_every", "resume_every", "layers", "width", "heads"),
    *("vocabulary", "documents", "symbols", "successors", "items", "candidate", "batch_tokens"),
    *("peak_learning_rate", "microbatch", "distractors", "context", "characters", "alphabet"),
)
ZEROS = [
    changed("is zero", at, 0)
    for at in NUMBERS
    if at.split("/")[-1] in POSITIVE and not at.startswith("methods/")
]

CIRCLE = {
    "mixtures": {
        "chosen": {"finder": "best", "methods": ["other"]},
        "second": {"finder": "best", "methods": ["found"]},
    },
    "methods/other": {"rule": "fixed", "mixture": "second"},
}
REVIEWED = [
    text("steps in octal", SOUND.replace("steps: 4", "steps: 010"), "line 22", "010"),
    text("a rate beyond a float", SOUND.replace("1.0e-2", "1.0e+400"), "peak_learning_rate"),
    text("aliases of aliases", SOUND + "quick: {tables: &a [x,x,x,x,x,x,x,x,x]}\n"
         + "".join(f"q{n}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n"
                   for n in range(9))),
    text("a merge with itself", SOUND + "quick: &a {<<: *a}\n", "line 65"),
    text("a key of two tokens", SOUND.replace("  mix:", "  mix :\tx:")),
    sets("a Cyrillic letter in a name", {"runs/0/methods": ["m\u0456x"]}, "m\u0456x", "mix"),
    sets("mixtures of each other", CIRCLE, "circle"),
    sets("a table named with a slash", {"tables/a\\b": {}}, "a\\\\b"),
    sets("a table that leads away", {"tables/..": {}}, "tables", "'..'"),
    sets("an unknown quick table", {"quick": {"tables": ["speed"]}}, "speed"),
    sets("an experiment that leads away", {"experiment": "../x"}, "experiment"),
    sets("the text as results", {"results": "text/notes.jsonl"}, "text/notes.jsonl"),
    sets("an empty target of a finder", {"mixtures/chosen/options": {"target": {}}}, "target"),
    sets("a target of no domain", {"mixtures/chosen/options": {"target": {"hard": 1.0}}}, "hard"),
    sets("a prior without a sum", {"methods/found": {**CONFIG["methods"]["pike"],
         "prior": {"easy": 0, "notes": 0}}}, "prior"),
    sets("weights of nothing", {"methods/mix": {"rule": "fixed",
         "weights_by_domain": {"easy": 0.0, "notes": 0.0}}}, "weights_by_domain"),
    sets("a negative weight", {"methods/mix": {"rule": "fixed",
         "weights_by_domain": {"easy": -1.0, "notes": 2.0}}}, "weights_by_domain"),
    sets("a licence of two lines", {"sources/notes/licence": "a\u2028b\x00"}, "no text has"),
]  # fmt: skip

PACKAGE = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Own:\n    x: int = 1\n"


def own(what, rule, *says, module=None, code=""):
    edits = [values("config.yaml", {"methods/own": {"rule": rule}})]
    return Trial(
        what, PLAN, ("methods.own", *says), (*edits, *([put(module, code)] if module else []))
    )


RULES = [
    own("no module", "hostile_none:Own", "hostile_none"),
    own("no class", "hostile_a:Other", "Other", module="hostile_a.py", code=PACKAGE),
    own("a syntax error", "hostile_b:Own", "hostile_b", module="hostile_b.py", code="class Own(:"),
    own("not UTF-8", "hostile_c:Own", "hostile_c", module="hostile_c.py", code=b"# \xff\n"),
    own("a NUL", "hostile_d:Own", "hostile_d", module="hostile_d.py", code="\0"),
    own("a function", "os:system", "os"),
    own("nothing behind the colon", "hostile_a:", module="hostile_a.py", code=PACKAGE),
    own("nothing before the colon", ":Own", "rule"),
    own("two colons", "a:b:c", "a"),
    own("a path", "../x:Own", "../x"),
    own("relative", ".x:Own", ".x"),
    own("the program itself", "__main__:main", "main"),
]

TRIALS = [
    *(WRONG_NUMBERS + WRONG_TEXTS + EMPTY_TEXTS + WRONG_SECTIONS + MISSING + SURPRISES),
    *(WRONG_NAMES + FILES + TOGETHER + ZEROS + REVIEWED),
]


def test_the_sound_configuration_is_planned(unmade):
    code, printed, _ = called(PLAN, unmade)
    assert code == 0, printed


@cases(TRIALS)
def test_a_configuration_is_refused(refuses, unmade, trial):
    refuses(trial, unmade)


@cases(RULES)
def test_a_rule_of_ones_own_is_refused(refuses, unmade, trial, monkeypatch):
    monkeypatch.syspath_prepend("")  # The working folder.
    refuses(trial, unmade)
