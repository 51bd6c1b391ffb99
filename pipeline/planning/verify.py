"""`pike verify`: what of the files was changed, what is missing, what no manifest lists."""

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError
from pipeline.data import corpus_manifest
from pipeline.data.shards import Corpus
from pipeline.planning import outdated, output_root
from pipeline.runtime import atomic_files, checksums, made_from, manifests, ownership, presentation
from pipeline.runtime.progress import Progress

KINDS = {"download": "documents", "pack": "corpus", "fetch": "task", "pretrain": "run"}
KINDS |= {"evaluate": "evaluation"}
"""What stages make, where that is not called like them."""
SETTINGS = {"pretrain": "run.json", "evaluate": "../evaluation.json", "probe": "../probe.json"}
"""Where the settings of a stage's work lie, from its manifest."""
PLUMBING = re.compile(
    rf"(.*/)?((logs|settings)/.*|experiment\.json|README\.md|{re.escape(ownership.MARK)}"
    r"|(run|evaluation|probe|starts|lease|\.[^/]+\.sha256)\.json|(live|parts)/.*)"
)
"""Files of an output root that no manifest lists: settings, logs, what a training goes on from."""
_LINES = 20
"""Folders that are told one by one; of more, the kinds are counted."""
_MANY = 100
"""Problems that are listed; more are counted."""


class _Kept(NamedTuple):
    """A manifest and the files that it vouches for."""

    path: Path
    kind: str
    content: dict[str, Any]
    files: list[checksums.Sealed]


def verify(given: Sequence[str | Path], *, workers: int | None = None, format: str = "text") -> str:
    """Hashes every file that a manifest lists, and looks for what is missing and foreign.

    Args:
        given: Folders: results, or any part of them.
        workers: Files hashed at once; absent: as many as there are processors.
        format: text, or json: a list with an object per manifest.

    Returns:
        What there is, when all is whole.

    Raises:
        InputError: nothing to verify; or everything that is changed, missing or foreign, each with
            the command that makes it again.
    """
    result, broken = dict[str, None](), set[Path]()
    kept = [one for name in given for one in _manifests(Path(name), result, broken)]
    if not kept and not result:
        named = ", ".join(map(str, given))
        raise InputError(f"{named}: no manifest is there: name a folder such as results")
    every = [file for one in kept for file in one.files]
    size, began = sum(file.bytes for file in every), time.monotonic()
    with Progress("verify", total=round(size / 1e6), unit="MB") as progress:
        for file, problem in checksums.problems(checksums.altered, every, workers):
            if problem:
                result[problem] = None
                broken.add(file.path)
            progress.add(file.bytes / 1e6)
    known = checksums.Memory(checksums.MEMORY)
    for one in kept:
        result |= dict.fromkeys(_unlike(one, known, broken))
    for name in given:
        result |= dict.fromkeys(_missing(Path(name), broken))
        result |= dict.fromkeys(_foreign(Path(name), kept, broken))
    if result:
        raise InputError(_told([*result], len(every)))
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
    return presentation.shown(format, facts, lambda: "\n".join([*_lines(facts), end]))


def _manifests(place: Path, seen: dict[str, None], broken: set[Path]) -> Iterator[_Kept]:
    """The manifests of a folder; what is no whole one is added to the problems and the broken."""
    for path in _files(place):
        if PLUMBING.fullmatch(path.relative_to(place).as_posix()) or not _is_manifest(path, place):
            continue
        try:
            yield _kept(path)
        except InputError as problem:
            seen[str(problem)] = None
            broken.add(path)


def _files(folder: Path, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Path]:
    """Files in the order of their names, behind links too, but no folder within itself."""
    facts = folder.stat() if folder.is_dir() else None
    if facts is None or (facts.st_dev, facts.st_ino) in above:
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path, above | {(facts.st_dev, facts.st_ino)})
        else:
            yield path


def _is_manifest(path: Path, place: Path) -> bool:
    """Whether a file is a manifest by its name, or by the folder of its output root."""
    if path.name == atomic_files.MANIFEST or path.name.endswith(f".{atomic_files.MANIFEST}"):
        return True
    root = output_root.above(path.absolute().parent)
    within = path.absolute().relative_to(root.folder if root else place.absolute().parent)
    # Without a root, as of a folder that was copied alone, any of its folders may be meant.
    folders = within.parts[: 1 if root else -1]
    return path.suffix == ".json" and bool({"tokenizers", "mixtures"} & {*folders})


def _kept(path: Path) -> _Kept:
    if path.parent.parent.name == "checkpoints":
        content = manifests.of_checkpoint(path.parent)
        again = _again(path.parent.parent.parent / atomic_files.MANIFEST, "pretrain")
        sums = {path.parent / name: sha256 for name, sha256 in content["sha256"].items()}
        files = [
            checksums.Sealed(file, file.stat().st_size if file.is_file() else 0, sha256, again)
            for file, sha256 in sums.items()
        ]
        return _Kept(path, "checkpoint", content, files)
    stage = manifests.stage_of(path)
    if stage not in manifests.STAGES:
        content = atomic_files.read_json(path)
        if manifests.is_of_archive(content):
            content = manifests.of_archive(path.parent)
            files = checksums.sealed(path.parent, content, "take the archive anew")
            return _Kept(path, "archive", content, files)
        raise InputError(f"{path} is no manifest of a stage: delete it, or put it elsewhere")
    again = _again(path, stage)
    content = manifests.read(path, stage, again)
    files = checksums.sealed(path.parent, content, again)
    return _Kept(path, KINDS.get(stage, stage), content, files)


def _again(path: Path, stage: str) -> str:
    """What makes a piece of work anew: a command, where it is of an experiment."""
    if output_root.above(path.absolute().parent) is None:
        return f"{stage} it anew"
    return f"make it again with `{output_root.command(path, force=path.is_file())}`"


def _unlike(one: _Kept, known: checksums.Memory, broken: set[Path]) -> Iterator[str]:
    """What of a piece of work is not what it was made from, or contradicts itself."""
    if one.kind in ("checkpoint", "archive"):
        return
    stage, folder = one.content["stage"], one.path.parent
    again = _again(one.path, stage)
    for other in made_from.of_finished(one.path, stage, known):
        what, _, name = other.what.partition(".")
        place = Path(os.path.normpath(folder / name if what == "inputs" else name))
        # What is broken is told itself.
        if what != "files" and place not in broken:
            yield f"{one.path} was made from another {place}: {again}"
    for name in one.content["inputs"]:
        place = Path(os.path.normpath(folder / name))
        if not place.is_file():
            broken.add(place)
            yield f"{place} is missing: {_again(place, 'make')}"
    settings = folder / SETTINGS[stage] if stage in SETTINGS else None
    if settings and settings.is_file() and not output_root.holds(settings, one.content["settings"]):
        yield (
            f"{os.path.normpath(settings)} has other settings than {one.path} was made under: "
            "delete it, and the workflow writes it anew"
        )
    if stage == "pack" and not any(file.path in broken for file in one.files):
        try:
            corpus_manifest.refuse_other_tokenizer(folder, one.content)
            for split in corpus_manifest.SPLITS:
                Corpus.open(folder, split)
        except InputError as error:
            yield str(error)


def _missing(place: Path, broken: set[Path]) -> Iterator[str]:
    """Work of the plan that is not there, where the configuration is at hand."""
    compared = outdated.of_results(place, *place.absolute().parents)
    for path in map(Path, compared.manifests() if compared else ()):
        if path.absolute().is_relative_to(place.absolute()) and not path.is_file():
            broken.add(path)
            yield f"{path} is missing: {_again(path, 'make')}"


def _foreign(place: Path, kept: Sequence[_Kept], broken: set[Path]) -> Iterator[str]:
    """Files that no manifest lists; beside one that is broken or missing nobody can tell."""
    untold = {path.parent for path in broken if atomic_files.MANIFEST in path.name}
    known = {os.path.normpath(one.path) for one in kept}
    known |= {os.path.normpath(file.path) for one in kept for file in one.files}
    for path in _files(place):
        inside = PLUMBING.fullmatch(path.relative_to(place).as_posix())
        if untold & {*path.parents} or path in broken:
            continue
        if path.is_file() and not inside and os.path.normpath(path) not in known:
            yield f"{path} is foreign: no manifest lists it: delete it, or put it elsewhere"


def _told(problems: list[str], total: int) -> str:
    more = [f"... and {len(problems) - _MANY:,} more"] if len(problems) > _MANY else []
    return "\n".join([f"{len(problems):,} problems in {total:,} files:", *problems[:_MANY], *more])


def _lines(facts: list[dict[str, Any]]) -> list[str]:
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
