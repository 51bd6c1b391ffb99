"""Two databases as one: the second's runs stand for a method that is compared with the first's.

So the tests that compare methods within one database do it: losses by document
(`method_differences`), multiple choice by item (`comparisons`), both by seed.
"""

import json
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError
from pipeline.planning import paper_roles
from pipeline.results import comparisons, views
from pipeline.results.selection import connect
from pipeline.statistics import paired

FIRST, SECOND = "first", "second"
TABLES = ("runs", "domains", "corpora", "perplexities", "documents", "accuracies", "choices")
"""Tables that both databases must have, with all their columns."""
VIEWS = ("method_domains", "method_averages", "domain_differences", "method_differences")
"""Views that compare methods by their losses."""
FACTS = (
    "steps", "tokens", "parameters", "tokenizer", "device", "code_fingerprint", "code_commit",
    "data_fingerprint", "weights_sha256",
)  # fmt: skip
"""Columns of `runs` that can differ beside the settings."""
COLUMNS = (
    "kind", "name", "quantity", "first", "second", "difference", "low", "high", "p", "seeds",
    "verdict",
)  # fmt: skip

PAIRED = f"""
    create temp table common as
        select a.run, a.scenario, a.model, a.method, a.seed, a.tokenizer,
            count(*) over (partition by a.scenario, a.model, a.method) as seeds
        from {FIRST}.runs as a join {SECOND}.runs as b on a.run = b.run;
    -- Each method with all its seeds, and where there are several each run by itself.
    create temp table labelled as
        select run, scenario, model || '/' || method as name, seed, tokenizer from common
        union all
        select run, scenario, model || '/' || method || '/seed' || seed, 0, tokenizer
        from common where seeds > 1;
    alter table labelled add column label text;
    update labelled set label = scenario || '/' || name || '/' || seed;
    create temp table same_text as
        select a.tokenizer, a.source
        from {FIRST}.corpora as a
        join {SECOND}.corpora as b
            on a.tokenizer = b.tokenizer and a.source = b.source and a.split = b.split
            and a.fingerprint = b.fingerprint
        where a.split = 'validation';
    insert into experiment values ('compare', '{FIRST}', null, '{{}}');
    insert into methods values ('{FIRST}', 0), ('{SECOND}', 1);
    insert into scenarios select distinct scenario, 0 from common;
    insert into domains select scenario, domain, min(position) from {FIRST}.domains group by all;
"""
SIDE = """
    insert into runs by name
        select r.* replace ('{side}/' || l.label as run, l.name as model, '{side}' as method,
            l.seed as seed)
        from labelled as l join {side}.runs as r on l.run = r.run;
    insert into perplexities by name
        select p.* replace ('{side}/' || l.label as run)
        from labelled as l join {side}.perplexities as p on l.run = p.run
        qualify p.step = max(p.step) over (partition by l.label);
    insert into documents by name
        select d.* replace ('{side}/' || l.label as run)
        from labelled as l
        join {side}.documents as d on l.run = d.run
        join same_text as t on l.tokenizer = t.tokenizer and d.domain = t.source
        qualify d.step = max(d.step) over (partition by l.label);
    insert into accuracies by name
        select a.* replace ('{side}/' || l.label as run)
        from labelled as l join {side}.accuracies as a on l.run = a.run
        qualify a.step = max(a.step) over (partition by l.label);
    insert into choices by name
        select c.* replace ('{side}/' || l.label as run)
        from labelled as l
        join {side}.choices as c on l.run = c.run
        left join same_text as t
            on l.tokenizer = t.tokenizer and c.task = '{continuation}' || t.source
        where t.source is not null or not starts_with(c.task, '{continuation}')
        qualify c.step = max(c.step) over (partition by l.label);
"""
"""What a side's records become: runs of one method. Continuations of another text are left out."""

PERPLEXITIES = f"""
    with domains_of as (
        select a.scenario, a.model, a.domain, a.perplexity as first, b.perplexity as second,
            least(a.seeds, b.seeds) as seeds, d.perplexity_low as low, d.perplexity_high as high,
            1.96 * sqrt(a.perplexity_stderr ^ 2 + b.perplexity_stderr ^ 2) as half
        from method_domains as a
        join method_domains as b
            on a.scenario = b.scenario and a.model = b.model and a.domain = b.domain
        left join domain_differences as d
            on a.scenario = d.scenario and a.model = d.model and a.domain = d.domain
        where a.method = '{FIRST}' and b.method = '{SECOND}'
        union all
        select a.scenario, a.model, 'mean', a.perplexity, b.perplexity, least(a.seeds, b.seeds),
            d.perplexity_low, d.perplexity_high,
            1.96 * sqrt(a.perplexity_stderr ^ 2 + b.perplexity_stderr ^ 2)
        from method_averages as a
        join method_averages as b on a.scenario = b.scenario and a.model = b.model
        left join method_differences as d on a.scenario = d.scenario and a.model = d.model
        where a.method = '{FIRST}' and b.method = '{SECOND}'
    )
    select 'perplexity', scenario || '/' || model, domain, first, second, second - first,
        coalesce(low, second - first - half), coalesce(high, second - first + half), null, seeds,
        case when low is null then ', unpaired' else '' end
    from domains_of
    order by scenario, model, domain = 'mean', domain
"""
ACCURACIES = f"""
    with scores as (
        select r.scenario, r.model, r.method, a.task, a.shots, a.formulation, a.metric,
            avg(a.value) as value, count(*) as seeds, sqrt(avg(a.stderr ^ 2)) as stderr
        from accuracies as a
        join runs as r on a.run = r.run
        group by all
    )
    select 'accuracy', a.scenario || '/' || a.model,
        a.task || ', ' || a.shots || '-shot, ' || a.formulation || ', ' || a.metric,
        a.value, b.value, b.value - a.value,
        coalesce(t.low, b.value - a.value - 1.96 * sqrt(a.stderr ^ 2 + b.stderr ^ 2)),
        coalesce(t.high, b.value - a.value + 1.96 * sqrt(a.stderr ^ 2 + b.stderr ^ 2)),
        t.p_holm, least(a.seeds, b.seeds), case when t.p is null then ', unpaired' else '' end
    from scores as a
    join scores as b
        on a.scenario = b.scenario and a.model = b.model and a.task = b.task
        and a.shots = b.shots and a.formulation = b.formulation and a.metric = b.metric
    left join accuracy_tests as t
        on a.scenario = t.scenario and a.model = t.model and a.task = t.task
        and a.shots = t.shots and a.formulation = t.formulation and a.metric = t.metric
    where a.method = '{FIRST}' and b.method = '{SECOND}'
    order by all
"""

Row = tuple[Any, ...]
"""A value for each of `COLUMNS`."""


def both(first: Path, second: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory with both attached, and what their common runs left in its tables.

    Raises:
        InputError: one is missing, is no database or lacks a column that this version reads.
    """
    for path in (first, second):
        _check(path)
    connection = duckdb.connect()
    for side, path in ((FIRST, first), (SECOND, second)):
        quoted = str(path).replace("'", "''")
        connection.execute(f"attach '{quoted}' as {side} (read_only)")
    connection.execute(views.schema())
    for name in views.ordered(*VIEWS):
        connection.execute(f"create view {name} as {views.texts()[name]}")
    connection.execute(PAIRED)
    for side in (FIRST, SECOND):
        connection.execute(SIDE.format(side=side, continuation=paper_roles.CONTINUATION))
    comparisons.fill(connection)
    return connection


def _check(path: Path) -> None:
    connection = connect(path)
    sql = "select table_name, column_name from information_schema.columns"
    have = set(connection.execute(sql).fetchall())
    connection.close()
    memory = duckdb.connect()
    memory.execute(views.schema())
    wanted = {row for row in memory.execute(sql).fetchall() if row[0] in TABLES}
    memory.close()
    missing = sorted(f"{table}.{column}" for table, column in wanted - have)
    if not wanted & have:
        raise InputError(f"{path} is no database of an experiment: give one of `pike database`")
    if missing:
        raise InputError(
            f"{path} lacks {', '.join(missing)}: it was made by another version; make it anew from "
            "its records with `pike database` and this version"
        )


def runs(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """All runs of both, and which have them."""
    found = connection.execute(
        f"select coalesce(a.run, b.run), a.run is not null, b.run is not null "
        f"from {FIRST}.runs as a full join {SECOND}.runs as b on a.run = b.run order by 1"
    ).fetchall()
    verdicts = {(True, True): "in both", (True, False): "first only", (False, True): "second only"}
    return [_row("run", run, verdict=verdicts[a, b]) for run, a, b in found]


def settings(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Settings and facts of common runs that are not the same."""
    columns = ", ".join(f"{side}.{name}" for name in FACTS for side in ("a", "b"))
    found = connection.execute(
        f"select a.run, a.settings, b.settings, {columns} "
        f"from {FIRST}.runs as a join {SECOND}.runs as b on a.run = b.run order by a.run"
    ).fetchall()
    rows = []
    for (
        run,
        *texts,
    ) in found:
        one, other = (_flat(json.loads(text)) for text in texts[:2])
        values = {key: (one.get(key), other.get(key)) for key in sorted(one.keys() | other.keys())}
        facts = {name: tuple(texts[2 + 2 * i : 4 + 2 * i]) for i, name in enumerate(FACTS)}
        for kind, pairs in (("setting", values), ("fact", facts)):
            rows += [
                _row(kind, run, key, *pair, verdict="differs")
                for key, pair in pairs.items()
                if pair[0] != pair[1]
            ]
    return rows


def _flat(values: Any, before: str = "") -> dict[str, str]:
    """Every leaf as text, by its path: method.zeta1."""
    if not isinstance(values, dict):
        return {before: json.dumps(values, ensure_ascii=False)}
    found: dict[str, str] = {}
    for key, value in values.items():
        found |= _flat(value, f"{before}.{key}" if before else key)
    return found


def corpora(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Corpora that both have and that hold other tokens."""
    found = connection.execute(
        f"select a.tokenizer || '/' || a.source, a.split || ' tokens', a.tokens, b.tokens "
        f"from {FIRST}.corpora as a join {SECOND}.corpora as b using (tokenizer, source, split) "
        "where a.fingerprint is distinct from b.fingerprint order by all"
    ).fetchall()
    return [_row("corpus", *row, verdict="other text") for row in found]


def numbers(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Perplexities and accuracies after the last step of both."""
    rows = []
    for row in (
        connection.execute(PERPLEXITIES).fetchall() + connection.execute(ACCURACIES).fetchall()
    ):
        *_, difference, low, high, p, _seeds, how = row
        rows.append((*row[:-1], _verdict(difference, low, high, p) + how))
    return rows


def _verdict(difference: float, low: float | None, high: float | None, p: float | None) -> str:
    """Equal; significant by its p-value, else by its interval; or not."""
    if difference == 0:
        return "equal"
    if p is not None:
        return "significant" if p < paired.LEVEL else "not significant"
    if low is None or high is None:
        return "no error"
    return "significant" if low > 0 or high < 0 else "not significant"


def _row(kind: str, name: str, quantity: str = "", *both: Any, verdict: str) -> Row:
    first, second = both or (None, None)
    return (kind, name, quantity, first, second, None, None, None, None, None, verdict)
