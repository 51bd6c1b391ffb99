"""Questions that no database answers, and databases that are none."""

import shlex

import duckdb
from edits import copy, cut, flip, link, put
from trials import Trial, cases


def foreign(project):
    """A database that holds none of our tables."""
    with duckdb.connect(str(project / "own.duckdb")) as connection:
        connection.execute("create table own (x integer)")


QUESTION = "cannot answer the query"


def asks(bad, sql, *says, options=""):
    return Trial(bad, f"query {shlex.quote(sql)} {options}", says or (QUESTION,))


QUERIES = [
    asks("an error while it is read", "select error('stop here')", "stop here"),
    asks("bytes that are no UTF-8", "select '\udcff'", "utf-8"),
    asks("a new table", "create table own (x integer)"),
    asks("a lost table", "drop table runs"),
    asks("a file read", "select * from read_csv('config.yaml')"),
    asks("a file named as table", "select * from 'text/notes.jsonl'"),
    asks("a file written", "copy (select 1) to 'own.csv'"),
    asks("a database attached", "attach 'own.duckdb'"),
    asks("an extension", "install httpfs"),
    asks("external access switched on", "set enable_external_access = true"),
    asks("a parameter", "select ?"),
    asks("an unknown format", "select 1", "--format", "xml", options="--format xml"),
    asks("two questions", "select 1", "select 2", options="'select 2'"),
]  # fmt: skip

DATABASES = [
    ("no database", ()),
    ("a text", (put("own.duckdb", "this is no database\n" * 1000),)),
    ("a link to nothing", (link("own.duckdb", "nowhere"),)),
    ("a database cut off", (copy("own.duckdb", "results/pike.duckdb"), cut("own.duckdb"))),
    (
        "a database of bad checksum",
        (copy("own.duckdb", "results/pike.duckdb"), flip("own.duckdb", 9)),
    ),
]  # fmt: skip
COMMANDS = {
    "query": "query 'select 1' --database own.duckdb",
    "why": "why run/words/tiny/mix/seed0 --database own.duckdb",
    "table": "table results/settings/tables/perplexity.json --database own.duckdb --out own.md",
    "figure": "figure results/settings/figures/losses.json --database own.duckdb --out own.svg",
}
NO_DATABASES = [
    Trial(f"{command}: {bad}", COMMANDS[command], ("own.duckdb",), edits)
    for command in COMMANDS
    for bad, edits in DATABASES
    # All open a database by the same function.
    if command == "query" or bad == "a text"
]
FOREIGN = [
    Trial(f"{name}: a database of somebody else's", command, ("own.duckdb",), (foreign,))
    for name, command in COMMANDS.items()
    if name != "query"
]
ANSWERS = [
    Trial("why: nothing", "why ''", ("artifact",)),
    Trial("why: a wildcard", "why 'run/%'", ("run/%",)),
    Trial("why: a statement", 'why "\' or 1=1 --"', ("or 1=1",)),
]
TRIALS = [*QUERIES, *NO_DATABASES, *FOREIGN, *ANSWERS]


@cases(TRIALS)
def test_a_question_is_refused(refuses, sound, trial):
    refuses(trial, sound)
