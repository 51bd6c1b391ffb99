"""The output root of an experiment: whose it is, and the settings files that stages read there."""

import contextlib
import functools
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.planning.plan import Plan, Settings
from pipeline.runtime import atomic_files
from pipeline.runtime.programs import program_command

TAKEN = frozenset({".git", ".snakemake", ".venv", "config", "pike_mixing", "pipeline", "workflow"})
"""Folders of the clone where no results may lie."""
DEFAULT_CONFIG = Path("config.yaml")
"""The experiment of a command that names none."""
LABEL = "experiment.json"
"""What an output root was begun by, and last started with."""


def refuse_root_of_other_experiment(plan: Plan) -> None:
    """Refuses an output root that another experiment has begun."""
    _check_root_and_make_label(plan)


def _check_root_and_make_label(plan: Plan) -> Settings:
    """The label of an output root that no other experiment has begun.

    A root outside the working directory can be shared by several clones. The label then names the
    first one, and the settings: a clone with other settings would take the first one's results
    for its own, since Snakemake's memory of what made them (`.snakemake/`) is the clone's.
    """
    refuse_unusable_root(plan.results)
    label = {
        "experiment": plan.config["experiment"],
        "configuration": plan.owner,
        "started_with": list(plan.files),
        "options": plan.options,
    }
    path, here = Path(plan.results, LABEL), Path.cwd().resolve()
    if not Path(plan.results).resolve().is_relative_to(here):
        label |= {"clone": str(here), "settings": atomic_files.json_digest(plan.config)}
    found = read_mapping_or_none(path)
    if found is None and path.exists():
        raise InputError(
            f"{path} does not say which experiment the folder holds: give another (results:) "
            "or move the file away"
        )
    result = label | (found or {})
    if any(result[name] != label[name] for name in ("experiment", "configuration")):
        raise InputError(
            f"{plan.results}/ belongs to the experiment {result['experiment']!r} of "
            f"{result['configuration']}, not to {label['experiment']!r} of {plan.origin}: give "
            f"this configuration its own folder (results: ...), or, if it replaces the other for "
            f"good, delete {path}"
        )
    shared = {"clone", "settings"} & label.keys()
    if shared and all(result[name] != label[name] for name in shared):
        raise InputError(
            f"{plan.results}/ was begun by the clone {result['clone']}, whose {plan.origin} has "
            f"other settings than the one of {here}: give this clone a folder of its own "
            "(results: ...), or make both configurations equal; if that clone was moved here or is "
            f"gone, delete {path}: what was made under other settings is then made again"
        )
    return label | {name: result[name] for name in shared - {"settings"}}


def refuse_unusable_root(folder: str) -> None:
    """Stops where something else is in the place of the output root or of a folder above it.

    So it does where the root is the working directory, which Snakemake cannot use, lies among the
    code, or where DuckDB opens no database.
    """
    inside = Path(os.path.relpath(os.path.realpath(folder))).parts
    if not inside:
        raise InputError(f"results: {folder}: that is the folder itself: name one in it (results:)")
    refuse_path_unfit_for_duckdb(Path(folder))
    if inside[0] in TAKEN:
        raise InputError(
            f"results: {folder}: {inside[0]} holds what is not made here: give another (results:)"
        )
    for place in (Path(folder), *Path(folder).parents):
        if os.path.lexists(place) and not place.is_dir():
            raise InputError(f"results: {folder}: {place} is no folder: give another (results:)")


def refuse_path_unfit_for_duckdb(path: Path) -> None:
    """Stops at a path of a database, or of a folder of databases, that DuckDB cannot open.

    Raises:
        InputError: it has a backslash, which DuckDB reads as a slash, or a question mark.
    """
    place = os.path.realpath(path)
    if wrong := {"\\", "?"}.intersection(place):
        raise InputError(
            f"{path}: DuckDB opens no database of the path {place}, for the {min(wrong)} in it: "
            "rename the folder, or give another"
        )


def read_mapping_or_none(path: Path) -> dict[str, Any] | None:
    """The content of a JSON file; None where there is none, or another's."""
    with contextlib.suppress(InputError):
        return atomic_files.read_json_mapping(path)
    return None


class OutputRoot(NamedTuple):
    """What an output root was last started with."""

    folder: Path
    """The output root."""
    files: list[Path]
    """The configuration's files."""
    options: Settings
    """What `--config` set."""
    pythons: Mapping[str, str]
    """Interpreters by rule, where they are not the workflow's."""


def read_root(folder: Path) -> OutputRoot | None:
    """What a folder was last started with; None where it is no output root."""
    label = read_mapping_or_none(folder / LABEL) or {}
    # Settings of a database have the same name.
    if not isinstance(label.get("started_with"), list):
        return None
    files = [*map(Path, label["started_with"])]
    return OutputRoot(folder, files, label.get("options", {}), label.get("pythons", {}))


@functools.cache
def find_root_above(folder: Path) -> OutputRoot | None:
    """The output root that a folder is, or lies in."""
    return next((root for root in map(read_root, (folder, *folder.parents)) if root), None)


def command_to_make(path: Path, *, force: bool = False) -> str:
    """The command that makes a file of an experiment, also where it is there (`force`)."""
    root = find_root_above(path.absolute().parent)
    if root is None and (restored := _restore_command(path.absolute())):
        return restored
    words = ["--force"] if force else []
    return _snakemake_command(root, [*words, str(_path_from_working_folder(path))])


def _path_from_working_folder(path: Path) -> Path:
    """A path as a user types it: from the working directory on, where it lies in it."""
    here = Path.cwd()
    return Path(os.path.normpath(path.relative_to(here) if path.is_relative_to(here) else path))


def origin_archive_path(folder: Path) -> Path | None:
    """The archive that a results folder was restored from; None where no archive was its origin."""
    for made in (folder / "pike.manifest.json", *folder.glob("databases/*.manifest.json")):
        # A restored database is made from the archive's manifest alone.
        read = (read_mapping_or_none(made) or {}).get("inputs", {})
        archive = Path(os.path.normpath(made.absolute().parent / min(read, default=""))).parent
        if len(read) == 1 and not archive.is_relative_to(folder.absolute()):
            return archive
    return None


def _restore_command(path: Path) -> str | None:
    """The command that restores a file from its archive; None where no archive was its origin."""
    for folder in path.parents[:2]:
        if archive := origin_archive_path(folder):
            words = ["restore", str(_path_from_working_folder(archive))]
            words += ["--out", str(_path_from_working_folder(folder))]
            if only := _names_for_only_option(archive, folder, path.relative_to(folder)):
                words += ["--only", *only]
            return f"{program_command('pike')} {shlex.join(words)}"
    return None


def _names_for_only_option(archive: Path, folder: Path, place: Path) -> list[str]:
    """The tables and figures to restore for a file of a results folder; none: all of them."""
    if place.parts[0] in ("tables", "figures"):
        return [place.name.partition(".")[0]]
    if place.parts[0] != "databases":
        return []
    reads = (read_mapping_or_none(archive / atomic_files.MANIFEST) or {}).get("reads", {})
    database = place.with_suffix("").as_posix()
    readers = {
        name: (folder / f"{kind}s" / f"{name}.{atomic_files.MANIFEST}").is_file()
        for kind, names in reads.items()
        for name, read in names.items()
        if read == database
    }
    # Those that were restored; of an interrupted restoration, all.
    return sorted(name for name, is_there in readers.items() if is_there) or sorted(readers)


def command_to_make_all(folder: Path) -> str:
    """The command that makes all that an experiment lacks, given its output root."""
    return _snakemake_command(find_root_above(folder), [])


def _snakemake_command(root: OutputRoot | None, words: list[str]) -> str:
    result = ["--cores", "2", *words]
    if root and root.files != [DEFAULT_CONFIG]:
        result += ["--configfile", *map(str, root.files)]
    if root and root.options:
        # As Snakemake reads them.
        texts = {
            name: json.dumps(value) if isinstance(value, dict | list) else str(value)
            for name, value in root.options.items()
        }
        result += ["--config", *(f"{name}={text}" for name, text in texts.items())]
    return f"{program_command('snakemake')} {shlex.join(result)}"


def write_settings(plan: Plan, python_by_rule: Mapping[str, str] | None = None) -> None:
    """Writes every settings file whose content changed or was spoiled, and the root's label.

    `python_by_rule` has interpreters where they are not this one.
    """
    label = _check_root_and_make_label(plan)
    label |= {"pythons": dict(python_by_rule)} if python_by_rule else {}
    wanted = {f"{plan.results}/{LABEL}": label, **plan.settings_by_path()}
    with errors.explain_disk_errors(Path(plan.results)):
        for name, values in wanted.items():
            if read_mapping_or_none(Path(name)) != values:
                atomic_files.write_json(Path(name), values)
