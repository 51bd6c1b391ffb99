"""What came of a registered benchmark: predictions beside outcomes, and where runs departed."""

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import duckdb

from pike_mixing.errors import InputError, names_text
from pipeline.planning import (
    dependencies,
    normal_form,
    planner,
    registration,
    shorthand,
    stage_settings,
)
from pipeline.planning.configuration import Experiment
from pipeline.planning.dependencies import RunName
from pipeline.planning.plan import Plan
from pipeline.planning.registration import Registration
from pipeline.results import board_tests
from pipeline.results.database_reader import Row, open_explaining_missing_views, query_rows
from pipeline.results.stale_work import find_stale_work
from pipeline.runtime import output_formats, validate_settings
from pipeline.runtime.programs import program_command

RULES = ("pike_mixing/rules", "pike_mixing/numerics", "pike_mixing/finders")
"""What is frozen at the registration's commit."""
NAMED = 3
"""Names of a kind that a line lists."""
SECTIONS = ("sources", "tokenizers", "evaluation", "scenarios")
"""Sections of a configuration that runs stand on beside their own settings."""


def compare_with_registration(
    given: Path, database: Path | None = None, format: str = "text"
) -> str:
    """Compares results with the registration `given` that they were made for, as text or json.

    Without a database it is the one that the registration's configuration names.
    """
    chosen = registration.read_registration(given)
    plan = planner.plan(
        shorthand.expand_shorthand(registration.workflow_configuration(chosen)), str(given)
    )
    place = database or Path(plan.results, "pike.duckdb")
    if database is None and not place.exists():
        drawn = f"results/{chosen.benchmark}.yaml"
        pike, snakemake = program_command("pike"), program_command("snakemake")
        raise InputError(
            f"{place} does not exist: make the runs by `{pike} scenarios {given} "
            f"--out {drawn}` and `{snakemake} --profile workflow/profiles/default "
            f"--configfile {drawn}`"
        )
    with open_explaining_missing_views(place) as connection:
        facts = {
            "registration": str(given),
            "status": chosen.status,
            "date": chosen.date,
            "deviations": [
                *_registration_file_problems(chosen, given),
                *_run_deviations(chosen, plan, connection),
                *(_stale_run_lines(place) if chosen.status == "draft" else ()),
            ],
            "hypotheses": board_tests.judge_hypotheses(
                chosen.hypotheses, chosen.level, query_rows(connection, "from scenario_differences")
            ),
            "methods": list(_rows_against_mix_with_costs(chosen, plan, connection)),
        }
    return output_formats.json_csv_or_text(format, facts, lambda: _comparison_text(facts, chosen))


def _registration_file_problems(chosen: Registration, given: Path) -> Iterator[str]:
    """What the file itself departs in from a registration."""
    if chosen.status == "draft":
        yield f"{given} is a draft: nothing was registered before the runs"
    if not _git_output(given.parent, "log", "-1", "--format=%H", "--", given.name):
        yield f"{given} is in no commit"
    elif _git_output(given.parent, "status", "--porcelain", "--", given.name):
        yield f"{given} differs from what was committed"
    for other in registration.earlier_files_with_same_test_scenarios(chosen):
        yield f"its scenarios are those of {other}, whose results may have been read"


def _run_deviations(
    chosen: Registration, plan: Plan, connection: duckdb.DuckDBPyConnection
) -> Iterator[str]:
    """Runs and settings that are not as registered, and code that is not as frozen."""
    runs = query_rows(connection, "select run, settings, code_commit from runs order by run")
    made = {
        row["run"]: stage_settings.fill_run_defaults(json.loads(row["settings"])) for row in runs
    }
    differing = []
    for run in [name for name in plan.runs if name in made]:
        own, wanted = made[run], plan.runs[run]
        keys = sorted(k for k in own.keys() | wanted.keys() if own.get(k) != wanted.get(k))
        differing += [f"{run}: {' '.join(keys)}"] if keys else []
    deviations = {
        "missing runs": [run for run in plan.runs if run not in made],
        "runs that were not registered": [run for run in made if run not in plan.runs],
        "runs with other settings": differing,
    }
    (row,) = query_rows(connection, "select config from experiment")
    recorded = json.loads(row["config"])
    experiment = validate_settings.validate(
        Experiment, recorded, "the database", allow_contradictions=True
    )
    config = normal_form.normalise_config(experiment, [*recorded])
    for section in SECTIONS:
        own, wanted = config.get(section, {}), plan.config[section]
        names = [name for name in wanted if own.get(name) != wanted[name]]
        deviations[f"{section} with other settings"] = names
    for what, names in deviations.items():
        yield from _counted_names_line(what, names)
    origin = Path(plan.origin)
    registering = _git_output(origin.parent, "log", "-1", "--format=%H", "--", origin.name)
    for commit in sorted({str(row["code_commit"]) for row in runs}):
        yield from _commit_deviations(chosen, origin.parent, registering, commit)


def _stale_run_lines(database: Path) -> Iterator[str]:
    """Runs that rules or settings of today would make otherwise: those of a draft may change."""
    stale = dict.fromkeys(one.artifact for one in find_stale_work(database) or ())
    runs = [artifact.removeprefix("run/") for artifact in stale if artifact.startswith("run/")]
    yield from _counted_names_line("runs older than today's code or settings", runs)


def _commit_deviations(
    chosen: Registration, folder: Path, registering: str | None, commit: str
) -> Iterator[str]:
    """How the code of some runs departs: its commit, and files that were frozen at another."""
    clean = commit.removesuffix("+")
    if clean != commit:
        yield f"code of {clean[:12]} had changes that are in no commit"
    if (
        registering
        and _git_output(folder, "merge-base", "--is-ancestor", registering, clean) is None
    ):
        yield f"code of {clean[:12]} is not of after the registration ({registering[:12]})"
    if chosen.commit:
        places = [f":/{place}" for place in RULES]
        changed = _git_output(folder, "diff", "--name-only", chosen.commit, clean, "--", *places)
        if changed is None:
            yield f"code of {clean[:12]} cannot be compared with {chosen.commit[:12]}: fetch both"
        elif changed:
            yield from _counted_names_line(
                f"code of {clean[:12]}: rules that changed", changed.split()
            )


def _counted_names_line(what: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"{what}: {names_text(names, most=NAMED)}"


def _git_output(folder: Path, *arguments: str) -> str | None:
    """What git answers; None where it fails."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _rows_against_mix_with_costs(
    chosen: Registration, plan: Plan, connection: duckdb.DuckDBPyConnection
) -> Iterator[Row]:
    """The rows of boards against Mix, with costs in runs of Mix."""
    measured = (
        "select scenario, model, method, "
        "if(count(steps) = count(*), avg(steps order by steps), null) as steps "
        "from steps_of_baseline group by all"
    )
    steps = {
        (r["scenario"], r["model"], r["method"]): r["steps"]
        for r in query_rows(connection, measured)
    }
    named = "select distinct board, model, scenario from scenario_differences order by all"
    scenarios: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in query_rows(connection, named):
        scenarios[row["board"], row["model"]].append(row["scenario"])
    boards = "from boards where against = 'mix' order by board, model, difference"
    for row in query_rows(connection, boards):
        places = scenarios[row["board"], row["model"]]
        runs = [RunName(s, row["model"], row["method"], chosen.seeds[0]) for s in places]
        # Of other runs costs are not known: deviations name what is missing.
        if row["method"] not in chosen.methods_on_board(row["board"]) or {*map(str, runs)} - {
            *plan.runs
        }:
            continue
        # None where a run had another kind of device than those of Mix.
        each = [steps.get((run.scenario, run.model, run.method)) for run in runs]
        known = [one for one in each if one is not None]
        here = fmean(known) / _steps_of_mix(plan, runs[0]) if known == each else None
        columns = (
            "board", "model", "method", "scenarios", "difference", "half", "p_holm", "worst",
            "worst_scenario",
        )  # fmt: skip
        yield (
            {c: row[c] for c in columns} | _relative_costs(chosen, plan, runs) | {"time here": here}
        )


def _relative_costs(chosen: Registration, plan: Plan, runs: Sequence[RunName]) -> Row:
    """Rows, FLOPs with the search, and time at the paper's size, each over those of Mix."""
    base = _steps_of_mix(plan, runs[0])

    def rows_relative_to_mix(run: RunName) -> float:
        values = plan.runs[str(run)]
        return float(values["training"]["steps"] * registration.rows_per_batch_row(values) / base)

    def flops_with_search_relative_to_mix(run: RunName) -> float:
        every = dependencies.wanted_then_required_runs(plan.config, [run])
        flops = sum(rows_relative_to_mix(one) * flops_of_mix_step(one) for one in every)
        return flops / flops_of_mix_step(run)

    def flops_of_mix_step(run: RunName) -> float:
        return registration.flops_of_mix_step(plan.runs[str(run)], plan.tokenizers)

    equal = chosen.mix_for.get(runs[0].method)
    others = [run._replace(method=equal.of) if equal else run for run in runs]
    paper = [registration.run_rescaled_to_paper_training(plan.runs[str(run)]) for run in others]
    return {
        "rows": fmean(map(rows_relative_to_mix, runs)),
        "with search": fmean(map(flops_with_search_relative_to_mix, runs)),
        "time at the paper's size": fmean(
            [registration.passes_relative_to_mix(run) for run in paper]
        ),
    }


def _steps_of_mix(plan: Plan, run: RunName) -> int:
    return int(plan.runs[str(run._replace(method="mix"))]["training"]["steps"])


def _comparison_text(facts: Mapping[str, Any], chosen: Registration) -> str:
    lines = [f"{facts['registration']}: {facts['status']} of {facts['date']}", ""]
    lines += [f"deviation: {line}" for line in facts["deviations"]] or ["no deviations"]
    lines += [f"exclusion: {line}" for line in chosen.exclusions] + [""]
    tested = sum(row["p"] is not None for row in facts["hypotheses"])
    for title, rows in (
        (
            f"Predictions and outcomes, nats; half of the 95% interval over scenarios; p by Holm "
            f"over the {tested} that have one, level {chosen.level:g}",
            facts["hypotheses"],
        ),
        (
            "Methods against Mix, nats; half of the 95% interval over scenarios; p by Holm over "
            "the methods of a board; worst: the largest difference; costs in runs of Mix, time as "
            "measured",
            facts["methods"],
        ),
    ):
        if rows:
            cells = [
                [round(v, 4) if isinstance(v, float) else v for v in row.values()] for row in rows
            ]
            lines += [title, output_formats.table_with_row_count(list(rows[0]), cells), ""]
    return "\n".join(lines).rstrip()
