"""Words behind `pike` that mean nothing, and numbers out of their range."""

import pytest
from edits import put
from trials import COMMANDS, RUN, SOURCE, Trial, cases

TRAIN = COMMANDS["pretrain"]

SPLITS = "test={0} train={0} validation={0}".format

WORDS = [
    ("plan: an empty device", "plan --devices ''", "--devices"),
    ("fetch: a branch", "fetch arc_easy --revision main", "main"),
    ("fetch: a split that is none", "fetch arc_easy --from nothing=config.yaml", "nothing"),
    ("fetch: no split", "fetch arc_easy --from config.yaml", "SPLIT=FILE"),
    ("fetch: a file that is none", f"fetch arc_easy --from {SPLITS('none.jsonl')}", "none.jsonl"),
    ("fetch: files of two tasks", "fetch arc_easy csqa --from test=x", "--from"),
    ("verify: a file", "verify config.yaml", "config.yaml"),
    ("export: a step that is none", f"export {RUN} --step 3 --out own", "--step"),
    ("pretrain: a device of no kind", f"{TRAIN[:-3]}gpu", "gpu"),
    ("pretrain: a device that is not here", f"{TRAIN[:-3]}cuda", "cuda"),
    ("pretrain: a reference for nobody", f"{TRAIN} --reference {RUN}", "--reference"),
    ("plan: a device twice", "plan --devices h100,h100", "--devices", "h100"),
    (
        "pretrain: corpora of no tokenizer",
        f"pretrain {RUN}/run.json --corpora results/corpora",
        "results/corpora/easy",
    ),
    (
        "tokenizer: a source twice",
        COMMANDS["tokenizer"].replace(SOURCE, f"{SOURCE} {SOURCE}"),
        "easy",
    ),
    ("why: a slash behind", "why run/words/tiny/mix/seed0/", "run/words/tiny/mix/seed0"),
    ("query: a folder as database", "query 'select 1' --database results", "results"),
]
TRIALS = [Trial(bad, command, tuple(says)) for bad, command, *says in WORDS]

SIGNALLED = [("PIKE_PEAK_FLOPS", "fast"), ("PIKE_PEAK_FLOPS", "nan"), ("PIKE_PEAK_FLOPS", "-1")]


@cases(TRIALS)
def test_a_command_is_refused(refuses, sound, trial):
    refuses(trial, sound)


@pytest.mark.parametrize(("variable", "value"), SIGNALLED)
def test_a_variable_of_the_environment_is_refused(refuses, sound, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    refuses(Trial(f"{variable}={value}", TRAIN, (value,), (put("x"),)), sound)
