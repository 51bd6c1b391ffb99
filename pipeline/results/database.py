"""All records of an experiment in one DuckDB file, with the views that tables and figures read."""

import dataclasses
import functools
import glob
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError
from pike_mixing.rules.pike import PiKE
from pipeline import errors
from pipeline.planning import manifest_places, output_root, paper_roles
from pipeline.planning.configuration import Paper
from pipeline.planning.manifest_places import ListedManifest
from pipeline.results import (
    accuracy_tests,
    board_tests,
    claim_tests,
    lineage,
    loss_tests,
    result_manifests,
    speedups,
    sql_views,
)
from pipeline.results.database_reader import duckdb_wal_path
from pipeline.results.experiment import Experiment, read_experiment
from pipeline.results.measured_results import MeasuredResults
from pipeline.results.record_loader import RECORDS, insert_listed_records, insert_rows
from pipeline.runtime import atomic_files, made_from
from pipeline.runtime.validate_settings import validate
from pipeline.settings import Model, Training

PAPER = Path(__file__).parents[1] / "paper"
Loader = Callable[[duckdb.DuckDBPyConnection, Sequence[ListedManifest]], None]
"""Appends the records of these manifests, from folders of runs or from an archive."""


def build_database(settings: Path, out: Path) -> None:
    """Builds the database of an experiment's settings from the folders of its runs."""
    experiment = read_experiment(settings)
    places = (
        Path(place) for _, _, place in manifest_places.database_manifests(experiment.plain_values())
    )
    snapshot = result_manifests.snapshot_inputs("database", places)
    recorded = lineage.read_lineage(experiment)
    loader = functools.partial(insert_listed_records, recorded.manifests)
    write_database(experiment, settings, out, recorded, loader, snapshot)


def write_database(
    experiment: Experiment,
    settings: Path,
    out: Path,
    recorded: lineage.Lineage,
    loader: Loader,
    snapshot: made_from.InputSnapshot,
) -> None:
    """Writes the database whole beside the old one and renames it into place.

    `settings` is the file of the experiment, `recorded` what the records were made from, and
    `snapshot` the code and the records' manifests as they were before these were read.
    """
    output_root.refuse_path_unfit_for_duckdb(out)
    try:
        with atomic_files.atomic_write(out, "database", [settings]) as partial:
            with duckdb.connect(str(partial)) as connection:
                _fill_tables(connection, experiment, recorded, loader)
            # Of the database that is replaced: to this one its changes do not belong.
            duckdb_wal_path(out).unlink(missing_ok=True)
    # A commit that the disk does not take is an error of the transaction.
    except (duckdb.IOException, duckdb.FatalException, duckdb.TransactionException) as error:
        first = str(error).splitlines()[0]
        errors.refuse_process_resource_shortage(error)
        raise InputError(
            f"{out} cannot be written ({first}): {errors.write_error_remedy_else_free_space(error)}"
        ) from error
    settings_of_it = manifest_places.database_settings(experiment.plain_values())
    snapshot.write_manifest(
        made_from.manifest_beside(out), settings=settings_of_it, files=[out], facts={}
    )


def _fill_tables(
    connection: duckdb.DuckDBPyConnection,
    experiment: Experiment,
    recorded: lineage.Lineage,
    loader: Loader,
) -> None:
    """Fills the base tables of an empty database, and adds the views."""
    sql_views.create_schema(connection)
    connection.execute("begin")
    _insert_experiment(connection, experiment)
    _insert_scenarios_methods_domains(connection, experiment)
    _insert_corpora(connection, recorded)
    fill_paper_and_default_tables(connection, experiment.config)
    _insert_runs(connection, experiment, recorded)
    _insert_lineage(connection, recorded)
    loader(
        connection,
        [
            one
            for one in manifest_places.database_manifests(experiment.plain_values())
            if one[1] in RECORDS
        ],
    )
    # Last, as they take seconds, which nobody waits for whose records are at fault.
    wanted = [] if experiment.views is None else [*experiment.views, *sql_views.READ_BY_ALL]
    wanted = [*map(sql_views.view_of, wanted)]
    sql_views.create_views(connection, *wanted)
    read = sql_views.relations_read_by_views(*wanted)
    measured = MeasuredResults(connection)
    fills: dict[str, Callable[[], None]] = {
        "accuracy_tests": lambda: accuracy_tests.fill_accuracy_tests(measured),
        "loss_tests": lambda: loss_tests.fill_loss_tests(measured),
        "speedups": lambda: speedups.fill_speedups(measured),
        # Whatever reads claim_tests reads pairs, too.
        "pairs": lambda: claim_tests.fill_pairs_and_claim_tests(connection),
        "boards": lambda: board_tests.fill_boards(connection),
    }
    for table, fill in fills.items():
        if table in read:
            with sql_views.explain_failure(*sql_views.views_read_to_fill(table)):
                fill()
    connection.execute("commit")


def _insert_experiment(connection: duckdb.DuckDBPyConnection, experiment: Experiment) -> None:
    names = experiment.experiment, experiment.baseline, experiment.oracle
    config = atomic_files.canonical_json(experiment.config)
    insert_rows(connection, "experiment", [[*names, config]])


def _insert_scenarios_methods_domains(
    connection: duckdb.DuckDBPyConnection, experiment: Experiment
) -> None:
    scenarios = experiment.scenarios()
    insert_rows(connection, "scenarios", ([name, i] for i, name in enumerate(scenarios)))
    insert_rows(connection, "methods", ([name, i] for i, name in enumerate(experiment.methods())))
    for scenario in scenarios:
        # Runs of one scenario may differ in their domains: the order is that of first sight.
        domains = dict.fromkeys(
            domain
            for run in experiment.runs.values()
            if run.settings["scenario"] == scenario
            for domain in run.settings["domains"]
        )
        target = experiment.configured_unscaled_target_weights(scenario)
        rows = ([scenario, name, i, target.get(name, 1.0)] for i, name in enumerate(domains))
        insert_rows(connection, "domains", rows)


def _insert_runs(
    connection: duckdb.DuckDBPyConnection, experiment: Experiment, recorded: lineage.Lineage
) -> None:
    columns = [name for name, *_ in connection.execute("describe runs").fetchall()]
    rows = []
    for run, record in experiment.runs.items():
        values = record.settings
        known = {
            "run": run,
            "scenario": values["scenario"],
            "model": values["model_name"],
            "method": values["method_name"],
            "seed": values["seed"],
            "tokenizer": values["tokenizer"],
            "mixture": record.mixture,
            **(_facts_of_trained if record.trained else _facts_of_planned)(run, values, recorded),
        }
        rows.append([known.get(name) for name in columns])
    insert_rows(connection, "runs", rows)


def _facts_of_trained(run: str, _: Mapping[str, Any], recorded: lineage.Lineage) -> dict[str, Any]:
    """What the manifest of a finished run says of it."""
    made = recorded.artifacts[f"run/{run}"]
    keys = ("steps", "tokens", "parameters", "data_fingerprint", "device", "wall_seconds",
            "tokens_per_second", "resumes")  # fmt: skip
    if missing := sorted({*keys} - made.facts.keys()):
        raise InputError(
            f"{made.path} lacks {', '.join(missing)}: run `pike pretrain` for {run} again"
        )
    return {
        "settings": atomic_files.canonical_json(made.settings),
        "code_commit": made.code_commit,
        "code_fingerprint": made.code_fingerprint,
        "weights_sha256": made.facts["weights_sha256"],
        **{key: made.facts[key] for key in keys},
    }


def _facts_of_planned(
    run: str, values: Mapping[str, Any], recorded: lineage.Lineage
) -> dict[str, Any]:
    """Of a run that is not trained: what its settings and its tokenizer say of it."""
    first = f"corpus/{values['tokenizer']}/{values['domains'][0]}"
    vocabulary = recorded.artifacts[first].facts["tokenizer"]["vocabulary"]
    recipe = validate(Training, values["training"], f"{run}: training")
    return {
        "settings": atomic_files.canonical_json(values),
        "steps": recipe.steps,
        "tokens": recipe.steps * recipe.rows * recipe.length,
        "parameters": Model(**values["model"]).parameter_count(vocabulary),
    }


def _insert_corpora(connection: duckdb.DuckDBPyConnection, recorded: lineage.Lineage) -> None:
    of_corpus = ("uniform_nats", "unigram_nats", "floor_nats", "revision", "licence", "fingerprint")
    of_split = ("characters", "unknown_tokens", "pieces", "entropy_nats")
    for name, made in recorded.artifacts.items():
        if not name.startswith("corpus/"):
            continue
        facts = made.facts
        for split, sizes in facts["splits"].items():
            place = [*name.split("/")[1:], split]
            row = [*place, *(sizes[n] for n in ("documents", "tokens", "bytes"))]
            row += [facts["tokenizer"]["vocabulary"], *map(facts.get, of_corpus)]
            insert_rows(connection, "corpora", [[*row, *map(sizes.get, of_split)]])
            lengths = sizes.get("lengths", {}).items()
            rows = ([*place, int(least), count] for least, count in lengths)
            insert_rows(connection, "document_lengths", rows)


def fill_paper_and_default_tables(
    connection: duckdb.DuckDBPyConnection, config: Mapping[str, Any]
) -> None:
    """Fills the tables of what the paper says, which names play its, and what holds by default."""
    printed = {"numbers": "value", "statements": "value", "claims": "published"}
    others = ("names", "setup", "items", "contradictions", "errata", "patterns")
    for name in (*printed, *others):
        table = "paper" if name == "numbers" else f"paper_{name}"
        columns = "*"
        if name in printed:  # Digits behind the point are lost once a value is a number.
            columns += f", len(split_part({printed[name]}, '.', 2)) as decimals"
        quoted = glob.escape(str(PAPER / f"{name}.csv")).replace("'", "''")
        connection.execute(
            f"insert into {table} "
            f"select {columns} from read_csv('{quoted}', header = true, all_varchar = true)"
        )
    insert_rows(connection, "published_names", map(list, paper_roles.paper_roles_of(config)))
    defaults = []
    for kind, owner in (("training", Training), ("pike", PiKE), ("paper", Paper)):
        values = {field.name: field.default for field in dataclasses.fields(owner)}
        given = {name: v for name, v in values.items() if isinstance(v, int | float | str)}
        defaults.append([kind, atomic_files.canonical_json(given)])
    insert_rows(connection, "defaults", defaults)


def _insert_lineage(connection: duckdb.DuckDBPyConnection, recorded: lineage.Lineage) -> None:
    def json_or_none(value: Any) -> str | None:
        return None if value is None else atomic_files.canonical_json(value)

    rows = []
    for _, made in sorted(recorded.artifacts.items()):
        texts = {"settings": json_or_none(made.settings), "facts": json_or_none(made.facts)}
        rows.append([*(vars(made) | {"inputs": [*made.inputs]} | texts).values()])
    insert_rows(connection, "lineage", rows)
