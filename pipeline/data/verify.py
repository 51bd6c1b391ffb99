"""`pike verify`: whether documents and corpora are still what their manifests say."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pike_mixing.errors import InputError
from pipeline.data import corpus_manifest
from pipeline.data import documents as store
from pipeline.data.shards import Corpus
from pipeline.runtime import atomic_files, checksums, manifests
from pipeline.runtime.progress import Progress

_STAGES = {store.STAGE: "documents", "pack": "corpus"}
_MANY = 20
"""Problems that are listed; more are counted."""


def verify(given: Sequence[str | Path], *, workers: int | None = None) -> str:
    """Hashes every file of documents and corpora and compares it with the manifest.

    Of a corpus that is whole it also checks that its documents' lengths, ends and token ids agree
    with its stream.

    Args:
        given: Folders of documents or corpora, or folders that hold such at any depth.
        workers: Files hashed at once; absent: as many as there are processors.

    Returns:
        One line per folder, when all are whole.

    Raises:
        InputError: nothing to verify, or files that are missing, truncated or changed: all of
            them, each with what to do.
    """
    known = {f: manifest for name in given for f, manifest in _manifests(Path(name)).items()}
    listed = {folder: _sealed(folder, manifest) for folder, manifest in known.items()}
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
    lines = [_line(folder, manifest, listed[folder]) for folder, manifest in known.items()]
    return "\n".join([*lines, f"{size / 1e6:,.0f} MB in {seconds:.1f} s: all is whole"])


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


def _sealed(folder: Path, manifest: dict[str, Any]) -> list[checksums.Sealed]:
    verb = "download" if manifest["stage"] == store.STAGE else "pack"
    return checksums.sealed(folder, manifest, f"{verb} it anew")


def _inconsistent(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """What of a corpus does not fit together though every file is as the manifest says."""
    found = []
    try:
        corpus_manifest.refuse_other_tokenizer(folder, manifest)
        for split in corpus_manifest.SPLITS:
            corpus = Corpus.open(folder, split)
            ends = np.cumsum(corpus.documents()["tokens"], dtype=np.int64)
            if not len(ends) or ends[-1] != corpus.tokens:
                found.append(f"{folder}: the {split} documents do not add up to its tokens")
            elif any(corpus.span(end - 1, end)[0] != corpus.eos for end in ends[:: _step(ends)]):
                found.append(f"{folder}: a {split} document does not end with the end's token")
            elif corpus.largest() >= corpus.vocabulary:
                found.append(f"{folder}: a {split} token lies outside the vocabulary")
    except InputError as error:
        found.append(str(error))
    return [text if "anew" in text else f"{text}: pack it anew" for text in found]


def _step(ends: np.ndarray[Any, Any]) -> int:
    """Every document of a small corpus, some 10,000 of a large one."""
    return max(1, len(ends) // 10_000)


def _told(found: list[str], total: int) -> str:
    more = [f"... and {len(found) - _MANY:,} more"] if len(found) > _MANY else []
    return "\n".join([f"{len(found):,} problems in {total:,} files:", *found[:_MANY], *more])


def _line(folder: Path, manifest: dict[str, Any], listed: list[checksums.Sealed]) -> str:
    size = sum(file.bytes for file in listed)
    kind = _STAGES[manifest["stage"]]
    return f"{folder}: {kind}, {len(listed):,} files, {size / 1e6:,.1f} MB, whole"
