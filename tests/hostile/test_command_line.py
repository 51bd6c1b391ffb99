"""Words behind `pike` that mean nothing, and numbers out of their range."""

import pytest
from trials import CORPUS, RUN, Trial, cases, put

OF_RUN = "--corpora results/corpora/letters --device cpu"
LETTERS = "results/tokenizers/letters.model"
TRAIN = f"pretrain {RUN}/run.json {OF_RUN}"
EVALUATE = f"evaluate {RUN}/evaluation.json"
PACK = (
    "pack results/settings/corpora/letters/easy.json --documents results/data/easy"
    f" --tokenizer {LETTERS} --out own"
)
DOWNLOAD = "download results/settings/sources/easy.json --out own"

SETTINGS = "results/settings/mixtures"
FIND = f"{SETTINGS}/words/tiny/chosen/seed0.json"
FOUND = "results/runs/words/tiny/found/seed0"
SPLITS = "test={0} train={0} validation={0}".format

WORDS = [
    ("nothing", "", "COMMAND"),
    ("a command that is none", "metods", "metods", "methods"),
    ("an option that is none", "methods --all", "--all"),
    ("a command in capitals", "Query 'select 1'", "Query"),
    ("a path in place of a command", "./config.yaml", "config.yaml"),
    ("an option in front", "--database results/pike.duckdb query", "query"),
    ("an empty word", "''", "''"),
    ("a rule that is none", "methods pikee", "pikee", "pike"),
    ("a rule in the paper's letters", "methods PiKE", "PiKE", "'pike'"),
    ("a module as a rule", "methods os:system", "os"),
    ("an empty rule", "methods ''", "''"),
    ("an unknown format", "methods --format html", "html"),
    ("plan: a kind of device", "plan --devices h1000", "h1000", "h100"),
    ("plan: no kind of device", "plan --devices", "--devices"),
    ("plan: an empty device", "plan --devices ''", "--devices"),
    ("plan: a price of nothing", "plan --prices h100", "h100"),
    ("plan: a price in words", "plan --prices h100=much", "h100=much"),
    ("plan: a price of another", "plan --prices h1000=2", "h1000"),
    ("plan: a negative price", "plan --devices h100 --prices h100=-2", "h100=-2"),
    ("plan: a price that is no number", "plan --devices h100 --prices h100=nan", "h100=nan"),
    ("plan: an infinite price", "plan --devices h100 --prices h100=inf", "h100=inf"),
    ("plan: a folder", "plan --config .", "--config"),
    ("plan: nothing there", "plan --config none.yaml", "none.yaml", "--config"),
    ("fetch: a task that is none", "fetch arc_esay", "arc_esay", "arc_easy"),
    ("fetch: a branch", "fetch arc_easy --revision main", "main"),
    ("fetch: a split that is none", "fetch arc_easy --from nothing=config.yaml", "nothing"),
    ("fetch: no split", "fetch arc_easy --from config.yaml", "SPLIT=FILE"),
    ("fetch: a file that is none", f"fetch arc_easy --from {SPLITS('none.jsonl')}", "none.jsonl"),
    ("fetch: a folder", f"fetch arc_easy --from {SPLITS('text')}", "text"),
    ("fetch: another format", f"fetch arc_easy --from {SPLITS('config.yaml')}", "config.yaml"),
    ("fetch: files of two tasks", "fetch arc_easy csqa --from test=x", "--from"),
    ("fetch: the task's name as a path", "fetch ../arc_easy", "../arc_easy"),
    ("verify: nothing", "verify", "FOLDER"),
    ("verify: nothing there", "verify none", "none"),
    ("verify: a file", "verify config.yaml", "config.yaml"),
    ("verify: no documents", "verify text", "text"),
    ("verify: no workers", "verify results/data --workers 0", "--workers"),
    ("verify: half a worker", "verify results/data --workers 0.5", "--workers"),
    ("corpus: nothing there", "corpus none", "none"),
    ("corpus: documents", "corpus results/data/easy", "results/data/easy"),
    ("corpus: a file", "corpus config.yaml", "config.yaml"),
    ("corpus: n of nothing", f"corpus {CORPUS} --ngrams 0", "--ngrams"),
    ("corpus: n beyond the text", f"corpus {CORPUS} --ngrams 100000", "--ngrams"),
    ("corpus: n in words", f"corpus {CORPUS} --ngrams two", "--ngrams"),
    ("watch: nothing there", "watch none --once", "none"),
    ("watch: a file", "watch config.yaml --once", "config.yaml"),
    ("watch: no runs", "watch text --once", "text"),
    ("watch: every moment", f"watch {RUN} --once --every 0", "--every"),
    ("watch: backwards", f"watch {RUN} --once --every -1", "--every"),
    ("watch: at no time", f"watch {RUN} --once --every nan", "--every"),
    ("export: nothing there", "export none --out own", "none"),
    ("export: a file", f"export {RUN}/run.json --out own", "run.json"),
    ("export: a step that is none", f"export {RUN} --step 3 --out own", "--step"),
    ("export: a step below 0", f"export {RUN} --step -1 --out own", "--step"),
    ("export: no run", "export results --out own", "results"),
    ("power: no difference", "power --difference 0", "--difference"),
    ("power: a negative one", "power --difference -1", "--difference"),
    ("power: one that is no number", "power --difference nan", "--difference"),
    ("power: an infinite one", "power --difference inf", "--difference"),
    ("power: more than all", "power --difference 101", "--difference"),
    ("power: a tiny one", "power --difference 1e-300", "--difference"),
    ("power: certain", "power --difference 1 --power 1", "--power"),
    ("power: a level of nothing", "power --difference 1 --level 0", "--level"),
    ("power: always right", "power --difference 1 --accuracy 100", "--accuracy"),
    ("power: fewer differ", "power --difference 1 --discordance 0.5", "discordance"),
    ("power: no discordance", "power --difference 1 --discordance nan", "discordance"),
    ("power: a spread below 0", "power --difference 1 --seed-sd -1", "--seed-sd"),
    ("power: a spread of no number", "power --difference 1 --seed-sd nan", "--seed-sd"),
    ("power: an endless spread", "power --difference 1 --seed-sd inf", "--seed-sd"),
    ("pretrain: no corpora", f"pretrain {RUN}/run.json", "--corpora"),
    ("pretrain: no threads", f"{TRAIN} --threads 0", "--threads"),
    ("pretrain: fewer threads", f"{TRAIN} --threads -1", "--threads"),
    ("pretrain: too many threads", f"{TRAIN} --threads 99999999999", "--threads"),
    ("pretrain: no processes", f"{TRAIN} --processes 0", "--processes"),
    ("pretrain: an unknown signal", f"{TRAIN} --save-on KILL", "--save-on"),
    ("pretrain: a device of no kind", f"{TRAIN[:-3]}gpu", "gpu"),
    ("pretrain: a device that is not here", f"{TRAIN[:-3]}cuda", "cuda"),
    ("pretrain: no peak", f"{TRAIN} --peak-flops 0", "--peak-flops"),
    ("pretrain: a negative peak", f"{TRAIN} --peak-flops -1", "--peak-flops"),
    ("pretrain: a peak of no number", f"{TRAIN} --peak-flops nan", "--peak-flops"),
    ("pretrain: a mixture for nobody", f"{TRAIN} --mixture config.yaml", "--mixture"),
    ("pretrain: a reference for nobody", f"{TRAIN} --reference {RUN}", "--reference"),
    ("pretrain: a shard of one", f"{TRAIN} --shard", "--shard"),
    ("evaluate: nothing", EVALUATE, "--run"),
    ("evaluate: no tokenizer", f"{EVALUATE} --run {RUN} {OF_RUN}", "--tokenizer"),
    ("pack: no workers", f"{PACK} --workers 0", "--workers"),
    ("pack: workers in words", f"{PACK} --workers two", "--workers"),
    ("pack: no settings", "pack", "SETTINGS"),
    ("download: no workers", f"{DOWNLOAD} --workers 0", "--workers"),
    ("download: workers below 0", f"{DOWNLOAD} --workers -4", "--workers"),
    ("theory: nowhere", "theory", "--out"),
    ("mixture: of nothing", f"mixture {RUN}/run.json --out own.json --runs", "--runs"),
    ("plan: a device twice", "plan --devices h100 h100", "--devices", "h100"),
    ("export: a step in hexadecimal", f"export {RUN} --step 0x2 --out own", "--step"),
    ("export: a step in superscript", f"export {RUN} --step \u00b2 --out own", "--step"),
    ("pretrain: threads with an underscore", f"{TRAIN} --threads 1_0", "--threads"),
    ("pretrain: an endless wait", f"{TRAIN} --wait 1e400", "--wait"),
    ("pretrain: a wait of nothing", f"{TRAIN} --wait ''", "--wait"),
    ("pretrain: an endless peak", f"{TRAIN} --peak-flops 1e400", "--peak-flops"),
    ("pretrain: no place of corpora", f"pretrain {RUN}/run.json --corpora ''", "--corpora"),
    (
        "pretrain: corpora of no tokenizer",
        f"pretrain {RUN}/run.json --corpora results/corpora",
        "results/corpora/easy",
    ),
    ("watch: a number with an underscore", f"watch {RUN} --once --every 1_0", "--every"),
    ("power: a difference with an underscore", "power --difference 1_0", "--difference"),
    ("power: a difference in letters", "power --difference infinity", "--difference"),
    ("mixture: another's run", f"mixture {FIND} --out own.json --runs {FOUND}", FOUND),
    (
        "tokenizer: a source twice",
        "tokenizer results/settings/tokenizers/letters.json --sources"
        " results/data/easy results/data/easy --out own.model",
        "easy",
    ),
    ("why: a slash behind", "why run/words/tiny/mix/seed0/", "run/words/tiny/mix/seed0"),
    ("query: a folder as database", "query 'select 1' --database results", "results"),
    ("query: no database", "query 'select 1' --database ''", "--database"),
    ("verify: an empty name", "verify ''", "FOLDER", "empty"),
    ("compare: one", "compare results/pike.duckdb", "SECOND"),
    ("compare: three", "compare a.duckdb b.duckdb c.duckdb", "c.duckdb"),
    ("query: nothing there", "query 'select 1' --database own.duckdb", "own.duckdb"),
]
TRIALS = [Trial(bad, command, tuple(says)) for bad, command, *says in WORDS]

SIGNALLED = [
    ("PIKE_PEAK_FLOPS", "fast"),
    ("PIKE_PEAK_FLOPS", "nan"),
    ("PIKE_PEAK_FLOPS", "-1"),
]


@cases(TRIALS)
def test_a_command_is_refused(refuses, sound, trial):
    refuses(trial, sound)


@pytest.mark.parametrize(("variable", "value"), SIGNALLED)
def test_a_variable_of_the_environment_is_refused(refuses, sound, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    refuses(Trial(f"{variable}={value}", TRAIN, (value,), (put("x"),)), sound)
