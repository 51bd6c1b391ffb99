"""Configurations that no experiment can have: refused by `pike plan`, before anything is made."""

import math
import re
from pathlib import Path

import yaml
from edits import GONE, put, values
from trials import Trial, called, cases

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


def last(at):
    return at.rpartition("/")[2]


def named(at):
    """A place as messages name it: runs[0].seeds[0]."""
    return re.sub(r"\.(\d+)", r"[\1]", at.replace("/", "."))


def sets(what, changes, *says):
    return Trial(what, PLAN, says, (values("config.yaml", changes),))


def at_once(what, value, places):
    """All these places hold a wrong value: the message names every one."""
    says = (f"config.yaml: {named(at)}: " for at in places)
    return sets(what, dict.fromkeys(places, value), *says)


def missing(what, places):
    """All these are taken out: the message names every one and the section that lacks it."""
    parts = (at.rpartition("/") for at in places)
    says = (
        f"config.yaml: {named(way)}{slash and ': '}{key} is missing" for way, slash, key in parts
    )
    return sets(what, dict.fromkeys(places, GONE), *says)


LEAVES = [at for at, value in PLACES.items() if not isinstance(value, dict | list)]
NUMBERS = [
    at
    for at in LEAVES
    # A scenario may lay other values over a method's: those of a run are judged.
    if isinstance(PLACES[at], int | float) and not at.startswith("methods/")
]
NO_NUMBERS = {"a word": "eight", "negative": -1, "nan": math.nan, "null": None, "true": True}
TEXTS = [at for at in LEAVES if isinstance(PLACES[at], str)]
# A mapping of no kind is looked at no further, nor a method of no rule.
KINDS = [at for at in TEXTS if last(at) in ("kind", "rule")]
OTHERS = [at for at in TEXTS if at not in KINDS and last(at) != "files"]
CHOICES = ["experiment", "results", "tokenizers/letters/model", "probe/few/split"]
CHOICES += [at for at in OTHERS if last(at) in ("checkpoints", "distractors_from")]
NAMES = [f"scenarios/words/{key}" for key in ("tokenizer", "training", "evaluation", "probe")]
NAMES += [f"runs/0/{key}/0" for key in ("scenarios", "models", "methods")]
NAMES += ["mixtures/chosen/finder", "mixtures/chosen/methods/0", "methods/found/mixture"]
NAMES += ["tokenizers/letters/sources/0", "scenarios/words/domains/0"]
SECTIONS = [key for key, value in CONFIG.items() if not isinstance(value, str)]
WRONG = [
    *(at_once(f"numbers: {wrong}", value, NUMBERS) for wrong, value in NO_NUMBERS.items()),
    at_once("kinds: a number", 5, KINDS),
    sets("files: a number", {"sources/notes/files": 5}, "sources.notes.files[0]: 5"),
    at_once("other texts: a number", 5, OTHERS),
    at_once("choices: empty", "", CHOICES),
    at_once("sections: a text", "text", SECTIONS),
    at_once("sections: null", None, SECTIONS),
    sets("names: empty", dict.fromkeys(NAMES, ""),
         *(f"{named(at).removesuffix('[0]')}: ''" for at in NAMES)),
]  # fmt: skip

OPTIONAL = (
    *("vocabulary_multiple", "licence", "about", "mixture", "probe"),
    *("distractors", "distractors_from", "split"),
)
"""Last parts of places that may be left out."""
VALUES = [
    at
    for at in LEAVES
    if at not in KINDS and last(at) not in OPTIONAL and not last(at).isdecimal()
    if not at.startswith("methods/")
]
LISTS = [*(f"runs/0/{key}" for key in CONFIG["runs"][0]), "scenarios/words/domains"]
# Runs without methods have all of them.
NEEDED = [*(at for at in LISTS if last(at) != "methods"), "tokenizers/letters/sources"]
NAMED = ["sources", "tokenizers", "models", "training", "evaluation", "scenarios"]
MISSING = [
    missing("sections: missing", [key for key in SECTIONS if key != "mixtures"]),
    missing("kinds: missing", [at for at in KINDS if last(at) == "kind"]),
    missing("values: missing", VALUES),
    missing("lists: missing", NEEDED),
    at_once("rules: missing", GONE, [at for at in KINDS if last(at) == "rule"]),
    sets("every name: missing", {key: {} for key in NAMED},
         *(f"config.yaml: {key}: name at least one" for key in NAMED)),
    sets("mixtures: missing", {"mixtures": GONE}, "methods.found.mixture: 'chosen'"),
    sets("its methods: missing", {"mixtures/chosen/methods": GONE}, "chosen", "swarm or methods"),
]  # fmt: skip

PARTS = [at for at, value in PLACES.items() if isinstance(value, dict) and "/" in at] + ["packing"]
GROUPS = [key for key in SECTIONS if key not in ("packing", "runs")]
NO_NAMES = ["Mix", "mix\n", "a/b", "..", "x" * 61]
OF_NAMES = ("sources", "methods")
UNKNOWN = [
    sets("a key of no meaning", {"surprise": 1}, "config.yaml: 'surprise' is unknown"),
    sets("keys of no meaning", {f"{at}/surprise": 1 for at in PARTS},
         *(f"config.yaml: {named(at)}: 'surprise' is unknown" for at in PARTS)),
    at_once("names of no meaning", 1, [f"{key}/surprise" for key in GROUPS]),
    sets("no names", {key: CONFIG[key] | {name: {} for name in NO_NAMES} for key in OF_NAMES},
         *(f"config.yaml: {key}: the name: {name!r} is" for key in OF_NAMES for name in NO_NAMES)),
    *(sets(f"a NUL in {key}", {key: {**CONFIG[key], "a\x00b": {}}}, repr("a\x00b"), "no text has")
      for key in OF_NAMES),
]  # fmt: skip


def text(what, content, *says):
    return Trial(what, PLAN, says or ("config.yaml",), (put("config.yaml", content),))


SOUND = (HERE / "config.yaml").read_text(encoding="utf-8")
NEVER = "0" * 40
MODEL = {"kind": "hub", "repository": "a/b", "revision": NEVER, "sha256": "0" * 64}
RULE = "methods/pike"
TOGETHER = [
    sets("an odd head width", {"models/tiny/head_width": 7}, "head_width"),
    sets("a domain twice", {"scenarios/words/domains": ["easy", "easy"]}, "domains"),
    sets("a share of nothing", {"packing/validation_share": 0.0}, "validation_share"),
    sets("a way out of a repository", {"tokenizers/t": {**MODEL, "repository": "../.."}},
         "repository"),
    sets("a checksum cut off", {"tokenizers/t": MODEL | {"sha256": "0" * 63}}, "sha256"),
    sets("a tokenizer's unknown source", {"tokenizers/letters/sources": ["none"]}, "none"),
    sets("an average of two runs", {"mixtures/chosen": {"finder": "average", "methods": ["mix"],
         "seeds": [0, 1]}}, "mixtures.chosen", "reads one run, here are 2"),
    sets("weights of no folder", {"models/tiny/continued": True}, "tiny.continued", "transformers"),
    sets("an order of seven", {"sources/easy/order": 7}, "order"),
    sets("a swarm of a million", {"swarms": {"s": {"runs": 10**6, "seed": 0}}}, "runs"),
    sets("a table of no run", {"tables/perplexity": {"methods": ["pike"]}}, "perplexity", "pike"),
    sets("an unknown baseline", {"compare": {"baseline": "mixx"}}, "mixx", "mix"),
    sets("a task's branch", {"tasks": {"arc_easy": {"revision": "main"}}}, "revision"),
    sets("a file as results folder", {"results": "config.yaml"}, "config.yaml"),
    sets("the folder itself as results folder", {"results": "."}, "results: .: that is the folder"),
    sets("more pieces than there can be", {"tokenizers/letters/vocabulary": 10**11}, "vocabulary"),
    sets("a model that no machine holds", {"models/tiny/heads": 10**12}, "models.tiny.layers: ",
         "parameters, of which no machine holds more"),
    sets("thousands of names of no meaning", {f"k{n}": 1 for n in range(5000)},
         "'k0' is unknown", "and 4,850 more mistakes"),
    sets("more steps than a float counts", {"training/short/steps": 10**400}, "steps"),
]  # fmt: skip

REVIEWED = [
    text("a switch of YAML 1.1", SOUND + "paper: {comparable: yes}\n", "comparable: 'yes'"),
    text("a rate beyond a float", SOUND.replace("1.0e-2", "1.0e+400"), "peak_learning_rate"),
    sets("a table that leads away", {"tables/..": {}}, "tables", "'..'"),
    sets("a target of no domain", {"mixtures/chosen/options": {"target": {"hard": 1.0}}}, "hard"),
]  # fmt: skip

TRIALS = WRONG + MISSING + UNKNOWN + TOGETHER + REVIEWED


def test_the_sound_configuration_is_planned(unmade):
    code, printed = called(PLAN, unmade)
    assert code == 0, printed


@cases(TRIALS)
def test_a_configuration_is_refused(refuses, unmade, trial):
    refuses(trial, unmade)
