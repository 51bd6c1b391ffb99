"""`pike crate`: a finished experiment as a Workflow Run RO-Crate, which archives can read.

The folder holds the workflow, the configuration, the database, tables, figures and report, the
records from which `pike restore` makes these anew, and ro-crate-metadata.json, which says which of
them the workflow made from which
(https://www.researchobject.org/workflow-run-crate/profiles/workflow_run_crate). Corpora and
checkpoints are left out: the database's lineage has their SHA-256.
"""

import datetime
import importlib
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError, install
from pipeline.results import archive, experiment, provenance, sealed
from pipeline.results.selection import connect_ours
from pipeline.runtime import atomic_files, manifests

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
}
"""What the crate conforms to, by address, besides what the library names."""
LICENCE = "https://spdx.org/licenses/Apache-2.0"
RESULTS = ("pike.duckdb", "tables", "figures", "report")
"""What the workflow made, below the results folder."""
ROOT = Path(__file__).resolve().parents[2]


def crate(results: Path, *, out: Path) -> str:
    """Writes the crate of finished results, whole or not at all, and says what it has.

    Raises:
        InputError: a result is missing, is a link or no file, `out` is somebody else's, this is no
            clone, or rocrate is not installed.
    """
    settings = results / "settings" / "experiment.json"
    sealed.refuse_missing(
        settings, *(results / name for name in RESULTS), ROOT / "workflow/Snakefile"
    )
    for place in (path for name in RESULTS for path in (results / name).rglob("*")):
        manifests.refuse_link(place, results)
        if not place.is_dir() and (other := atomic_files.not_a_file(place)):
            raise InputError(f"{place} is {other}, and a crate holds files: move it away")
    try:
        library = importlib.import_module("rocrate.rocrate")
    except ModuleNotFoundError:
        raise InputError(f"rocrate is not installed: run `{install('crate')}`") from None
    with atomic_files.atomic_write(out, "crate", [results]) as partial:
        made = library.ROCrate()
        _describe(made, experiment.read(settings).experiment)
        workflow = _workflow(made)
        given = made.add_file(settings, "experiment.json", properties={
            "name": "The configuration and the runs that it makes",
            "encodingFormat": "application/json",
        })  # fmt: skip
        result = [
            (made.add_dataset if path.is_dir() else made.add_file)(path, f"results/{path.name}")
            for path in (results / name for name in RESULTS)
        ]
        made.root_dataset["mentions"] = made.add_action(
            workflow, object=[given], result=result, properties=_run(results / RESULTS[0])
        )
        made.write(partial)
        archive.record(results, out=partial / "recorded")
    return f"{out}: {sum(path.is_file() for path in out.rglob('*')):,} files"


def _describe(made: Any, name: str) -> None:
    """Name, licence and profiles of the crate."""
    made.name = f"Results of the experiment {name}"
    made.description = f"Language models pretrained under data-mixing methods: experiment {name}"
    made.license = LICENCE
    for address, title in PROFILES.items():
        profile = made.add_jsonld({"@id": address, "@type": "CreativeWork", "name": title})
        made.root_dataset.append_to("conformsTo", profile)


def _workflow(made: Any) -> Any:
    workflow = made.add_workflow(
        ROOT / "workflow/Snakefile",
        "workflow/Snakefile",
        main=True,
        lang="snakemake",
        properties={"name": "pike"},
    )
    workflow["license"] = LICENCE
    workflow["hasPart"] = made.add_dataset(ROOT / "workflow", "workflow")
    return workflow


def _run(database: Path) -> dict[str, Any]:
    """When the run ended, by which code."""
    with connect_ours(database) as connection:
        commits = {row["commit"] for row in provenance.code(connection)} - {None}
    code = f"By the code of commit {', '.join(sorted(commits)) or 'unknown'}"
    ended = datetime.datetime.fromtimestamp(database.stat().st_mtime, datetime.UTC)
    return {"name": "The run", "endTime": ended.isoformat(timespec="seconds"), "description": code}
