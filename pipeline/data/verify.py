"""`pike verify`: whether documents and corpora are still what their manifests say."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline.data import corpus_manifest
from pipeline.data import documents as store
from pipeline.data.shards import Corpus
from pipeline.runtime import atomic_files, checksums, manifests, presentation
from pipeline.runtime.progress import Progress

_STAGES = {store.STAGE: "documents", "pack": "corpus"}
_MANY = 20
"""Problems that are listed; more are counted."""


def verify(given: Sequence[str | Path], *, workers: int | None = None, format: str = "text") -> str:
    """Hashes every file of documents and corpora and compares it with the manifest.

    Of a corpus that is whole it also checks that the manifest does not contradict itself.

    Args:
        given: Folders of documents or corpora, or folders that hold such at any depth.
        workers: Files hashed at once; absent: as many as there are processors.
        format: text, or json: a list with an object per folder.

    Returns:
        What each folder holds, when all are whole.

    Raises:
        InputError: nothing to verify, or files that are missing, truncated or changed: all of
            them, each with what to do.
    """
    known = {f: manifest for name in given for f, manifest in _manifests(Path(name)).items()}
    listed = {
        folder: checksums.sealed(folder, manifest, f"{manifest['stage']} it anew")
        for folder, manifest in known.items()
    }
    every = [file for sealed in listed.values() for file in sealed]
    broken: dict[Path, str] = {}
    began = time.monotonic()
    size = sum(file.bytes for file in every)
    with Progress("verify", total=round(size / 1e6), unit="MB") as progress:
        for file, problem in checksums.problems(checksums.altered, every, workers):
            if problem:
                broken[file.path] = problem
            progress.add(file.bytes / 1e6)
    found = list(broken.values())
    for folder, manifest in known.items():
        if manifest["stage"] == "pack" and not any(f.path in broken for f in listed[folder]):
            found += _inconsistent(folder, manifest)
    if found:
        raise InputError(_told(found, len(every)))
    seconds = max(time.monotonic() - began, 1e-9)
    facts = [
        {
            "folder": str(folder),
            "kind": _STAGES[manifest["stage"]],
            "files": len(listed[folder]),
            "bytes": sum(file.bytes for file in listed[folder]),
        }
        for folder, manifest in known.items()
    ]
    end = f"{size / 1e6:,.0f} MB in {seconds:.1f} s: all is whole"
    return presentation.shown(format, facts, lambda: "\n".join([*map(_line, facts), end]))


def _manifests(place: Path) -> dict[Path, dict[str, Any]]:
    """The manifests of the folder itself, or of all of documents and corpora below it."""
    found = {}
    for folder in corpus_manifest.folders(place, _STAGES):
        path = folder / atomic_files.MANIFEST
        stage = manifests.stage_of(path)
        if stage not in _STAGES:
            raise InputError(f"{path} is neither of documents nor of a corpus: name another folder")
        read = store.manifest if stage == store.STAGE else corpus_manifest.manifest_of
        found[folder] = read(folder)
    if not found:
        raise InputError(
            f"{place} holds no documents or corpus (no {atomic_files.MANIFEST} of a download or "
            "a packing): name a folder such as results/corpora"
        )
    return found


def _inconsistent(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """What of a corpus does not fit together though every file is as the manifest says."""
    try:
        corpus_manifest.refuse_other_tokenizer(folder, manifest)
        for split in corpus_manifest.SPLITS:
            Corpus.open(folder, split)
    except InputError as error:
        return [str(error)]
    return []


def _told(found: list[str], total: int) -> str:
    more = [f"... and {len(found) - _MANY:,} more"] if len(found) > _MANY else []
    return "\n".join([f"{len(found):,} problems in {total:,} files:", *found[:_MANY], *more])


def _line(fact: dict[str, Any]) -> str:
    size = f"{fact['files']:,} files, {fact['bytes'] / 1e6:,.1f} MB"
    return f"{fact['folder']}: {fact['kind']}, {size}, whole"
