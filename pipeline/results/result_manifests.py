"""Databases, tables, figures and reports with the manifests that vouch for them."""

from collections.abc import Iterable
from pathlib import Path

from pike_mixing.errors import InputError
from pipeline.planning import output_root, stages
from pipeline.runtime import checksums, code_fingerprint, made_from, manifests

READ = {"table": (".csv",), "figure": (".svg", ".json")}
"""By stage: what is read of the files that it makes, by suffix; of a database, that itself."""


def snapshot_inputs(stage: str, read: Iterable[Path]) -> made_from.InputSnapshot:
    """What a stage of results is made from, taken before it reads these manifests or files."""
    modules = [stages.STAGES[stage].partition(":")[0]]
    return made_from.InputSnapshot(stage, modules, inputs=read, assets=stages.ASSETS[stage])


def unaltered_manifest_or_itself(out: Path, stage: str) -> Path:
    """What stands for a file among inputs: its manifest or, where it has none, itself."""
    refuse_known_alteration(out, stage)
    beside = made_from.manifest_beside(out)
    return beside if beside.is_file() else out


def refuse_missing(*paths: Path) -> None:
    """Stops where results lack files that a finished experiment has."""
    if missing := [str(path) for path in paths if not path.exists()]:
        raise InputError(f"{', '.join(missing)}: not there: finish the experiment with `make run`")


def refuse_known_alteration(out: Path, stage: str) -> None:
    """Raises InputError where it is known that the output is not as its stage has left it."""
    if wrong := known_alteration(out, stage):
        raise InputError(wrong)


def known_alteration(out: Path, stage: str) -> str | None:
    """How a file differs from what its manifest describes, and what to run; None without one.

    It is hashed once for as long as nobody writes to it.
    """
    place = made_from.manifest_beside(out)
    if not place.is_file():
        return None
    remake = f"make it with `{output_root.command_to_make(out, force=True)}`"
    known = checksums.DigestCache(checksums.MEMORY)
    listed = checksums.files_as_listed(
        place.parent, manifests.read_manifest(place, stage, remake), remake
    )
    read = READ.get(stage, (out.suffix,))
    for one in map(out.with_suffix, read):
        if one not in {file.path for file in listed}:
            return f"{place} does not list {one.name}: {remake}"
    wrong = (checksums.content_problem(file, known.sha256) for file in listed)
    result = next(filter(None, wrong), None)
    known.save()
    return result


def outdated_code_parts(database: Path) -> list[str]:
    """What of the code is no longer what made a database; nothing where it has no manifest.

    The stage's modules count as one part, and each of its `stages.ASSETS`.
    """
    place = made_from.manifest_beside(database)
    if not place.is_file():
        return []
    module, assets = stages.STAGES["database"].partition(":")[0], stages.ASSETS["database"]
    parts = [f"the code of {module}", *(f"pipeline/{asset}" for asset in assets)]
    now = code_fingerprint.fingerprint(module, assets=tuple(assets)).split("-")
    before = manifests.read_manifest(place, "database")["code"]["fingerprint"].split("-")
    if len(before) != len(now):
        return parts
    return [part for part, a, b in zip(parts, before, now, strict=True) if a != b]


def refuse_altered_or_unvouched(out: Path, stage: str) -> None:
    """Stops at a table or figure without a manifest, or of other files than were made."""
    place = made_from.manifest_beside(out)
    if not place.is_file():
        remake = f"make it with `{output_root.command_to_make(out, force=True)}`"
        raise InputError(f"{place} does not exist, which vouches for {out.name}: {remake}")
    refuse_known_alteration(out, stage)
