"""What a result was made from: recorded by the stage that makes it, compared with today.

A manifest says which settings, manifests, files of the user's own, code and packages made its
files. Plans, resuming, and the commands `query`, `why` and `verify` ask `record_differences`
whether these are still the same.
"""

import logging
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError, names_text
from pipeline.runtime import (
    atomic_files,
    checksums,
    code_fingerprint,
    environment,
    manifests,
    ownership,
)

log = logging.getLogger("pike")

SPARED = "checkpoints/"
"""Files of a run that may be deleted to save space: its records stand without them."""
JOB_NOTES = Path(".snakemake", "standing")
"""Word for jobs, where the workflow is started (`keep_manifest_copy`, `mark_for_restart`)."""
CHECKED_BY_SIZE = frozenset({"download", "pack", "fetch", "domains"})
"""Stages whose files, like checkpoints, are compared by size: to hash them all takes minutes."""
UNSET = "not set"
"""This very object stands for what one of two records has not."""
_LONG = 200
"""Characters of two values from which on they are not shown."""


class RecordDifference(NamedTuple):
    """One thing that a result was made from, and that is another today."""

    what: str
    """Its dotted name: settings.training.steps, code, versions.torch, inputs.PATH, given.PATH."""
    recorded: str
    today: str

    def __str__(self) -> str:
        """In words; of long values, that there are two."""
        if len(self.recorded) + len(self.today) > _LONG:
            return f"{self.what} was another"
        return f"{self.what} was {self.recorded}, is {self.today}"


class InputSnapshot:
    """What a stage's work is made from, taken before it and compared at its end.

    Somebody may edit code or files while a stage works. Its manifest must not say then that it was
    made from what is there when it ends.
    """

    def __init__(
        self,
        stage: str,
        modules: Sequence[str],
        *,
        inputs: Iterable[Path] = (),
        given: Iterable[Path] = (),
        assets: Sequence[str] = (),
    ) -> None:
        """Takes the fingerprint of the stage's code, and digests of files as `take_digests` does.

        The code is that of the modules and all that they import, and of `assets`, folders of the
        package.
        """
        self.stage, self._modules, self._assets = stage, tuple(modules), tuple(assets)
        self.code = code_and_versions(stage, modules, assets)
        self._commit = code_fingerprint.current_commit()
        self._sources = self._current_digest_by_code_path()
        self.inputs: dict[Path, str] = {}
        self.content: dict[Path, str] = {}
        self.given: dict[Path, str] = {}
        self._stamps: dict[Path, atomic_files.Stamp] = {}
        self.take_digests(inputs, given)

    def take_digests(self, inputs: Iterable[Path] = (), given: Iterable[Path] = ()) -> None:
        """Takes digests of files that the stage is about to read; of each once.

        `inputs` are manifests (or files) of other stages; of a manifest the work is a function of
        what it vouches for (`manifests.digest_of_used_manifest_parts_or_none`). `given` are files
        of the user's own. What is missing is left out: the stage itself says so.
        """
        for paths, digests in ((inputs, self.inputs), (given, self.given)):
            for path in paths:
                if path not in digests and path.is_file():
                    self._stamps[path] = atomic_files.file_stamp(path)
                    digests[path] = atomic_files.sha256(path)
                    content = manifests.digest_of_used_manifest_parts_or_none(path, self.stage)
                    if content and digests is self.inputs:
                        self.content[path] = content

    def restore_manifest_if_unchanged(self, path: Path, settings: Any) -> bool:
        """Whether work that the workflow starts again would come out as it lies there.

        The workflow cannot know this of work behind a stage that it makes again, and keeps its
        manifest (`keep_manifest_copy`). Where all that the work is made from has come out the same,
        that manifest is written again at `path`, where Snakemake has deleted it, and there is
        nothing to do.
        """
        kept = _manifest_copy_path(path)
        if path.exists() or not kept.is_file():
            return False
        differences = differences_from_today_if_finished(
            path,
            self.stage,
            checksums.DigestCache(checksums.MEMORY),
            settings=settings,
            code=self.code["code"]["fingerprint"],
            versions=self.code["versions"],
            inputs=[*map(str, self.inputs)],
            given=[*map(str, self.given)],
            copy=kept,
        )
        if differences:
            kept.unlink()
            return False
        result = manifests.read_manifest(kept, self.stage)
        kept.unlink()
        inputs = result["inputs"] | _relative_paths(self.inputs, path.parent)
        self._write_manifest_unchecked(path, result | {"inputs": inputs})
        log.info("%s stands: all that it was made from has come out the same", path)
        return True

    def write_manifest(
        self,
        path: Path,
        *,
        settings: Any,
        files: Sequence[Path],
        facts: Mapping[str, Any],
        known_sha256: Mapping[Path, str] | None = None,
    ) -> None:
        """Writes the record of the stage's work; it is written last and marks it as complete.

        Args:
            path: The manifest's place.
            settings: The explicit settings that the stage was given.
            files: Files that it wrote, recorded with size and SHA-256. Like inputs they are
                recorded relative to the manifest's folder, so that a results folder can be moved.
            facts: What is particular to the stage: counts, revisions.
            known_sha256: SHA-256 of those of `files` that were hashed before.

        Raises:
            InputError: what the work was made from changed meanwhile.
        """
        self._refuse_changed()
        here, known = path.parent, known_sha256 or {}
        code = {
            **self.code["code"],
            "loaded": _loaded_user_files(self._modules),
            "commit": self._commit,
        }
        manifest = {
            "stage": self.stage,
            "settings": settings,
            "inputs": _relative_paths(self.inputs, here),
            "content": _relative_paths(self.content, here),
            "given": {str(one): digest for one, digest in self.given.items()},
            "files": {
                os.path.relpath(file, here): {
                    "bytes": file.stat().st_size,
                    "sha256": known.get(file) or atomic_files.sha256(file),
                }
                for file in files
            },
            "code": code,
            "versions": self.code["versions"],
            **facts,
        }
        self._write_manifest_unchecked(path, manifest)

    def _write_manifest_unchecked(self, path: Path, manifest: Mapping[str, Any]) -> None:
        """Writes a manifest: that of a folder lies in it, that of a file beside it with a mark."""
        of_file = self.stage if self.stage in ownership.MAKE_FILES else None
        atomic_files.write_json(path, manifest, of_file, [*self.inputs, *self.given])

    def _refuse_changed(self) -> None:
        """Stops where code or files are not those that were taken.

        A training vouches for the code that it began with: nobody waits days to edit a file.
        """
        changed = [path for path in (*self.inputs, *self.given) if self._is_changed(path)]
        if self.stage != "pretrain":
            differ = self._sources.items() ^ self._current_digest_by_code_path().items()
            changed += sorted({path for path, _ in differ})
        if changed:
            raise InputError(
                f"{names_text(map(str, changed), most=3)} changed while `pike {self.stage}` "
                "worked: run the same command again"
            )

    def _current_digest_by_code_path(self) -> dict[Path, str]:
        files = code_fingerprint.code_files_by_module_or_asset(*self._modules, assets=self._assets)
        return {path: code_fingerprint.code_digest(path) for path in files.values()}

    def _is_changed(self, path: Path) -> bool:
        """Whether a file is gone, or was written to or replaced by one that says something else."""
        if not path.is_file():
            return True
        if self._stamps[path] == atomic_files.file_stamp(path):
            return False
        if path in self.content:
            return (
                manifests.digest_of_used_manifest_parts_or_none(path, self.stage)
                != self.content[path]
            )
        return atomic_files.sha256(path) != (self.inputs | self.given)[path]


def _relative_paths(digests: Mapping[Path, str], folder: Path) -> dict[str, str]:
    return {os.path.relpath(path, folder): digest for path, digest in digests.items()}


def keep_manifest_copy(manifest: Path) -> None:
    """Keeps a copy of a manifest whose work is started again, in case that it stands."""
    forget_copy_and_restart_mark(manifest)
    place = _manifest_copy_path(manifest)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(manifest, place)


def forget_copy_and_restart_mark(manifest: Path) -> None:
    """Drops such a copy and a restart mark: work made again goes on from what is there."""
    _manifest_copy_path(manifest).unlink(missing_ok=True)
    _restart_mark_path(manifest).unlink(missing_ok=True)


def mark_for_restart(manifest: Path) -> None:
    """Leaves word that work is made from the start, until it has begun.

    Then `forget_copy_and_restart_mark` takes it away.
    """
    forget_copy_and_restart_mark(manifest)
    _restart_mark_path(manifest).parent.mkdir(parents=True, exist_ok=True)
    _restart_mark_path(manifest).touch()


def is_restart_forced(manifest: Path) -> bool:
    """Whether the work with this manifest is made from the start."""
    return _restart_mark_path(manifest).exists()


def _manifest_copy_path(manifest: Path) -> Path:
    # A pod finds the same folder by another way.
    place = manifest.parent.resolve() / manifest.name
    return Path(JOB_NOTES, f"{atomic_files.json_digest(str(place))}.json")


def _restart_mark_path(manifest: Path) -> Path:
    return _manifest_copy_path(manifest).with_suffix(".forced")


def code_and_versions(
    stage: str, modules: Sequence[str], assets: Sequence[str] = ()
) -> dict[str, Any]:
    """The code and packages that a stage computes with, as a manifest has them.

    The modules have been imported; `assets` are folders of the package whose files count, too.
    """
    fingerprint = code_fingerprint.fingerprint(*modules, assets=tuple(assets))
    return {
        "code": {"fingerprint": fingerprint, "loaded": _loaded_user_files(modules)},
        "versions": code_fingerprint.package_versions(stage, modules),
    }


def _loaded_user_files(modules: Sequence[str]) -> dict[str, str]:
    # No other stage runs code of the user's own.
    own = not all(map(code_fingerprint.is_repository_module, modules))
    return code_fingerprint.digests_of_loaded_files(*modules) if own else {}


def manifest_beside(out: Path) -> Path:
    """The manifest of a stage that makes files, not a folder: of a table, of a database."""
    return out.with_suffix(f".{atomic_files.MANIFEST}")


def differences_from_today_if_finished(
    path: Path,
    stage: str,
    cache: checksums.DigestCache,
    *,
    settings: Any = None,
    code: str | None = None,
    versions: Mapping[str, str] | None = None,
    inputs: Sequence[str] = (),
    given: Sequence[str] | None = None,
    copy: Path | None = None,
) -> list[RecordDifference]:
    """How the work with the manifest `path`, if it is finished, differs from what is made today.

    What is gone has not changed: results stand without the texts, corpora and checkpoints that
    they were made from. A file of the work itself that is gone or was changed is damage. Settings,
    the code's fingerprint, versions of packages and the user's files are compared where they are
    given; `inputs` are files that the work must have been made from, beside any others. Where the
    manifest is not in its place, a `copy` of it is read.
    """
    if not (copy or path).is_file():
        return []
    try:
        result = manifests.read_manifest(copy or path, stage)
    except InputError as damage:
        return [RecordDifference("manifest", str(damage), "a whole one")]
    before, now = _compared_parts(result), _compared_parts(result)
    places = {name: os.path.normpath(path.parent / name) for name in result["inputs"]}
    for name, place in places.items():
        if name in result.get("content", {}):
            digest = cache.digest_of_used_manifest_parts_or_none(place, stage)
        else:
            digest = cache.sha256_if_present(place)
        now["inputs"][name] = digest or before["inputs"][name]
    for lacking in set(map(os.path.normpath, inputs)).difference(places.values()):
        now["inputs"][os.path.relpath(lacking, path.parent)] = "an input"
    digests = {name: cache.sha256_if_present(name) for name in given or ()}
    # Of files of which one is gone nothing is told.
    given_today = None if given is None or None in digests.values() else digests
    today = {"settings": settings, "given": given_today, "code": code, "versions": versions}
    now |= {name: one for name, one in today.items() if one is not None}
    now["loaded"] = _current_code_digests(before["loaded"])
    damages = [
        RecordDifference(f"files.{os.path.relpath(file.path, path.parent)}", "whole", problem)
        for file in checksums.files_as_listed(path.parent, result, "it is made again")
        if (problem := _damage_message(file, path.parent, stage, cache))
    ]
    return [*record_differences(before, now), *damages]


def _damage_message(
    file: checksums.ListedFile, folder: Path, stage: str, cache: checksums.DigestCache
) -> str | None:
    """What is wrong with a file of finished work; of a large one, what its size says."""
    is_spared = file.path.relative_to(folder).as_posix().startswith(SPARED)
    if is_spared and not file.path.exists():
        return None
    if is_spared or stage in CHECKED_BY_SIZE:
        return checksums.size_problem(file)
    return checksums.content_problem(file, cache.sha256)


def _compared_parts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says that its work was made from, as it is compared."""
    code = manifest["code"]
    return {
        **{name: manifest[name] for name in ("settings", "given", "versions")},
        "inputs": {**manifest["inputs"], **manifest.get("content", {})},
        "code": code["fingerprint"],
        "loaded": code["loaded"],
    }


def _current_code_digests(recorded: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: code_fingerprint.current_code_digest(name) for name in recorded}


def identity_differences(before: Any, now: Mapping[str, Any]) -> list[RecordDifference]:
    """How what a run is made from differs from the identity of its checkpoint, `before`.

    What code the checkpoint has run late, in a hook, a run that begins has not: these files are
    compared as they are.
    """
    code = before.get("code") if isinstance(before, Mapping) else None
    if isinstance(code, Mapping) and isinstance(recorded := code.get("loaded"), Mapping):
        loaded = {**_current_code_digests(recorded), **now["code"]["loaded"]}
        now = {**now, "code": {**now["code"], "loaded": loaded}}
    return record_differences(before, now)


def record_differences(before: Any, now: Any, prefix: str = "") -> list[RecordDifference]:
    """What differs between two JSON-able records, each with its dotted name below `prefix`.

    Of `versions` the builds of one release are alike.
    """
    unset = before is UNSET or now is UNSET
    if not unset and atomic_files.canonical_json(before) == atomic_files.canonical_json(now):
        return []
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        if prefix == "versions":
            before, now = map(environment.without_build_tags, (before, now))
        within = f"{prefix}." if prefix else ""
        names = dict.fromkeys([*before, *now])
        pairs = {n: (before.get(n, UNSET), now.get(n, UNSET)) for n in names}
        return [
            line for n, pair in pairs.items() for line in record_differences(*pair, f"{within}{n}")
        ]
    texts = (
        one if isinstance(one, str) else atomic_files.canonical_json(one) for one in (before, now)
    )
    return [RecordDifference(prefix, *texts)]
