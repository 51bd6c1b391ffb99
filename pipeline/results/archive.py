"""`pike record` and `pike restore`: an experiment's records as Parquet, and its results from them.

An archive holds the base tables that runs fill (records/*.parquet), the settings of databases,
tables, figures and the report as the workflow wrote them, and manifest.json: the SHA-256 of each
file, and which database each output reads. Restoring trains nothing and needs no torch.

`pike crate` makes a Workflow Run RO-Crate of a finished experiment, which archives can read: the
workflow, the configuration, the database, tables, figures and report, such an archive, and
ro-crate-metadata.json, which says which of them the workflow made from which
(https://www.researchobject.org/workflow-run-crate/profiles/workflow_run_crate). Corpora and
checkpoints are left out: the database's lineage has their SHA-256.
"""

import concurrent.futures
import contextlib
import datetime
import difflib
import functools
import glob
import importlib
import itertools
import json
import multiprocessing
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError, clone_setup_command, names_text, refuse
from pike_mixing.setting_messages import unknown_name_message
from pipeline import settings as settings_of
from pipeline.planning import manifest_places
from pipeline.planning.manifest_places import ListedManifest
from pipeline.results import (
    article,
    database,
    figures,
    lineage,
    report,
    report_facts,
    result_manifests,
    sql_views,
    tables,
)
from pipeline.results.database_reader import (
    DATABASE,
    connect_database_of_any_version,
    query_rows,
)
from pipeline.results.experiment import Experiment, read_experiment
from pipeline.results.record_loader import OF_THEORY, RECORDS, columns_not_generated, insert_rows
from pipeline.runtime import atomic_files, checksums, manifests
from pipeline.runtime.programs import program_command
from pipeline.runtime.validate_settings import validate

ARCHIVED_TABLES = (*itertools.chain(*RECORDS.values()), "lineage")
"""Base tables that an archive holds; all others follow from these and the settings."""
KINDS = {"table": (tables.write_table, ".md"), "figure": (figures.write_figure, ".svg")}
SETTINGS: dict[str, Any] = {"table": tables.TableSettings, "figure": figures.FigureSettings}
NAMED = {
    **dict.fromkeys(("domain_losses", "weights", "gradient_statistics"), ("run", "domain")),
    **dict.fromkeys(("coefficients", "perplexities"), ("run", "domain")),
    "documents": ("run", "domain", "document"),
    **dict.fromkeys(("accuracies", "choices"), ("run", "task", "formulation")),
    "similarities": ("run", "domain_a", "domain_b"),
}
"""Columns of records that name what a row is of."""
IMPOSSIBLE = {table: " or ".join(f"{name} is null" for name in of) for table, of in NAMED.items()}
IMPOSSIBLE["choices"] += " or coalesce(gold not between 0 and len(sum_log_likelihood) - 1, true)"
"""Conditions in SQL that no row of a record meets."""
WHOLE = "pike"
"""The database of all runs; the others are `databases/NAME`."""
KindAndName = tuple[str, str]
"""Of an output: `table` or `figure`, and its name."""
COMPRESSION = "format parquet, parquet_version v2, compression zstd, compression_level 19"


def archive_records_and_summarise(results: Path, *, out: Path) -> str:
    """Writes the archive of finished results, whole or not at all, and says what it has."""
    _refuse_absent_folder(results, DATABASE, "the folder of a finished experiment")
    reads: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    for kind, read in reads.items():
        for path in sorted((results / f"{kind}s").glob("*.manifest.json")):
            name = path.name.removesuffix(".manifest.json")
            read[name] = _database_path_without_suffix(path, kind, results)
    index = results / "report" / "index.manifest.json"
    shown = _database_path_without_suffix(index, "report", results)
    every = {WHOLE, shown, *(name for read in reads.values() for name in read.values())}
    with atomic_files.atomic_write(out, "record", [results]) as partial:
        (partial / "records").mkdir(parents=True)
        with (
            connect_database_of_any_version(results / f"{WHOLE}.duckdb") as source,
            duckdb.connect() as writer,
        ):
            for table in ARCHIVED_TABLES:
                columns = ", ".join(columns_not_generated(source, table))
                rows = source.sql(f"select {columns} from {table} order by rowid").to_arrow_table()
                quoted = str(partial / "records" / f"{table}.parquet").replace("'", "''")
                writer.from_arrow(rows).create_view("rows_of_table", replace=True)
                writer.execute(f"copy rows_of_table to '{quoted}' ({COMPRESSION})")
        for name in sorted(every):
            own = "experiment" if name == WHOLE else name
            _copy_file(results / "settings" / f"{own}.json", partial / "settings" / f"{name}.json")
        for kind, read in reads.items():
            for name in read:
                place = Path("settings", f"{kind}s", f"{name}.json")
                _copy_file(results / place, partial / place)
        listed: dict[str, dict[str, Any]] = {
            path.relative_to(partial).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": atomic_files.sha256(path),
            }
            for path in sorted(partial.rglob("*"))
            if path.is_file()
        }
        facts = {"reads": reads, "report": shown, "files": listed}
        remedy = f"move what the workflow did not make out of {results}"
        manifests.require_type(facts, manifests.ARCHIVE, out / atomic_files.MANIFEST, remedy)
        atomic_files.write_json(partial / atomic_files.MANIFEST, facts)
    size = sum(file["bytes"] for file in listed.values())
    return f"{out}: {len(listed)} files, {size / 1e6:.1f} MB"


def restore_results_and_summarise(archive: Path, *, out: Path, only: Iterable[str] = ()) -> str:
    """Builds databases, tables, figures and the report of an archive.

    Somebody else may have made it: nothing is read or written before all that it names has been
    judged, no link is followed out of it or out of `out`, and nothing is read that its manifest
    does not list. `only` names tables and figures; without any, all are made, and the report.

    Returns:
        Where the results are, and what to ask next.
    """
    archive = _find_archive(archive)
    made = _verify_archive_and_read_manifest(archive)
    wanted = set(only)
    known = {name for read in made["reads"].values() for name in read}
    refuse(
        [unknown_name_message(name, known, "--only") for name in sorted(wanted.difference(known))]
    )
    jobs: dict[str, list[KindAndName]] = {}
    for kind, read in made["reads"].items():
        for name, place in read.items():
            if not wanted or name in wanted:
                jobs.setdefault(place, []).append((kind, name))
    if not wanted:
        jobs.setdefault(WHOLE, [])
        jobs.setdefault(made["report"], [])
    for folder in ("tables", "figures", "databases", "article", "report"):
        manifests.refuse_link_on_way(out / folder, out)
    work = functools.partial(_restore_database_and_outputs, archive, out)
    # The largest first; duckdb and matplotlib do not survive a fork.
    order = sorted(jobs.items(), key=lambda job: (job[0] != made["report"], job[0] != WHOLE))
    with concurrent.futures.ProcessPoolExecutor(
        min(len(jobs), os.cpu_count() or 1), multiprocessing.get_context("spawn")
    ) as pool:
        list(pool.map(work, *zip(*order, strict=True)))
    if wanted:
        lines = []
        for place, kind, name in sorted((d, *one) for d, each in jobs.items() for one in each):
            asked = shlex.join(["why", f"{kind}/{name}", "--database", f"{out / place}.duckdb"])
            lines.append(str(out / f"{kind}s" / f"{name}{KINDS[kind][1]}"))
            lines.append(f"  What it was made from: {program_command('pike')} {asked}")
        return "\n".join(lines)
    index = out / "report" / "index.html"
    settings = archive / "settings" / f"{made['report']}.json"
    database_of_report = out / f"{made['report']}.duckdb"
    report.write_report(settings, database_of_report, out / "tables", out / "figures", index)
    lines = [f"The report: {index}"]
    if of_paper := [name for name in manifest_places.OF_PAPER if name in known]:
        page = out / "article" / "index.html"
        article.write_article(of_paper, out / "tables", out / "figures", page)
        lines.append(f"The paper's tables and figures beside ours: {page}")
    pike, whole = program_command("pike"), shlex.quote(f"{out / WHOLE}.duckdb")
    lines.append(f"What each table and figure shows: {pike} tables {shlex.quote(str(out))}")
    lines.append(f"The paper's claims: {pike} claims {whole}")
    return "\n".join(lines)


def _refuse_absent_folder(given: Path, file_in_suggestions: str, wanted: str) -> None:
    """Stops at a folder that is not there, and names the nearest one beside that has a file."""
    if not os.path.lexists(given):
        beside = [one.parent.name for one in given.parent.glob(f"*/{file_in_suggestions}")]
        near = difflib.get_close_matches(given.name, beside, n=1)
        hint = f"did you mean {given.with_name(near[0])}?" if near else f"give {wanted}"
        raise InputError(f"{given} does not exist: {hint}")


def _find_archive(given: Path) -> Path:
    """The archive that a folder is, or has in it as a crate does."""
    _refuse_absent_folder(given, atomic_files.MANIFEST, "what `pike record` or `pike crate` wrote")
    inner = given / "recorded"
    if not os.path.lexists(inner):
        return given
    manifests.refuse_link_on_way(inner, given)
    return inner


def _verify_archive_and_read_manifest(archive: Path) -> dict[str, Any]:
    """What an archive's manifest says, once results can be made of all that it names."""
    made = manifests.read_archive_manifest(archive)
    kinds = made["reads"].items()
    places = {WHOLE, made["report"], *(d for _, read in kinds for d in read.values())}
    needed = {f"records/{table}.parquet" for table in ARCHIVED_TABLES}
    needed |= {f"settings/{place}.json" for place in places}
    needed |= {f"settings/{kind}s/{name}.json" for kind, read in kinds for name in read}
    path = archive / atomic_files.MANIFEST
    for names, wrong in (
        (needed.difference(made["files"]), "does not list"),
        (set(made["files"]) - needed, "lists what no result is made from:"),
    ):
        if names:
            some = names_text(sorted(names), most=3)
            raise InputError(f"{path} {wrong} {some}: {manifests.ARCHIVE_REMEDY}")
    for file in checksums.files_as_listed(archive, made, manifests.ARCHIVE_REMEDY):
        if problem := checksums.content_problem(file):
            raise InputError(problem)
    _refuse_invalid_records(archive)
    for place in sorted(places):
        _archived_lineage(
            archive, _read_experiment_settings(archive / "settings" / f"{place}.json")
        )
    for kind, read in kinds:
        for name in read:
            own = archive / "settings" / f"{kind}s" / f"{name}.json"
            asked = validate(SETTINGS[kind], atomic_files.read_json(own), str(own))
            if asked.name != name:
                raise InputError(f"{own} is of {asked.name!r}: {manifests.ARCHIVE_REMEDY}")
    return made


def _refuse_invalid_records(archive: Path) -> None:
    """Stops at files that are no records of their tables: by columns, types or rows."""
    with duckdb.connect() as connection:
        sql_views.create_schema(connection)
        for table in ARCHIVED_TABLES:
            selected = ", ".join(columns_not_generated(connection, table))
            place = archive / "records" / f"{table}.parquet"
            with _explain_unreadable_record(place):
                connection.execute(
                    f"insert into {table} ({selected}) select {selected} from read_parquet(?)",
                    [glob.escape(str(place))],
                )
            wrong = f"select 1 from {table} where {IMPOSSIBLE.get(table, 'false')} limit 1"
            if connection.execute(wrong).fetchall():
                raise InputError(
                    f"{place} has a row where {IMPOSSIBLE[table]}: {manifests.ARCHIVE_REMEDY}"
                )


def _read_experiment_settings(settings_file: Path) -> Experiment:
    """The settings of a database, with those of its runs, all checked."""
    result = read_experiment(settings_file)
    for run, record in result.runs.items():
        where, own = f"{settings_file}: runs.{run}.settings", record.settings
        manifests.require_type(own, manifests.RUN_SETTINGS, where, manifests.ARCHIVE_REMEDY)
        if not record.trained:
            validate(settings_of.Run, own, where)
        read = {f"{own['tokenizer']}/{one}" for one in own["domains"]}
        if lacking := sorted(read - {*result.corpora}):
            raise InputError(f"{where}: no corpus {lacking[0]!r}: {manifests.ARCHIVE_REMEDY}")
    return result


@contextlib.contextmanager
def _explain_unreadable_record(place: Path) -> Iterator[None]:
    """Names the record that DuckDB cannot read as one."""
    try:
        yield
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"{place} is not a whole record ({first}): {manifests.ARCHIVE_REMEDY}"
        ) from None


def _restore_database_and_outputs(
    archive: Path, out: Path, name: str, outputs: list[KindAndName]
) -> None:
    """Builds one database, and the tables and figures that read it."""
    settings, place = archive / "settings" / f"{name}.json", out / f"{name}.duckdb"
    experiment = _read_experiment_settings(settings)
    loader = functools.partial(_insert_archived_records, archive)
    snapshot = result_manifests.snapshot_inputs("database", [archive / atomic_files.MANIFEST])
    recorded = _archived_lineage(archive, experiment)
    database.write_database(experiment, settings, place, recorded, loader, snapshot)
    for kind, output in outputs:
        write, suffix = KINDS[kind]
        own = archive / "settings" / f"{kind}s" / f"{output}.json"
        write(own, place, out / f"{kind}s" / f"{output}{suffix}")


def _insert_archived_records(
    archive: Path, connection: duckdb.DuckDBPyConnection, made: Sequence[ListedManifest]
) -> None:
    """Appends an archive's records of these manifests to the base tables, in their order."""
    runs: dict[str, list[str]] = {}
    for name, stage, _ in made:
        for table in RECORDS[stage]:
            runs.setdefault(table, []).append(name.partition("/")[2])
    for table, wanted in runs.items():
        selected = ", ".join(columns_not_generated(connection, table))
        connection.execute("create temp table wanted (run text, place integer)")
        insert_rows(connection, "wanted", ([run, place] for place, run in enumerate(wanted)))
        of_runs = "join wanted using (run) order by place, file_row_number"
        # The theory is of no run.
        chosen = "order by file_row_number" if table in OF_THEORY else of_runs
        connection.execute(
            f"insert into {table} ({selected}) select {selected} from read_parquet("
            f"?, file_row_number = true) {chosen}",
            [glob.escape(str(archive / "records" / f"{table}.parquet"))],
        )
        connection.execute("drop table wanted")


def _archived_lineage(archive: Path, experiment: Experiment) -> lineage.Lineage:
    """What an experiment's records were made from, of all that the archive has, checked."""
    place = archive / "records" / "lineage.parquet"
    with duckdb.connect() as connection, _explain_unreadable_record(place):
        every = query_rows(
            connection,
            "select artifact::text as name, path::text as path, sha256::text as sha256, "
            "produced_by::text as produced_by, inputs::text[] as inputs, settings::text as "
            "settings, code_fingerprint::text as code_fingerprint, "
            "code_commit::text as code_commit, facts::text as facts "
            "from read_parquet(?, file_row_number = true) order by file_row_number",
            glob.escape(str(place)),
        )
    rows = {row["name"]: row for row in every}
    stages = {
        name: stage
        for name, stage, _ in manifest_places.database_manifests(experiment.plain_values())
    }
    runs = tuple(f"checkpoint/{run}/" for run in experiment.runs)
    kept = {name for name in rows if name in stages or name.startswith(runs)}
    read = {one for name in kept for one in rows[name]["inputs"] or ()}
    if lacking := sorted((stages.keys() | read) - rows.keys()):
        some = names_text(lacking, most=3)
        raise InputError(f"{place} has no row of {some}: {manifests.ARCHIVE_REMEDY}")
    # What a mixture was found from, of runs that this database leaves out, is a file to it, as it
    # is where the runs are.
    files = {n: n if n.startswith("file/") else f"file/{rows[n]['path']}" for n in read - kept}
    for name in kept:
        rows[name]["inputs"] = [files.get(one, one) for one in rows[name]["inputs"] or ()]
    for name, file in files.items():
        given = {"name": file, "produced_by": "given", "inputs": ()}
        given |= {key: rows[name][key] for key in ("path", "sha256")}
        rows[file] = dict.fromkeys(rows[name]) | given
    kept |= set(files.values())
    for name in [name for name in rows if name.partition("/")[0] in KINDS]:
        # A database of some runs holds a part of what an output stands on.
        rows[name]["inputs"] = [n for n in rows[name]["inputs"] or () if n in kept]
        kept.add(name)
    return lineage.Lineage(
        {n: _artifact_of_row(row, stages.get(n), place) for n, row in rows.items() if n in kept}
    )


def _artifact_of_row(
    row: Mapping[str, Any], stage_to_check: str | None, place: Path
) -> lineage.Artifact:
    """A row of the lineage; of a stage's work, it is checked as the stage's manifest is."""
    where = f"{place}: {row['name']}"
    try:
        plain = {n: None if row[n] is None else json.loads(row[n]) for n in ("settings", "facts")}
    except ValueError as error:
        raise InputError(f"{where}: no JSON ({error}): {manifests.ARCHIVE_REMEDY}") from None
    if stage_to_check:
        facts = plain["facts"] if isinstance(plain["facts"], dict) else {}
        code: dict[str, Any] = {
            "fingerprint": row["code_fingerprint"],
            "commit": row["code_commit"],
        }
        content: dict[str, Any] = {key: {} for key in ("inputs", "given", "files")} | facts
        content |= {"stage": row["produced_by"], "settings": plain["settings"]}
        content["code"] = code | {"loaded": {}}
        manifests.refuse_wrong_manifest(content, stage_to_check, where, manifests.ARCHIVE_REMEDY)
    return lineage.Artifact(**{**row, "inputs": tuple(row["inputs"] or ()), **plain})


def _database_path_without_suffix(manifest: Path, stage: str, results: Path) -> str:
    """`pike` or `databases/NAME`: the database in the results that an output was made from."""
    result_manifests.refuse_missing(manifest)
    inputs = manifests.read_manifest(manifest, stage)["inputs"]
    names = [os.path.relpath(manifest.parent / name, results) for name in inputs]
    own = (n for n in names if n == f"{WHOLE}.manifest.json" or n.startswith("databases/"))
    if (found := next(own, None)) is None:
        raise InputError(f"{manifest} names no database of {results}: make it anew")
    return found.removesuffix(".manifest.json")


def _copy_file(source: Path, place: Path) -> None:
    result_manifests.refuse_missing(source)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(source.read_bytes())


PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
}
"""What the crate conforms to, by address, besides what the library names."""
LICENCE = "https://spdx.org/licenses/Apache-2.0"
RESULTS = ("pike.duckdb", "tables", "figures", "report")
"""What the workflow made, below the results folder."""
ROOT = Path(__file__).resolve().parents[2]


def write_crate_and_summarise(results: Path, *, out: Path) -> str:
    """Writes the crate of finished results, whole or not at all, and says what it has."""
    _refuse_absent_folder(results, DATABASE, "the folder of a finished experiment")
    settings = results / "settings" / "experiment.json"
    result_manifests.refuse_missing(
        settings, *(results / name for name in RESULTS), ROOT / "workflow/Snakefile"
    )
    for place in (path for name in RESULTS for path in (results / name).rglob("*")):
        manifests.refuse_link_on_way(place, results)
        if not place.is_dir() and (other := atomic_files.kind_of_existing_non_file(place)):
            raise InputError(f"{place} is {other}, and a crate holds files: move it away")
    try:
        library = importlib.import_module("rocrate.rocrate")
    except ModuleNotFoundError:
        raise InputError(
            f"rocrate is not installed: run `{clone_setup_command('crate')}`"
        ) from None
    with atomic_files.atomic_write(out, "crate", [results]) as partial:
        made, name = library.ROCrate(), read_experiment(settings).experiment
        made.name, made.license = f"Results of the experiment {name}", LICENCE
        made.description = (
            f"Language models pretrained under data-mixing methods: experiment {name}"
        )
        for address, title in PROFILES.items():
            profile = made.add_jsonld({"@id": address, "@type": "CreativeWork", "name": title})
            made.root_dataset.append_to("conformsTo", profile)
        workflow = made.add_workflow(
            ROOT / "workflow/Snakefile",
            "workflow/Snakefile",
            main=True,
            lang="snakemake",
            properties={"name": "pike"},
        )
        workflow["license"] = LICENCE
        workflow["hasPart"] = made.add_dataset(ROOT / "workflow", "workflow")
        given = made.add_file(settings, "experiment.json", properties={
            "name": "The configuration and the runs that it makes",
            "encodingFormat": "application/json",
        })  # fmt: skip
        result = [
            (made.add_dataset if path.is_dir() else made.add_file)(path, f"results/{path.name}")
            for path in (results / name for name in RESULTS)
        ]
        made.root_dataset["mentions"] = made.add_action(
            workflow,
            object=[given],
            result=result,
            properties=_workflow_run_end_and_commits(results / RESULTS[0]),
        )
        made.write(partial)
        archive_records_and_summarise(results, out=partial / "recorded")
    return f"{out}: {sum(path.is_file() for path in out.rglob('*')):,} files"


def _workflow_run_end_and_commits(database: Path) -> dict[str, Any]:
    """When the run ended, by which code."""
    with connect_database_of_any_version(database) as connection:
        commits = {row["commit"] for row in report_facts.code_rows_per_stage(connection)} - {None}
    code = f"By the code of commit {', '.join(sorted(commits)) or 'unknown'}"
    ended = datetime.datetime.fromtimestamp(database.stat().st_mtime, datetime.UTC)
    return {"name": "The run", "endTime": ended.isoformat(timespec="seconds"), "description": code}
