"""The output root of an experiment: whose it is, and the settings files that stages read there."""

import contextlib
import functools
import getpass
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


def claim_root(plan: Plan) -> Settings:
    """Refuses an output root that another experiment has begun; returns the stamp to write.

    A root outside the working directory can be shared by several clones. The stamp then names the
    first one, and the settings: a clone with other settings would take the first one's results
    for its own, since Snakemake's memory of what made them (`.snakemake/`) is the clone's.

    Raises:
        InputError: the root belongs to another configuration, or to a clone with other settings,
            or something else is in its place.
    """
    refuse_unusable_root(plan.results)
    stamp = {
        "experiment": plan.config["experiment"],
        "configuration": plan.owner,
        "started_with": list(plan.files),
        "options": plan.options,
    }
    path, here = Path(plan.results, "experiment.json"), Path.cwd().resolve()
    if not Path(plan.results).resolve().is_relative_to(here):
        stamp |= {"clone": str(here), "settings": atomic_files.json_digest(plan.config)}
    result = {**stamp, **_read_stamp(path)}
    if any(result[name] != stamp[name] for name in ("experiment", "configuration")):
        raise InputError(
            f"{plan.results}/ belongs to the experiment {result['experiment']!r} of "
            f"{result['configuration']}, not to {stamp['experiment']!r} of {plan.origin}: give "
            f"this configuration its own folder (results: ...), or, if it replaces the other for "
            f"good, delete {path}"
        )
    shared = {"clone", "settings"} & stamp.keys()
    if shared and all(result[name] != stamp[name] for name in shared):
        raise InputError(
            f"{plan.results}/ was begun by the clone {result['clone']}, whose {plan.origin} has "
            f"other settings than the one of {here}: give this clone a folder of its own "
            "(results: ...), or make both configurations equal; if that clone was moved here or is "
            f"gone, delete {path}: what was made under other settings is then made again"
        )
    return stamp | {name: result[name] for name in shared - {"settings"}}


def refuse_unusable_root(folder: str) -> None:
    """Stops where something else is in the place of the output root or of a folder above it.

    Raises:
        InputError: what is there; or the root is the working directory, which Snakemake cannot use,
            or lies among the code, or where DuckDB opens no database.
    """
    inside = Path(os.path.relpath(os.path.realpath(folder))).parts
    if not inside:
        raise InputError(f"results: {folder}: that is the folder itself: name one in it (results:)")
    refuse_unopenable_path(Path(folder))
    if inside[0] in TAKEN:
        raise InputError(
            f"results: {folder}: {inside[0]} holds what is not made here: give another (results:)"
        )
    for place in (Path(folder), *Path(folder).parents):
        if os.path.lexists(place) and not place.is_dir():
            raise InputError(f"results: {folder}: {place} is no folder: give another (results:)")


def ensure_user_name() -> None:
    """Gives a user without a name one: Snakemake asks for it, and a container may know none."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USER"] = f"uid-{os.getuid()}"


def refuse_unopenable_path(path: Path) -> None:
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


def _read_stamp(path: Path) -> Settings:
    """What stands in the root's stamp; nothing where there is none."""
    result = _read_json_or_none(path) if path.exists() else {}
    values = result.values() if isinstance(result, dict) else [None]
    if not all(isinstance(value, str | dict | list) for value in values):
        raise InputError(
            f"{path} does not say which experiment the folder holds: give another (results:) "
            "or move the file away"
        )
    return result


def _read_json_or_none(path: Path) -> Any:
    """The content of a file of JSON; None of another, which may be somebody's own."""
    with contextlib.suppress(InputError):
        return atomic_files.read_json(path)
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


def find_root(folder: Path) -> OutputRoot | None:
    """What a folder was last started with; None where it is no output root."""
    path = folder / "experiment.json"
    stamp: Any = _read_json_or_none(path) if path.is_file() else None
    # Settings of a database have the same name.
    if not isinstance(stamp, dict):
        return None
    given = stamp.get("started_with")
    if not (isinstance(given, list) and all(isinstance(one, str) for one in given)):
        return None
    options, pythons = (stamp.get(key, {}) for key in ("options", "pythons"))
    if not (isinstance(options, dict) and isinstance(pythons, dict)):
        return None
    return OutputRoot(folder, [*map(Path, given)], options, pythons)


@functools.cache
def root_above(folder: Path) -> OutputRoot | None:
    """The output root that a folder lies in."""
    return next((root for root in map(find_root, (folder, *folder.parents)) if root), None)


def command_to_make(path: Path, *, force: bool = False) -> str:
    """The command that makes a file of an experiment, also where it is there (`force`)."""
    root = root_above(path.absolute().parent)
    if root is None and (restored := _restore_command(path.absolute())):
        return restored
    return _snakemake_command(
        root, [*(["--force"] if force else []), _path_from_working_folder(path)]
    )


def _path_from_working_folder(path: Path) -> str:
    """A path as a user types it: from the working directory on, where it lies in it."""
    here = Path.cwd()
    return os.path.normpath(path.relative_to(here) if path.is_relative_to(here) else path)


def _restore_command(path: Path) -> str | None:
    """The command that restores a file from its archive; None where no archive was its origin."""
    for folder in path.parents[:2]:
        for made in (folder / "pike.manifest.json", *folder.glob("databases/*.manifest.json")):
            content = _read_json_or_none(made) if made.is_file() else None
            read = content.get("inputs") if isinstance(content, dict) else None
            # A restored database is made from the archive's manifest alone.
            if not (isinstance(read, dict) and len(read) == 1):
                continue
            archive = Path(os.path.normpath(made.parent / min(read))).parent
            if not archive.is_relative_to(folder):
                words = [
                    "restore",
                    _path_from_working_folder(archive),
                    "--out",
                    _path_from_working_folder(folder),
                ]
                if only := _outputs_to_restore(archive, folder, path.relative_to(folder)):
                    words += ["--only", *only]
                return f"{program_command('pike')} {shlex.join(words)}"
    return None


def _outputs_to_restore(archive: Path, folder: Path, place: Path) -> list[str]:
    """The tables and figures to restore for a file of a results folder; none: all of them."""
    if place.parts[0] in ("tables", "figures"):
        return [place.name.partition(".")[0]]
    if place.parts[0] != "databases":
        return []
    reads = (_read_json_or_none(archive / atomic_files.MANIFEST) or {}).get("reads", {})
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
    return _snakemake_command(root_above(folder), [])


def _snakemake_command(root: OutputRoot | None, words: list[str]) -> str:
    result = ["--cores", "2", *words]
    if root and root.files != [Path("config.yaml")]:
        result += ["--configfile", *map(str, root.files)]
    if root and root.options:
        result += [
            "--config",
            *(f"{name}={_option_text(value)}" for name, value in root.options.items()),
        ]
    return f"{program_command('snakemake')} {shlex.join(result)}"


def _option_text(value: Any) -> str:
    """An option's value as Snakemake reads it."""
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def write_settings(plan: Plan, pythons: Mapping[str, str] | None = None) -> None:
    """Writes every settings file whose content changed, and the stamp of the output root.

    `pythons` are interpreters by rule, where they are not this one.

    Raises:
        InputError: the output root belongs to another configuration, or cannot be written.
    """
    stamp = claim_root(plan) | ({"pythons": dict(pythons)} if pythons else {})
    wanted = {f"{plan.results}/experiment.json": stamp, **plan.settings_by_path()}
    with errors.explain_disk_errors(Path(plan.results)):
        for name, values in wanted.items():
            if not is_settings_file_current(Path(name), values):
                atomic_files.write_json(Path(name), values)


def is_settings_file_current(path: Path, values: Any) -> bool:
    """Whether a settings file is there and whole: a spoiled one is as good as none."""
    try:
        return bool(atomic_files.read_json(path) == values)
    except InputError:
        return False
