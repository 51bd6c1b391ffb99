"""What a database takes over from the one that it replaces, so that a run costs what it adds.

Records are taken over where their manifest is the same, tests where all is that they are made from.
What is small is made anew.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError
from pipeline.planning import records, stages
from pipeline.results import accuracy_tests, loss_tests
from pipeline.results.lineage import Lineage
from pipeline.results.measured import PLACES, Place
from pipeline.results.record_loader import RECORDS, insert
from pipeline.runtime import checksums, made_from, manifests

TESTS = ("accuracy_tests", "loss_tests", "speedups")
"""Tables whose rows are made place by place."""
LARGE = {*TESTS, *(table for tables in RECORDS.values() for table in tables)}
OWNERS = {records.MADE[stage].artifact.partition("/")[0]: stage for stage in RECORDS}
"""What the names of artifacts with records begin with, and their stage."""
MANIFESTS = """
    select r.scenario, r.model, list([l.artifact, l.sha256] order by l.artifact)
    from lineage as l
    join runs as r on r.run = substr(l.artifact, position('/' in l.artifact) + 1)
    where split_part(l.artifact, '/', 1) in ('run', 'evaluation')
    group by r.scenario, r.model
"""
METHODS = "select distinct scenario, model, method from runs order by all"
CLAIMED = "select scenario, model, quantity, method, against from claimed_pairs order by all"
OF_SCENARIO = (
    "select scenario, task from mean_tasks order by all",
    "select scenario, domain, target from domains order by all",
)
Bases = dict[Place, list[Any]]
"""What the tests of each place are made from."""


def copy(out: Path, partial: Path) -> bool:
    """Copies the database that is replaced to where the new one is made.

    Returns:
        Whether it did: only one that the same code made, and that nobody has changed since.
    """
    record = made_from.beside(out)
    try:
        old = manifests.read(record, "database")
    except InputError:
        # There is none, or a broken one: all is made anew.
        return False
    fingerprint, versions = stages.code("database")
    recorded = {"code": old["code"]["fingerprint"], "versions": old["versions"]}
    today = {"code": fingerprint, "versions": versions}
    files = checksums.sealed(out.parent, old, "it is made anew")
    if made_from.differences(recorded, today) or any(map(checksums.altered, files)):
        return False
    shutil.copyfile(out, partial)
    return True


def forget(connection: duckdb.DuckDBPyConnection, lineage: Lineage) -> set[str]:
    """Deletes all but the tests and the records of manifests that are the same.

    Returns:
        The artifacts whose records are still there.
    """
    old = dict(connection.execute("select artifact, sha256 from lineage").fetchall())
    now = {name: artifact.sha256 for name, artifact in lineage.artifacts.items()}
    had = {name for name in old if name.partition("/")[0] in OWNERS}
    kept = {name for name in had if now.get(name) == old[name]}
    for name, stage in OWNERS.items():
        gone = [one.partition("/")[2] for one in had - kept if one.partition("/")[0] == name]
        for table in RECORDS[stage] if gone else ():
            # The theory is of no run.
            of_run = f"delete from {table} where run in (select unnest($1))"
            connection.execute(*([of_run, [gone]] if any(gone) else [f"delete from {table}"]))
    tables = connection.execute("select table_name from duckdb_tables()").fetchall()
    for (table,) in tables:
        if table not in LARGE:
            connection.execute(f"delete from {table}")
    return kept


def bases(connection: duckdb.DuckDBPyConnection) -> Bases:
    """All that the tests of each place are made from, beside code."""

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return connection.execute(sql).fetchall()

    ((*references, config),) = rows("select baseline, oracle, config from experiment")
    asked = loss_tests.asked(json.loads(config))
    # Where none is asked for, all are.
    general = [references, bool(asked)]
    general += [rows(f"{sql} order by all") for sql in (accuracy_tests.HEADLINE, loss_tests.JUDGED)]
    methods = [row for row in rows(METHODS) if row[2] in asked]
    of_scenarios = [*map(rows, OF_SCENARIO)]
    of_places = [rows(MANIFESTS), methods, rows(CLAIMED)]
    return {
        place: [
            *general,
            *([row for row in one if row[0] == place[0]] for one in of_scenarios),
            *([row for row in one if row[:2] == place] for one in of_places),
        ]
        for place in rows(PLACES)
    }


def changed(connection: duckdb.DuckDBPyConnection, before: Bases) -> list[Place]:
    """The places whose tests are to be made again; their rows are deleted.

    What they are made from (`bases`) is not what it was `before`.
    """
    now = bases(connection)
    if now == before:
        return []
    kept = [place for place, made in now.items() if before.get(place) == made]
    (oracle,) = connection.execute("select oracle from experiment").fetchall()[0]
    if oracle is not None:
        # The means over scenarios are made from all places.
        kept = []
    connection.execute("create temp table kept (scenario text, model text)")
    insert(connection, "kept", map(list, kept))
    for table in TESTS:
        same = f"kept.scenario = {table}.scenario and kept.model = {table}.model"
        connection.execute(f"delete from {table} where not exists (from kept where {same})")
    connection.execute("drop table kept")
    return [place for place in now if place not in kept]
