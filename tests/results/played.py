"""Invented runs that play parts of the paper, put straight into the tables of a database."""

import json
import math

import duckdb

from pipeline.results import sql_views

NAMES = (
    ("scenario", "mc4-en-hi-de", 4, "three languages"),
    ("scenario", "glam", 16, "six domains"),
    ("model", "gpt2-large", 1, "GPT-2 large"),
    ("method", "single-hi", 1, "C4 (hi)"),
    ("method", "mix", 10, "Mix"),
    ("method", "round-robin", 11, "Round-Robin"),
    ("method", "random", 12, "Random"),
    ("method", "glam", 15, "GLaM"),
    ("method", "pike", 17, "PiKE"),
    ("method", "pike-zeta1=0.1-zeta2=0", 30, "0"),
    ("method", "pike-zeta1=0.1-zeta2=0.1", 35, "0.1"),
    ("task", "en", 0, "C4 (en)"),
    ("task", "hi", 1, "C4 (hi)"),
    ("task", "hellaswag_en", 20, "HellaSwag (en)"),
    ("task", "arc_easy", 30, "ArcE"),
    ("task", "books", 14, "Books"),
)
PRINTED = (
    ("table1", "mc4-en-hi-de", "mix", "perplexity", "en", None, 11.13),
    ("table1", "mc4-en-hi-de", "mix", "perplexity", "average", None, 8.29),
    ("table1", "mc4-en-hi-de", "mix", "accuracy", "hellaswag_en", 7, 28.1),
    ("table1", "mc4-en-hi-de", "round-robin", "perplexity", "en", None, 11.31),
    ("table1", "mc4-en-hi-de", "random", "perplexity", "en", None, 11.38),
    ("table1", "mc4-en-hi-de", "pike", "perplexity", "en", None, 9.49),
    ("table9", "mc4-en-hi-de", "mix", "accuracy", "hellaswag_en", 7, 33.9),
    ("table2", "glam", "mix", "accuracy", "arc_easy", 7, 47.2),
    ("table11", "glam", "pike-zeta1=0.1-zeta2=0", "accuracy", "average", 7, 45.3),
    ("table11", "glam", "pike-zeta1=0.1-zeta2=0.1", "accuracy", "average", 7, 45.4),
)


def fresh(*wanted, path=":memory:"):
    """A database with all tables and no run, with all views or those wanted."""
    # Threads cost more than they save where tables have few rows.
    connection = duckdb.connect(str(path), config={"threads": 1})
    sql_views.create_schema(connection)
    sql_views.create_views(connection, *wanted)
    return connection


def insert(connection, into, /, *rows, **row):
    """Appends rows given by column; columns that are left out are null."""
    for one in [*rows, *([row] if row else [])]:
        marks = ", ".join("?" * len(one))
        names = ", ".join(f'"{name}"' for name in one)
        connection.execute(f"insert into {into} ({names}) values ({marks})", list(one.values()))


def ask(path, sql):
    """The rows of an answer of a database that lies on disk."""
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def columns_of(connection, view):
    """Names of a view's columns, known since it was created."""
    sql = "select column_name from information_schema.columns where table_name = ?"
    return {name for (name,) in connection.execute(sql, [view]).fetchall()}


def play(connection, **kinds):
    """By kind the names that are ours and the paper's, or pairs of (ours, published)."""
    for kind, names in kinds.items():
        for name in names:
            ours, published = (name, name) if isinstance(name, str) else name
            insert(connection, "published_names", kind=kind, ours=ours, published=published)


def evaluated(connection, name, step=10, **nll_by_domain):
    """Perplexities of one checkpoint: domain=(nll, stderr)."""
    for domain, (nll, stderr) in nll_by_domain.items():
        insert(
            connection, "perplexities", run=name, step=step, domain=domain, nll=nll, stderr=stderr,
            perplexity=math.exp(nll), bits_per_byte=nll / math.log(2), tokens=40,
        )  # fmt: skip


def scenarios_of_two(connection, names, weighed):
    """Scenarios of the domains a and b, which weigh 1 : 3 in `weighed` and alike in the others."""
    for place, scenario in enumerate(names):
        insert(connection, "scenarios", scenario=scenario, position=place)
        for position, domain in enumerate("ab"):
            target = 3 if (scenario, domain) == (weighed, "b") else 1
            insert(
                connection, "domains", scenario=scenario, domain=domain, position=position,
                target=target,
            )  # fmt: skip


def run(connection, method, seed=0, *, scenario="s", model="m", position=0, **facts):
    """One run, whose names are then known; returns its name."""
    name = f"{scenario}/{model}/{method}/seed{seed}"
    row = {"run": name, "scenario": scenario, "model": model, "method": method, "seed": seed}
    insert(connection, "runs", row | {"steps": 10, "tokens": 1000, "tokenizer": "t"} | facts)
    connection.execute("insert or ignore into methods values (?, ?)", [method, position])
    connection.execute("insert or ignore into scenarios values (?, 0)", [scenario])
    return name


def ran(connection, scenario, method, seed, a, b):
    """A run of model m that loses `a` and `b` nats a token on its two domains; its name."""
    name = run(connection, method, seed, scenario=scenario, device="cpu: x86_64, 1 thread")
    evaluated(connection, name, a=(a, 0.1), b=(b, 0.1))
    return name


def train(
    connection, scenario, name, perplexity, *, accuracy=None, seed=0, size="nano", **settings
):
    """One run with the perplexities of its domains, and an accuracy by task; its name."""
    values = {"rule": name, "method": {}, "training": {"steps": 10, "rows": 4}, **settings}
    facts = {"parameters": 1_500_000, "settings": json.dumps(values)}
    own = run(connection, name, seed, scenario=scenario, model=size, **facts)
    for place, (domain, value) in enumerate(perplexity.items()):
        insert(
            connection, "perplexities", run=own, step=10, domain=domain, nll=math.log(value),
            perplexity=value, bits_per_byte=1, tokens=40, stderr=0.01,
        )  # fmt: skip
        known = "select count(*) from domains where scenario = ? and domain = ?"
        if not connection.execute(known, [scenario, domain]).fetchone()[0]:
            connection.execute("insert into domains values (?, ?, ?, 1)", [scenario, domain, place])
    for task, value in (accuracy or {}).items():
        scored(connection, own, task, value)
    return own


def scored(connection, run, task, value, *, step=10, formulation="cf", stderr=1.0, examples=100):
    """One accuracy in percent."""
    insert(
        connection, "accuracies", run=run, step=step, task=task, shots=0, formulation=formulation,
        metric="per_token", value=value, stderr=stderr, examples=examples,
    )  # fmt: skip


def documents(connection, run, domain, *sums, step=10, first=0):
    """Sums (nll, tokens) over the documents of one checkpoint, which are numbered from `first`."""
    for number, (nll, tokens) in enumerate(sums, first):
        insert(
            connection, "documents", run=run, step=step, domain=domain, document=str(number),
            nll=nll, tokens=tokens, bytes=5,
        )  # fmt: skip
