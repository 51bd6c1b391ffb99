"""`pike verify`: what of the files was changed, what is missing, what no manifest lists."""

import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError
from pipeline.data import shards
from pipeline.data.shards import Corpus
from pipeline.planning import outdated, output_root, records
from pipeline.runtime import (
    atomic_files,
    checksums,
    made_from,
    manifests,
    output_formats,
    ownership,
)
from pipeline.runtime.progress import Progress

KINDS = {"download": "documents", "pack": "corpus", "fetch": "task", "pretrain": "run"}
KINDS |= {"evaluate": "evaluation"}
"""What stages make, where that is not called like them."""
SETTINGS = {"pretrain": "run.json", "evaluate": "../evaluation.json", "probe": "../probe.json"}
"""Where the settings of a stage's work lie, from its manifest; of others: below `settings`."""
ORDER = (
    *("download", "tokenizer", "pack", "fetch", "theory", "pretrain", "evaluate", "probe"),
    *("mixture", "database", "table", "figure", "article", "report"),
)
"""Stages in an order in which what is damaged can be made again."""
NAMED = {
    "pack": (("source",), r".*/corpora/[^/]+/([^/]+)"),
    "fetch": (("task",), r".*/tasks/([^/]+)"),
    "pretrain": (("run",), r".*/runs/([^/]+/[^/]+/[^/]+/[^/]+)"),
    "table": (("settings", "name"), r".*/tables/([^/]+)"),
    "figure": (("settings", "name"), r".*/figures/([^/]+)"),
}
"""By stage: where its manifest says what it is of, and the place that says so, too."""
SUFFIXES = {
    "tokenizer": ("model", "json"),
    "mixture": ("json",),
    "database": ("duckdb", "manifest.json"),
    "table": ("md", "csv", "tex", "manifest.json"),
    "figure": ("svg", "png", "json", "manifest.json"),
}
"""Of the files that a stage makes, which may lie there without their manifest."""
PLUMBING = re.compile(
    rf"(.*/)?((logs|settings)/.*|experiment\.json|README\.md|{re.escape(ownership.MARK)}"
    r"|(run|evaluation|probe|starts|lease|\.[^/]+\.sha256)\.json|log\.jsonl|article/index\.pdf)"
)
"""Files of an output root that no manifest lists: settings, logs, what a training goes on from."""
_LINES = 20
"""Folders that are told one by one; of more, the kinds are counted."""
_MANY = 100
"""Problems that are listed; more are counted."""


class _Problems(dict[str, int]):
    """What is wrong, each told once, with its place among what is made again."""

    def add(self, problem: str, stage: str | None = None) -> None:
        """A problem of a stage's work; of none: what only has to be taken away comes first."""
        self.setdefault(problem, ORDER.index(stage) if stage in ORDER else -1)

    def in_order(self) -> list[str]:
        return sorted(self, key=self.__getitem__)


class _ReadManifest(NamedTuple):
    """A manifest and the files that it vouches for."""

    path: Path
    kind: str
    content: dict[str, Any]
    files: list[checksums.ListedFile]


def verify_results(
    folders: Sequence[str | Path], *, workers: int | None = None, format: str = "text"
) -> str:
    """Hashes every file that a manifest lists, and looks for what is missing and foreign.

    Args:
        folders: Folders: results, or any part of them.
        workers: Files hashed at once; absent: as many as there are processors.
        format: text, or json: a list with an object per manifest.

    Returns:
        What there is, when all is whole.

    Raises:
        InputError: nothing to verify; or everything that is changed, missing or foreign, each with
            the command that makes it again.
    """
    result, broken = _Problems(), set[Path]()
    kept = [one for name in folders for one in _read_manifests(Path(name), result, broken)]
    if not kept and not result:
        named = ", ".join(map(str, folders))
        raise InputError(f"{named}: no manifest is there: name a folder such as results")
    every = [file for one in kept for file in one.files]
    size, began = sum(file.bytes for file in every), time.monotonic()
    with Progress("verify", total=round(size / 1e6), unit="MB") as progress:
        stages = {id(file): one.content.get("stage") for one in kept for file in one.files}
        for file, problem in checksums.problem_of_each_file(
            checksums.content_problem, every, workers
        ):
            if problem:
                result.add(problem, stages[id(file)])
                broken.add(file.path)
            progress.add(file.bytes / 1e6)
    known = checksums.DigestCache(checksums.MEMORY)
    for one in kept:
        for problem in _mismatch_problems(one, known, broken):
            result.add(problem, one.content.get("stage"))
    for name in folders:
        for problem, stage in _missing_work_problems(Path(name), broken):
            result.add(problem, stage)
        for problem in _unlisted_file_problems(Path(name), kept, broken):
            result.add(problem)
    if result:
        raise InputError(_problems_text(result.in_order(), len(every), folders))
    facts = [
        {
            "folder": str(one.path.parent),
            "kind": one.kind,
            "files": len(one.files),
            "bytes": sum(file.bytes for file in one.files),
        }
        for one in kept
    ]
    seconds = max(time.monotonic() - began, 1e-9)
    end = f"{size / 1e6:,.0f} MB in {seconds:.1f} s: all is whole"
    return output_formats.render(format, facts, lambda: "\n".join([*_summary_lines(facts), end]))


def _read_manifests(folder: Path, seen: _Problems, broken: set[Path]) -> Iterator[_ReadManifest]:
    """The manifests of a folder; what is no whole one is added to the problems and the broken."""
    for path in _walk_files(folder):
        if PLUMBING.fullmatch(path.relative_to(folder).as_posix()) or not _is_manifest(
            path, folder
        ):
            continue
        try:
            result = _read_manifest(path)
            yield result
        except InputError as problem:
            seen.add(str(problem), _stage_of_path(path))
            broken.add(path)
        else:
            for other in _checkpoints_without_manifest(result):
                seen.add(
                    f"{other} is missing: {_remake_instruction(path, 'pretrain', other)}",
                    "pretrain",
                )
                broken.add(other)


def _checkpoints_without_manifest(run: _ReadManifest) -> Iterator[Path]:
    """Where a checkpoint that a run has kept lacks its manifest."""
    steps = run.content["checkpoints"] if run.kind == "run" else ()
    for step in steps:
        place = run.path.parent / "checkpoints" / f"step{step}" / atomic_files.MANIFEST
        if place.parent.is_dir() and not os.path.lexists(place):
            yield place


def _stage_of_path(path: Path) -> str:
    """The stage whose manifest lies at a place, by the names of folders above it."""
    places = {"evaluations": "evaluate", "probes": "probe", "runs": "pretrain", "data": "download"}
    places |= {"corpora": "pack", "tasks": "fetch", "databases": "database"}
    places |= {f"{stage}s": stage for stage in ("tokenizer", "mixture", "table", "figure")}
    places |= {stage: stage for stage in ("theory", "report")}
    names = [path.parent.name, *(folder.name for folder in path.parents)]
    return next((places[n] for n in names if n in places), "database")


def _walk_files(
    folder: Path, ancestors: frozenset[tuple[int, int]] = frozenset()
) -> Iterator[Path]:
    """Files in the order of their names, behind links too, but no folder within itself."""
    facts = folder.stat() if folder.is_dir() else None
    if facts is None or (facts.st_dev, facts.st_ino) in ancestors:
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _walk_files(path, ancestors | {(facts.st_dev, facts.st_ino)})
        else:
            yield path


def _is_manifest(path: Path, folder: Path) -> bool:
    """Whether a file is a manifest by its name, or by the folder of its output root."""
    if path.name == atomic_files.MANIFEST or path.name.endswith(f".{atomic_files.MANIFEST}"):
        return True
    root = output_root.root_above(path.absolute().parent)
    within = path.absolute().relative_to(root.folder if root else folder.absolute().parent)
    # Without a root, as of a folder that was copied alone, any of its folders may be meant.
    folders = within.parts[: 1 if root else -1]
    return path.suffix == ".json" and bool({"tokenizers", "mixtures"} & {*folders})


def _read_manifest(path: Path) -> _ReadManifest:
    if path.parent.parent.name == "checkpoints":
        run = path.parent.parent.parent / atomic_files.MANIFEST
        _refuse_unreadable_json(path, _remake_instruction(run, "pretrain", path))
        try:
            content = manifests.read_checkpoint_manifest(path.parent)
        except InputError as error:
            raise InputError(f"{error}: {_remake_instruction(run, 'pretrain', path)}") from None
        files = [
            checksums.ListedFile(
                file,
                file.stat().st_size if file.is_file() else 0,
                sha256,
                _remake_instruction(run, "pretrain", file),
            )
            for file, sha256 in (
                (path.parent / name, sha256) for name, sha256 in content["sha256"].items()
            )
        ]
        return _ReadManifest(path, "checkpoint", {**content, "stage": "pretrain"}, files)
    _refuse_unreadable_json(path, _remake_instruction(path, _stage_of_path(path), path))
    stage = manifests.stage_of_manifest(path)
    if stage not in manifests.STAGES:
        content = atomic_files.read_json(path)
        if manifests.is_archive_manifest(content):
            content = manifests.read_archive_manifest(path.parent)
            files = checksums.listed_files(path.parent, content, "take the archive anew")
            return _ReadManifest(path, "archive", content, files)
        raise InputError(
            f"{path} is no manifest of a stage: delete it (`rm {shlex.quote(str(path))}`), or put "
            "it elsewhere"
        )
    again = _remake_instruction(path, stage, path)
    content = manifests.read_manifest(path, stage, again)
    files = [
        file._replace(remedy=_remake_instruction(path, stage, file.path))
        for file in checksums.listed_files(path.parent, content, again)
    ]
    return _ReadManifest(path, KINDS.get(stage, stage), content, files)


def _refuse_unreadable_json(path: Path, remedy: str) -> None:
    """Stops where something else is in the place of a manifest, or where it is no JSON."""
    if other := atomic_files.kind_of_non_file(path):
        raise InputError(f"{path} is {other}: {remedy}")
    try:
        atomic_files.read_json(path)
    except InputError:
        raise InputError(f"{path} is not valid JSON: {remedy}") from None


def _remake_instruction(path: Path, stage: str, *places: Path) -> str:
    """What makes a piece of work anew: a command, where it is of an experiment.

    Args:
        path: Its manifest.
        stage: Its stage.
        places: What of it is not as it was; a stage replaces files alone, the rest goes first.
    """
    if output_root.root_above(path.absolute().parent) is None:
        return f"{stage} it anew"
    command = output_root.command_to_make(path, force=path.is_file())
    away = [
        p for p in places if p.is_symlink() or (p.exists() and atomic_files.kind_of_non_file(p))
    ]
    unclaimed = _unclaimed_files(path, stage, alone=path not in places)
    away += [place for place in unclaimed if place not in away]
    first = f"rm -rf {shlex.join(map(str, away))} && " if away else ""
    return f"make it again with `{first}{command}`"


def _unclaimed_files(path: Path, stage: str, *, alone: bool) -> list[Path]:
    """Files that a stage would not replace, for lack of its mark, and a spoilt mark.

    Args:
        path: The manifest of the stage's work.
        stage: The stage.
        alone: Whether the manifest is whole: then it says itself what lies in its folder.
    """
    folder, whole = path.parent, stage not in ownership.MAKE_FILES
    stem = path.name.removesuffix(".json").removesuffix(".manifest")
    files = [path.with_name(f"{stem}.{suffix}") for suffix in SUFFIXES.get(stage, ())]
    if (whole and stage != "pretrain" and not alone) or stage == "report":
        files = [file for file in folder.rglob("*") if file.name != ownership.MARK]
    files = [file for file in files if file.is_file()]
    found = ownership.files_without_mark(files, stage, folder)
    left = [file for of_mark in found.values() for file in of_mark]
    if whole and files and left == files:
        return [folder]
    return [*left, *(mark for mark in found if ownership.is_blocked_mark(mark))]


def _mismatch_problems(
    manifest: _ReadManifest, known: checksums.DigestCache, broken: set[Path]
) -> Iterator[str]:
    """What of a piece of work is not what it was made from, or contradicts itself."""
    if manifest.kind in ("checkpoint", "archive"):
        return
    stage, folder = manifest.content["stage"], manifest.path.parent
    again = _remake_instruction(manifest.path, stage)
    yield from _misplaced_work_problems(manifest)
    yield from _unmarked_file_problems(manifest)
    for other in made_from.compare_finished(manifest.path, stage, known):
        what, _, name = other.what.partition(".")
        place = Path(os.path.normpath(folder / name if what == "inputs" else name))
        # What is broken is told itself.
        if what != "files" and place not in broken:
            yield f"{manifest.path} was made from another {place}: {again}"
    for name in manifest.content["inputs"]:
        place = Path(os.path.normpath(folder / name))
        if place not in broken and not place.is_file():
            broken.add(place)
            of_run = place.parent.parent.name == "checkpoints"
            own = place.parents[2] / atomic_files.MANIFEST if of_run else place
            yield f"{place} is missing: {_remake_instruction(own, _stage_of_path(own), place)}"
    settings = _settings_path(manifest)
    if settings and settings.is_file() and not _has_settings(manifest, settings):
        yield (
            f"{os.path.normpath(settings)} has other settings than {manifest.path} was made under: "
            f"delete it with `rm -r {shlex.quote(os.path.normpath(settings))}`, and the workflow "
            "writes it anew"
        )
    read = {Path(os.path.normpath(folder / name)) for name in manifest.content["inputs"]}
    if stage == "pack" and not broken & {*read, *(file.path for file in manifest.files)}:
        try:
            shards.refuse_replaced_tokenizer(folder, manifest.content)
            for split in shards.SPLITS:
                Corpus.open(folder, split)
        except InputError as error:
            yield str(error)


def _unmarked_file_problems(manifest: _ReadManifest) -> Iterator[str]:
    """Files of an experiment that their stage would refuse to replace, for lack of their mark."""
    stage, folder = manifest.content["stage"], manifest.path.parent
    if stage == "pretrain" or output_root.root_above(manifest.path.absolute().parent) is None:
        return
    files = [
        path for path in (*(file.path for file in manifest.files), manifest.path) if path.is_file()
    ]
    for mark, left in ownership.files_without_mark(files, stage, folder).items():
        away = files if stage in ownership.MAKE_FILES else [folder]
        # A mark of several pieces is taken away with each.
        away += [mark] if ownership.is_blocked_mark(mark) and folder not in away else []
        remedy = f"rm -rf {shlex.join(map(os.path.normpath, away))}"
        remedy += f" && {output_root.command_to_make(manifest.path)}"
        yield (
            f"{mark} does not say that `pike {stage}` made {left[0].name}, which it would not "
            f"replace: make it again with `{remedy}`"
        )


def _misplaced_work_problems(manifest: _ReadManifest) -> Iterator[str]:
    """Work that lies where that of another name belongs."""
    stage = manifest.content["stage"]
    keys, pattern = NAMED.get(stage, ((), ""))
    path = manifest.path.absolute()
    whole = path.name == atomic_files.MANIFEST
    place = path.parent if whole else path.with_name(path.name.partition(".")[0])
    found = re.fullmatch(pattern, place.as_posix()) if keys else None
    own: Any = manifest.content
    for key in keys:
        own = own.get(key) if isinstance(own, dict) else None
    if found and own != found[1]:
        # Of a run all that lies there is another's.
        folder = manifest.path.parent if whole else manifest.path
        yield (
            f"{manifest.path} is of {own!r}, not of {found[1]!r}: delete it with "
            f"`rm -r {shlex.quote(str(folder))}`, or put it elsewhere"
        )


def _settings_path(manifest: _ReadManifest) -> Path | None:
    """Where the settings of a piece of work lie that the workflow has written."""
    stage, path = manifest.content["stage"], manifest.path
    if stage in SETTINGS:
        return path.parent / SETTINGS[stage]
    root = output_root.root_above(path.absolute().parent)
    sections = {made.stage or rule: made.section for rule, made in records.MADE.items()}
    if root is None or stage not in sections:
        return None
    place = path.absolute().relative_to(root.folder)
    if place == Path(records.MADE["database"].manifest):
        return _relative_to_working_folder(root.folder) / "settings" / "experiment.json"
    name = "/".join(place.parts[1:]).removesuffix(f"/{atomic_files.MANIFEST}")
    name = name.removesuffix(".json").removesuffix(".manifest")
    return _relative_to_working_folder(root.folder) / "settings" / sections[stage] / f"{name}.json"


def _relative_to_working_folder(folder: Path) -> Path:
    """A folder as one names it in the working directory, where it lies in it."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _has_settings(manifest: _ReadManifest, settings: Path) -> bool:
    """Whether a file holds the settings that a piece of work was made under."""
    recorded, stage = manifest.content["settings"], manifest.content["stage"]
    try:
        values: Any = atomic_files.read_json(settings)
        if stage == "database":
            values = records.database_settings(values)
        if stage == "mixture":
            # Where the runs lie is no part of what is recorded.
            proxies = values["proxies"].items()
            values = {**values, "proxies": {n: {**v, "folder": ""} for n, v in proxies}}
            recorded = {
                **recorded,
                "proxies": {n: {**v, "folder": ""} for n, v in recorded["proxies"].items()},
            }
    except (InputError, KeyError, TypeError, AttributeError):
        return False
    return bool(values == recorded)


def _missing_work_problems(folder: Path, broken: set[Path]) -> Iterator[tuple[str, str]]:
    """Work of the plan that is not there, where the configuration is at hand, and its stage."""
    stamp = folder / "experiment.json"
    if os.path.lexists(stamp) and output_root.find_root(folder) is None and _is_output_root(folder):
        yield (
            f"{stamp} does not say what the folder was started with: delete it with "
            f"`rm -r {shlex.quote(str(stamp))}`, and the workflow writes it anew",
            "",
        )
    compared = outdated.compare_results(folder, *folder.absolute().parents)
    for path in map(Path, compared.settings_paths() if compared else ()):
        other = atomic_files.kind_of_non_file(path)
        if other and path.absolute().is_relative_to(folder.absolute()):
            yield (
                f"{path} is {other}: delete it with `rm -r {shlex.quote(str(path))}`, and the "
                "workflow writes it anew",
                "",
            )
    for path in map(Path, compared.manifest_paths() if compared else ()):
        if path.absolute().is_relative_to(folder.absolute()) and not path.is_file():
            if path in broken:
                continue
            broken.add(path)
            stage = _stage_of_path(path)
            yield f"{path} is missing: {_remake_instruction(path, stage, path)}", stage


def _is_output_root(folder: Path) -> bool:
    """Whether a folder holds what an output root does, beside its stamp."""
    return any((folder / name).is_dir() for name in ("runs", "data", "settings"))


def _unlisted_file_problems(
    folder: Path, kept: Sequence[_ReadManifest], broken: set[Path]
) -> Iterator[str]:
    """Files that no manifest lists; beside one that is broken or missing nobody can tell."""
    untold = {path.parent for path in broken if atomic_files.MANIFEST in path.name}
    known = {os.path.normpath(one.path) for one in kept}
    known |= {os.path.normpath(file.path) for one in kept for file in one.files}
    for path in _walk_files(folder):
        inside = PLUMBING.fullmatch(path.relative_to(folder).as_posix())
        if untold & {*path.parents} or broken & {path, *path.parents}:
            continue
        if not inside and os.path.normpath(path) not in known:
            yield (
                f"{path} is foreign: no manifest lists it: delete it "
                f"(`rm {shlex.quote(str(path))}`), or put it elsewhere"
            )


def _problems_text(problems: list[str], total: int, folders: Sequence[str | Path]) -> str:
    more = [f"... and {len(problems) - _MANY:,} more"] if len(problems) > _MANY else []
    roots = {
        above.folder for name in folders if (above := output_root.root_above(Path(name).absolute()))
    }
    after = [
        f"then make what stands on it with `{output_root.command_to_make_all(folder)}`"
        for folder in sorted(roots)
    ]
    count = f"{len(problems):,} problems in {total:,} files:"
    return "\n".join([count, *problems[:_MANY], *more, *after])


def _summary_lines(facts: list[dict[str, Any]]) -> list[str]:
    def size(of: list[dict[str, Any]]) -> str:
        files, held = (sum(fact[key] for fact in of) for key in ("files", "bytes"))
        return f"{files:,} files, {held / 1e6:,.1f} MB, whole"

    if len(facts) <= _LINES:
        return [f"{fact['folder']}: {fact['kind']}, {size([fact])}" for fact in facts]
    kinds = Counter(fact["kind"] for fact in facts)
    return [
        f"{number:,} of kind {kind}: {size([fact for fact in facts if fact['kind'] == kind])}"
        for kind, number in kinds.items()
    ]
