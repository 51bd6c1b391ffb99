"""Two databases beside each other: two machines, two versions of the code, two corpora.

The second's runs stand for a method that is compared with the first's. So the tests that compare
methods within one database do it: losses by document (`seed_differences`), multiple choice by item
(`comparisons`), both by seed.
"""

import json
from pathlib import Path
from typing import Any, Literal

import duckdb

from pike_mixing.errors import InputError
from pipeline.planning import paper_roles
from pipeline.results import comparisons, query, views
from pipeline.results.selection import connect

Format = Literal["text", "csv", "json"]

TABLES = ("runs", "domains", "corpora", "perplexities", "documents", "accuracies", "choices")
"""Tables that both databases must have, with all their columns."""
FACTS = (
    "steps", "tokens", "parameters", "tokenizer", "device", "code_fingerprint", "code_commit",
    "data_fingerprint", "weights_sha256",
)  # fmt: skip
"""Columns of `runs` that can differ beside the settings."""
COLUMNS = (
    "kind", "name", "quantity", "first", "second", "difference", "low", "high", "p", "seeds",
    "verdict",
)  # fmt: skip

Row = tuple[Any, ...]
"""A value for each of `COLUMNS`."""

COMMON = """
    create temp table common as
        select a.run, a.scenario, a.model, a.method, a.seed, a.tokenizer,
            count(*) over (partition by a.scenario, a.model, a.method) as seeds
        from first.runs as a join second.runs as b on a.run = b.run;
    -- Each method with all its seeds, and where there are several each run by itself.
    create temp table labelled as
        select *, scenario || '/' || name || '/' || seed as label
        from (
            select run, scenario, model || '/' || method as name, seed, tokenizer from common
            union all
            select run, scenario, model || '/' || method || '/seed' || seed, 0, tokenizer
            from common where seeds > 1
        );
    create temp table same_text as
        select a.tokenizer, a.source
        from first.corpora as a
        join second.corpora as b using (tokenizer, source, split, fingerprint)
        where a.split = 'validation';
    insert into experiment values ('compare', 'first', null, '{}');
    insert into methods values ('first', 0), ('second', 1);
    insert into scenarios select distinct scenario, 0 from common;
    insert into domains select scenario, domain, min(position) from first.domains group by all;
"""
RUNS = """
    insert into runs by name
        select r.* replace (
            '{side}/' || l.label as run, l.name as model, '{side}' as method, l.seed as seed
        )
        from labelled as l join {side}.runs as r on l.run = r.run
"""
RECORDS = """
    insert into {table} by name
        select x.* replace ('{side}/' || l.label as run)
        from labelled as l
        join {side}.{table} as x on l.run = x.run
        where {kept}
        qualify x.step = max(x.step) over (partition by l.label)
"""
TEXT = "(l.tokenizer, {source}) in (select (tokenizer, source) from same_text)"
CONTINUED = f"replace(x.task, '{paper_roles.CONTINUATION}', '')"
KEPT = {
    "perplexities": "true",
    "documents": TEXT.format(source="x.domain"),
    "accuracies": "true",
    "choices": f"x.task = {CONTINUED} or {TEXT.format(source=CONTINUED)}",
}
"""Last records that are compared: documents and continuations of another text are not."""

NUMBERS = """
    with losses as (
        select scenario, model, method, domain, seeds, perplexity, perplexity_stderr
        from method_domains
        union all by name
        select scenario, model, method, 'mean' as domain, seeds, perplexity, perplexity_stderr
        from method_averages
    ),

    scores as (
        select 'perplexity' as kind, scenario || '/' || model as name, domain as quantity, method,
            perplexity as value, perplexity_stderr as stderr, seeds
        from losses
        union all
        select 'accuracy', r.scenario || '/' || r.model,
            a.task || ', ' || a.shots || '-shot, ' || a.formulation || ', ' || a.metric, r.method,
            avg(a.value order by r.seed), sqrt(avg(a.stderr ^ 2 order by r.seed)), count(*)
        from accuracies as a
        join runs as r on a.run = r.run
        group by all
    ),

    tests as (
        select 'perplexity' as kind, scenario || '/' || model as name,
            coalesce(domain, 'mean') as quantity, perplexity_low as low, perplexity_high as high,
            null as p, perplexity_low is not null as paired
        from seed_differences
        union all
        select 'accuracy', scenario || '/' || model,
            task || ', ' || shots || '-shot, ' || formulation || ', ' || metric, low, high, p_holm,
            p is not null
        from accuracy_tests
    ),

    found as (
        select kind, name, quantity, a.value as first, b.value as second,
            b.value - a.value as difference, 1.96 * sqrt(a.stderr ^ 2 + b.stderr ^ 2) as half,
            coalesce(t.low, difference - half) as low, coalesce(t.high, difference + half) as high,
            t.p, least(a.seeds, b.seeds) as seeds, coalesce(t.paired, false) as paired
        from scores as a
        join scores as b using (kind, name, quantity)
        left join tests as t using (kind, name, quantity)
        where a.method = 'first' and b.method = 'second'
    )

    select kind, name, quantity, first, second, difference, low, high, p, seeds,
        case
            when difference = 0 then 'equal'
            when shown_different(p, low, high) then 'significant'
            when p is null and low is null then 'no error'
            else 'not significant'
        end || if(paired, '', ', unpaired') as verdict
    from found
    order by kind desc, name, kind = 'perplexity' and quantity = 'mean', quantity
"""


def compare(first: Path, second: Path, format: Format = "text") -> str:
    """What two databases have in common, and where they differ.

    Args:
        first: One database; differences are the other's value minus its.
        second: The other.
        format: `text` for people; `csv` and `json` have one row per run, setting and number.

    Raises:
        InputError: one is missing, is no database or lacks a column that this version reads.
    """
    with _both(first, second) as connection:
        rows = [*_runs(connection), *_settings(connection), *_corpora(connection)]
        rows += connection.execute(NUMBERS).fetchall()
    if format == "csv":
        return query.comma_separated(list(COLUMNS), rows)
    if format == "json":
        objects = [dict(zip(COLUMNS, map(query.plain, row), strict=True)) for row in rows]
        return json.dumps(objects, indent=2, ensure_ascii=False)
    return _told(rows, first, second)


def _both(first: Path, second: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory with both attached, and what their common runs left in its tables.

    Raises:
        InputError: one is missing, is no database or lacks a column that this version reads.
    """
    connection = duckdb.connect()
    connection.execute(views.schema())
    sql = "select table_name, column_name from information_schema.columns"
    wanted = {row for row in connection.execute(sql).fetchall() if row[0] in TABLES}
    for side, path in (("first", first), ("second", second)):
        with connect(path) as opened:
            missing = sorted(wanted - set(opened.execute(sql).fetchall()))
        if len(missing) == len(wanted):
            raise InputError(f"{path} is no database of an experiment: give one of `pike database`")
        if missing:
            raise InputError(
                f"{path} lacks {', '.join(map('.'.join, missing))}: it was made by another "
                "version; make it anew from its records with `pike database` and this version"
            )
        quoted = str(path).replace("'", "''")
        connection.execute(f"attach '{quoted}' as {side} (read_only)")
    for name in views.ordered("method_domains", "method_averages", "seed_differences"):
        connection.execute(f"create view {name} as {views.texts()[name]}")
    connection.execute(COMMON)
    for side in ("first", "second"):
        connection.execute(RUNS.format(side=side))
        for table, kept in KEPT.items():
            connection.execute(RECORDS.format(table=table, side=side, kept=kept))
    comparisons.fill(connection)
    return connection


def _runs(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """All runs of both, and which have them."""
    found = connection.execute(
        "select run, case when a.steps is null then 'second only' "
        "when b.steps is null then 'first only' else 'in both' end "
        "from first.runs as a full join second.runs as b using (run) order by run"
    ).fetchall()
    return [_row("run", run, verdict=verdict) for run, verdict in found]


def _settings(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Settings and facts of common runs that are not the same."""
    columns = ", ".join(f"{side}.{name}" for name in FACTS for side in ("a", "b"))
    found = connection.execute(
        f"select a.run, a.settings, b.settings, {columns} "
        "from first.runs as a join second.runs as b on a.run = b.run order by a.run"
    ).fetchall()
    rows = []
    for run, *values in found:
        one, other = (_flat(json.loads(text)) for text in values[:2])
        settings = {key: (one.get(key), other.get(key)) for key in sorted(one.keys() | other)}
        facts = dict(zip(FACTS, zip(values[2::2], values[3::2], strict=True), strict=True))
        for kind, pairs in (("setting", settings), ("fact", facts)):
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


def _corpora(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Corpora that both have and that hold other tokens."""
    found = connection.execute(
        "select tokenizer || '/' || source, split || ' tokens', a.tokens, b.tokens "
        "from first.corpora as a join second.corpora as b using (tokenizer, source, split) "
        "where a.fingerprint is distinct from b.fingerprint order by all"
    ).fetchall()
    return [_row("corpus", *row, verdict="other text") for row in found]


def _row(kind: str, name: str, quantity: str = "", *both: Any, verdict: str) -> Row:
    return (kind, name, quantity, *(both or (None, None)), *[None] * 5, verdict)


def _told(rows: list[Row], first: Path, second: Path) -> str:
    """The same for reading: what differs in the same way in several runs is said once."""
    runs = {verdict: [r[1] for r in rows if r[0] == "run" and r[-1] == verdict]
            for verdict in ("in both", "first only", "second only")}  # fmt: skip
    lines = [f"first: {first}", f"second: {second}", ""]
    lines += [f"runs in both: {len(runs['in both'])}"]
    for verdict in ("first only", "second only"):
        lines += [f"runs in the {verdict}: {len(runs[verdict])}"]
        lines += [f"  {run}" for run in runs[verdict]]
    alike: dict[Row, list[str]] = {}
    for kind, name, quantity, a, b, *_ in rows:
        if kind in ("setting", "fact", "corpus"):
            alike.setdefault((kind, quantity, a, b), []).append(name)
    equal = "equal settings and data"
    lines += ["", "what differs in settings, code and data:" if alike else equal]
    for (kind, quantity, a, b), names in alike.items():
        where = names[0] if len(names) == 1 else f"in {len(names)}, the first: {names[0]}"
        lines.append(f"  {kind} {quantity}: {_shown(a)} -> {_shown(b)} ({where})")
    numbers = [r for r in rows if r[0] in ("perplexity", "accuracy")]
    differing = [r for r in numbers if not r[-1].startswith("equal")]
    lines += ["", f"numbers that are equal: {len(numbers) - len(differing)} of {len(numbers)}"]
    if differing:
        lines += ["", query.aligned([*COLUMNS], differing)]
    significant = sum(r[-1].startswith("significant") for r in differing)
    lines += ["", f"significant differences: {significant} of {len(numbers)} (accuracies corrected "
              "for each run's tasks, perplexities by 95% intervals)"]  # fmt: skip
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return "nothing" if value is None else query.cut(str(value))
