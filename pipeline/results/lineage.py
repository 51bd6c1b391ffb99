"""What was made from what, read from the manifests of one experiment."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline.planning import manifest_places
from pipeline.results import record_loader, sql_views
from pipeline.results.experiment import Experiment
from pipeline.runtime import atomic_files, manifests

RUN_NAMES = {
    "scenarios": "scenario",
    "models": "model_name",
    "methods": "method_name",
    "seeds": "seed",
}
"""What a selection of runs names, and the setting of a run that holds it."""

STANDARD_KEYS = {key.removesuffix("?") for key in manifests.STANDARD} - {"versions"}


@dataclass(frozen=True)
class Artifact:
    """One row of the table `lineage`: its fields are in the order of the columns."""

    name: str
    """Its stable name: source/code, run/real/tiny/mix/seed0, table/perplexity."""
    path: str
    """Where it lies, relative to the results folder."""
    sha256: str | None
    """SHA-256 of the file at `path`; None when there is none."""
    produced_by: str
    """The stage that made it; `given` for what no stage made."""
    inputs: tuple[str, ...]
    """Names of the artifacts that it was made from."""
    settings: Any = None
    code_fingerprint: str | None = None
    code_commit: str | None = None
    facts: Any = None
    """The manifest's further keys: counts, revisions, versions."""


@dataclass
class Lineage:
    """All artifacts of an experiment, in the order of the data's way."""

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    manifests: dict[Path, Mapping[str, Any]] = field(default_factory=dict)
    """What those say that were read, but of checkpoints: a run's own stands for them."""


@dataclass(frozen=True)
class _FoundManifest:
    """A manifest and the artifact that it stands for."""

    name: str
    path: Path
    content: Mapping[str, Any]


def read_lineage(experiment: Experiment) -> Lineage:
    """What the manifests of the experiment say, each of which must be there and whole."""
    result, results = list(_read_manifests(experiment)), _absolute_path(experiment.results)
    # The artifact that each file belongs to.
    owners: dict[str, str] = {}
    for manifest in result:
        here = _absolute_path(manifest.path.parent)
        owners |= {_absolute_path(file, here): manifest.name for file in manifest.content["files"]}
    owners |= {_absolute_path(manifest.path): manifest.name for manifest in result}
    own = [m for m in result if not m.name.startswith("checkpoint/")]
    lineage = Lineage({}, {m.path: m.content for m in own})
    for manifest in result:
        inputs, here, content = list[str](), _absolute_path(manifest.path.parent), manifest.content
        read = {_absolute_path(name, here): sha for name, sha in content["inputs"].items()}
        read |= {_absolute_path(name): sha for name, sha in content["given"].items()}
        for place, recorded in read.items():
            name = owners.get(place) or f"file/{os.path.relpath(place, results)}"
            inputs.append(name)
            if name.startswith("file/"):
                lineage.artifacts.setdefault(
                    name, Artifact(name, name.removeprefix("file/"), recorded, "given", ())
                )
        lineage.artifacts[manifest.name] = Artifact(
            name=manifest.name,
            path=os.path.relpath(_absolute_path(manifest.path), results),
            sha256=atomic_files.sha256(manifest.path),
            produced_by=content["stage"],
            inputs=tuple(dict.fromkeys(inputs)),
            settings=content["settings"],
            code_fingerprint=content["code"]["fingerprint"],
            code_commit=content["code"]["commit"],
            facts={key: content[key] for key in content if key not in STANDARD_KEYS},
        )
    for kind, given in (("table", experiment.tables), ("figure", experiment.figures)):
        named = [view.partition("_") for view in sql_views.view_sql_by_name()]
        every = {name: {"name": name} for first, _, name in named if first == kind and name}
        for name, settings in (given or every).items():
            view = sql_views.view_of(f"{kind}_{name}")
            stood_on = _artifact_names_read_by(experiment, view, settings)
            lineage.artifacts[f"{kind}/{name}"] = Artifact(
                f"{kind}/{name}",
                f"{kind}s/{name}{sql_views.OUTPUTS[kind]}",
                None,
                kind,
                tuple(one for one in stood_on if one in lineage.artifacts),
                settings,
            )
    return lineage


def _artifact_names_read_by(
    experiment: Experiment, view: str, settings: Mapping[str, Any]
) -> Iterator[str]:
    """The theory, and the runs, evaluations and probes of the selected runs, that an output reads.

    Tables and figures are made after the database, so what they stand on follows from their view.
    """
    read, selection = sql_views.base_tables(view), settings.get("selection", {})
    stages = {
        "evaluation": record_loader.OF_EVALUATION,
        "probe": ("similarities",),
        "run": record_loader.OF_TRAINING,
    }
    wanted = [stage for stage, tables in stages.items() if read & set(tables)]
    if read & set(record_loader.OF_THEORY):
        yield "theory"
    elif any(not table.startswith("paper") for table in read):
        wanted = wanted or ["run"]
    for name, run in experiment.runs.items():
        values = {key: run.settings[column] for key, column in RUN_NAMES.items()}
        if all(value in selection.get(key, [value]) for key, value in values.items()):
            yield from (f"{stage}/{name}" for stage in wanted)


def _read_manifests(experiment: Experiment) -> Iterator[_FoundManifest]:
    """Every manifest, sources first; each is of what its place says."""
    keys = {"pretrain": "run", "evaluate": "run", "probe": "run", "pack": "source", "fetch": "task"}
    for name, stage, place in manifest_places.database_manifests(experiment.plain_values()):
        of, remake = name.partition("/")[2], record_loader.stage_remedy(stage, name)
        path = Path(place)
        if not path.is_file():
            raise InputError(f"{path} does not exist: {remake}")
        content = manifests.read_manifest(path, stage, remake)
        expected = name.rpartition("/")[2] if stage == "pack" else of
        own = content.get(keys.get(stage, ""), expected)
        if own != expected:
            raise InputError(f"{place} is of {own!r}, not of {expected!r}: {remake}")
        result = _FoundManifest(name, path, content)
        yield result
        if stage == "pretrain":
            yield from _read_checkpoints(result)


def _read_checkpoints(run: _FoundManifest) -> Iterator[_FoundManifest]:
    """The kept checkpoints that are there: some may be deleted to save space."""
    # All lie two folders below the run's manifest.
    inputs = {f"../../{run.path.name}": atomic_files.sha256(run.path)}
    for step in run.content["checkpoints"]:
        path = run.path.parent / "checkpoints" / f"step{step}" / atomic_files.MANIFEST
        if not path.is_file():
            continue
        own = manifests.read_checkpoint_manifest(path.parent)
        content = {
            "stage": run.content["stage"],
            "settings": {"model": own["model"], "vocabulary": own["vocabulary"]},
            "inputs": inputs,
            "files": own["sha256"],
            "given": {},
            "code": run.content["code"],
            "step": own["step"],
        }
        name = run.name.removeprefix("run/")
        yield _FoundManifest(f"checkpoint/{name}/step{step}", path, content)


def _absolute_path(name: str | Path, folder: str = "") -> str:
    """The one name of a path below an absolute folder or where we are: without `..`, links kept."""
    # Of thousands of names; pathlib takes five times as long.
    text = str(name)
    inside = folder and not text.startswith(os.sep)
    return os.path.normpath(f"{folder}/{text}") if inside else os.path.abspath(text)  # noqa: PTH100
