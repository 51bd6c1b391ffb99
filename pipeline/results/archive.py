"""`pike record` and `pike restore`: an experiment's records as Parquet, and its results from them.

An archive holds the base tables that runs fill (records/*.parquet), the settings of databases,
tables, figures and the report as the workflow wrote them, and manifest.json: the SHA-256 of each
file, and which database each output reads. Restoring trains nothing and needs no torch.
"""

import concurrent.futures
import functools
import itertools
import json
import multiprocessing
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError, refuse
from pike_mixing.settings import unknown
from pipeline.planning import records
from pipeline.results import database, experiment, figures, lineage, report, sealed, tables
from pipeline.results.record_loader import OF_THEORY, RECORDS, Listed, columns, insert
from pipeline.results.selection import connect_ours, query
from pipeline.runtime import atomic_files, checksums, manifests

RECORDED = (*itertools.chain(*RECORDS.values()), "lineage")
"""Base tables that an archive holds; all others follow from these and the settings."""
KINDS = {"table": (tables.write, ".md"), "figure": (figures.write, ".svg")}
WHOLE = "pike"
"""The database of all runs; the others are `databases/NAME`."""
COMPRESSION = "format parquet, parquet_version v2, compression zstd, compression_level 19"


def record(results: Path, *, out: Path) -> str:
    """Writes the archive of finished results, whole or not at all, and says what it has.

    Raises:
        InputError: a result is missing, or `out` is somebody else's.
    """
    reads = {kind: _databases(results, kind) for kind in KINDS}
    shown = _database_of(results / "report" / "index.manifest.json", results)
    every = {WHOLE, shown, *(name for read in reads.values() for name in read.values())}
    with atomic_files.atomic_write(out, "record", [results]) as partial:
        (partial / "records").mkdir(parents=True)
        with connect_ours(results / f"{WHOLE}.duckdb") as connection:
            content = {table: _table(connection, table) for table in RECORDED}
        with duckdb.connect() as writer:
            for table, rows in content.items():
                quoted = str(partial / "records" / f"{table}.parquet").replace("'", "''")
                writer.from_arrow(rows).create_view("rows_of_table", replace=True)
                writer.execute(f"copy rows_of_table to '{quoted}' ({COMPRESSION})")
        for name in sorted(every):
            own = "experiment" if name == WHOLE else name
            _copied(results / "settings" / f"{own}.json", partial / "settings" / f"{name}.json")
        for kind, read in reads.items():
            for name in read:
                place = Path("settings", f"{kind}s", f"{name}.json")
                _copied(results / place, partial / place)
        listed: dict[str, dict[str, Any]] = {
            path.relative_to(partial).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": atomic_files.sha256(path),
            }
            for path in sorted(partial.rglob("*"))
            if path.is_file()
        }
        facts = {"reads": reads, "report": shown, "files": listed}
        atomic_files.write_json(partial / atomic_files.MANIFEST, facts)
    size = sum(file["bytes"] for file in listed.values())
    return f"{out}: {len(listed)} files, {size / 1e6:.1f} MB"


def restore(archive: Path, *, out: Path, only: Iterable[str] = ()) -> str:
    """Builds databases, tables, figures and the report of an archive.

    Args:
        archive: What `pike record` or `pike crate` wrote.
        out: The results folder to make; what an earlier call made there is made anew.
        only: Names of tables and figures; without any, all of them and the report.

    Returns:
        Where the results are.

    Raises:
        InputError: this is no archive, a file of it was changed, or a name is not in it.
    """
    archive = archive / "recorded" if (archive / "recorded").is_dir() else archive
    made = _checked(archive)
    wanted = set(only)
    known = [name for read in made["reads"].values() for name in read]
    refuse([unknown(name, known, "--only") for name in sorted(wanted.difference(known))])
    jobs: dict[str, list[tuple[str, str]]] = {}
    for kind, read in made["reads"].items():
        for name, place in read.items():
            if not wanted or name in wanted:
                jobs.setdefault(place, []).append((kind, name))
    if not wanted:
        jobs.setdefault(WHOLE, [])
        jobs.setdefault(made["report"], [])
    work = functools.partial(_restore_one, archive, out)
    # The largest first; duckdb and matplotlib do not survive a fork.
    order = sorted(jobs.items(), key=lambda job: (job[0] != made["report"], job[0] != WHOLE))
    with concurrent.futures.ProcessPoolExecutor(
        min(len(jobs), os.cpu_count() or 1), multiprocessing.get_context("spawn")
    ) as pool:
        list(pool.map(work, *zip(*order, strict=True)))
    if wanted:
        return f"{out}: {', '.join(sorted(wanted))}"
    index = out / "report" / "index.html"
    settings = archive / "settings" / f"{made['report']}.json"
    database_of_report = out / f"{made['report']}.duckdb"
    report.write(settings, database_of_report, out / "tables", out / "figures", index)
    return f"{index}: the report; {out}/{WHOLE}.duckdb, tables and figures are there too"


def _restore_one(archive: Path, out: Path, name: str, outputs: list[tuple[str, str]]) -> None:
    """Builds one database, and what reads it."""
    settings, place = archive / "settings" / f"{name}.json", out / f"{name}.duckdb"
    named = experiment.read(settings)
    loader = functools.partial(_load, archive)
    inputs = [archive / atomic_files.MANIFEST]
    made_from = _lineage(archive, named)
    database.write(named, settings, place, made_from, loader, inputs)
    for kind, output in outputs:
        write, suffix = KINDS[kind]
        own = archive / "settings" / f"{kind}s" / f"{output}.json"
        write(own, place, out / f"{kind}s" / f"{output}{suffix}")


def _load(archive: Path, connection: duckdb.DuckDBPyConnection, made: Sequence[Listed]) -> None:
    """Appends an archive's records of these manifests to the base tables, in their order."""
    runs: dict[str, list[str]] = {}
    for name, stage, _ in made:
        for table in RECORDS[stage]:
            runs.setdefault(table, []).append(name.partition("/")[2])
    for table, wanted in runs.items():
        selected = ", ".join(columns(connection, table))
        connection.execute("create temp table wanted (run text, place integer)")
        insert(connection, "wanted", ([run, place] for place, run in enumerate(wanted)))
        of_runs = "join wanted using (run) order by place, file_row_number"
        # The theory is of no run.
        chosen = "order by file_row_number" if table in OF_THEORY else of_runs
        connection.execute(
            f"insert into {table} ({selected}) select {selected} from read_parquet("
            f"?, file_row_number = true) {chosen}",
            [str(archive / "records" / f"{table}.parquet")],
        )
        connection.execute("drop table wanted")


def _table(connection: duckdb.DuckDBPyConnection, table: str) -> Any:
    selected = ", ".join(columns(connection, table))
    return connection.sql(f"select {selected} from {table} order by rowid").to_arrow_table()


def _lineage(archive: Path, named: experiment.Experiment) -> lineage.Lineage:
    """What an experiment's records were made from, of all that the archive has."""
    with duckdb.connect() as connection:
        every = query(
            connection,
            "select artifact as name, path, sha256, produced_by, inputs, settings, "
            "code_fingerprint, code_commit, facts "
            "from read_parquet(?, file_row_number = true) order by file_row_number",
            str(archive / "records" / "lineage.parquet"),
        )
    rows = {row["name"]: row for row in every}
    names = {name for name, _, _ in records.manifests_of(named.plain())}
    runs = tuple(f"checkpoint/{run}/" for run in named.runs)
    kept = {name for name in rows if name in names or name.startswith(runs)}
    kept |= {n for name in kept for n in rows[name]["inputs"] if n.startswith("file/")}
    for name in [name for name in rows if name.partition("/")[0] in KINDS]:
        # A database of some runs holds a part of what an output stands on.
        rows[name]["inputs"] = [n for n in rows[name]["inputs"] if n in kept]
        kept.add(name)
    return lineage.Lineage({name: _artifact(row) for name, row in rows.items() if name in kept})


def _artifact(row: Mapping[str, Any]) -> lineage.Artifact:
    plain = {n: None if row[n] is None else json.loads(row[n]) for n in ("settings", "facts")}
    return lineage.Artifact(**{**row, "inputs": tuple(row["inputs"]), **plain})


def _databases(results: Path, kind: str) -> dict[str, str]:
    """The finished tables or figures, and the database that each reads."""
    places = sorted((results / f"{kind}s").glob("*.manifest.json"))
    return {p.name.removesuffix(".manifest.json"): _database_of(p, results) for p in places}


def _database_of(manifest: Path, results: Path) -> str:
    """The name of the database that an output was made from."""
    sealed.refuse_missing(manifest)
    inputs = atomic_files.read_json(manifest)["inputs"]
    names = [os.path.relpath(manifest.parent / name, results) for name in inputs]
    own = (n for n in names if n == f"{WHOLE}.manifest.json" or n.startswith("databases"))
    return next(own).removesuffix(".manifest.json")


def _copied(source: Path, place: Path) -> None:
    sealed.refuse_missing(source)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(source.read_bytes())


def _checked(archive: Path) -> dict[str, Any]:
    """What an archive's manifest says, if all its files are as they were recorded."""
    place = archive / atomic_files.MANIFEST
    made: Any = atomic_files.read_json(place) if place.is_file() else None
    if not isinstance(made, dict) or not made.keys() >= manifests.OF_ARCHIVE:
        raise InputError(f"{archive} is no archive: give what `pike record` or `pike crate` wrote")
    for file in checksums.sealed(archive, made, "take the archive anew from where it came"):
        if problem := checksums.altered(file):
            raise InputError(problem)
    return made
