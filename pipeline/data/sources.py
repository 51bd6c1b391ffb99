"""The first stage: text from wherever it is to documents on disk, with its origin on record."""

import itertools
import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow

from pike_mixing import settings
from pike_mixing.errors import InputError
from pike_mixing.settings import mapping, unknown
from pipeline.data import SOURCES, parallel_download
from pipeline.data import documents as store
from pipeline.runtime import atomic_files, code_fingerprint, optional_imports
from pipeline.runtime.progress import Progress

WORKERS = 4
"""Files of a source that are fetched at once."""


def kind(name: object, where: str) -> type[store.Source]:
    """The settings of a kind of source.

    Raises:
        InputError: no such kind, or a package that it needs is not installed.
    """
    if not isinstance(name, str) or name not in SOURCES:
        raise InputError(unknown(str(name), SOURCES, f"{where}.kind"))
    found: type[store.Source] = optional_imports.import_optional(SOURCES[name], where, name)
    return found


def parse(values: dict[str, Any], where: str) -> store.Source:
    """Settings of one source from plain values, `kind` among them.

    Raises:
        InputError: what is wrong with them, all at once.
    """
    if "kind" not in mapping(values, where):
        raise InputError(f"{where}: kind is missing: one of {', '.join(sorted(SOURCES))}")
    fields = {name: value for name, value in values.items() if name != "kind"}
    return settings.parse(kind(values["kind"], where), fields, where)


def download(settings_file: Path, out: Path, *, workers: int | None = None) -> None:
    """Fetches a source's documents and writes them with a manifest.

    A source of many files far away goes on where it was stopped.

    Args:
        settings_file: JSON of the source: its `kind` and that kind's settings.
        out: Folder to be made; its name is the source's name.
        workers: Files fetched at once, of a source that has several far away; absent: 4.

    Raises:
        InputError: wrong settings, a source that cannot be read, no documents, or a full disk.
    """
    values = atomic_files.read_mapping(settings_file)
    where = f"sources.{out.name}"
    source = parse(values, where)
    modules = [__name__, SOURCES[values["kind"]].partition(":")[0]]
    own = source.paths() if isinstance(source, store.OfFiles) else []
    inputs = [settings_file, *(path for path, _ in own)]
    if isinstance(source, store.Partitioned):
        identity = {"settings": values, "code": code_fingerprint.of(*modules)}
        with atomic_files.resumable_folder(out, store.STAGE, identity, inputs) as partial:
            _fetch(source, values, where, partial, workers or WORKERS)
    else:
        with atomic_files.atomic_write(out, store.STAGE, inputs) as partial:
            partial.mkdir()
            _read(source, values, where, partial, out.name)


def _read(source: store.Source, values: dict[str, Any], where: str, out: Path, name: str) -> None:
    """Writes the documents of a source as it reads them."""
    skipped = Counter[str]()
    with Progress(f"download {name}", total=None, unit="documents") as progress:
        found = _counted(store.limited(source.read(skipped), source.bytes), progress)
        totals = store.write(_refuse_empty(found, where, skipped), out)
    _seal(source, values, out, totals, skipped, {})


def _fetch(
    source: store.Partitioned, values: dict[str, Any], where: str, out: Path, workers: int
) -> None:
    """Writes the documents of a source's files, several at once."""
    listed = source.parts()
    total = None if source.bytes is None else round(source.bytes / 1e6)
    with Progress(f"download {where.partition('.')[2]}", total=total, unit="MB") as progress:
        written = parallel_download.write(listed, out, source.bytes, workers, progress)
    totals = store.totals(written.files)
    if not totals.documents:
        raise _empty(where, written.skipped)
    read = [part.facts() for part in listed[: written.parts]]
    _seal(source, values, out, totals, written.skipped, {"source_files": read})


def _seal(
    source: store.Source,
    values: dict[str, Any],
    out: Path,
    totals: store.Totals,
    skipped: Counter[str],
    further: dict[str, Any],
) -> None:
    atomic_files.write_manifest(
        out / atomic_files.MANIFEST,
        stage=store.STAGE,
        settings=values,
        inputs=[],
        files=totals.files,
        modules=[__name__, SOURCES[values["kind"]].partition(":")[0]],
        facts={
            "documents": totals.documents,
            "characters": totals.characters,
            "bytes": totals.bytes,
            "documents_sha256": totals.sha256,
            "licence": source.licence,
            "skipped": dict(sorted(skipped.items())),
            "entropy_nats_per_character": source.entropy_nats_per_character,
            "versions": {
                "python": platform.python_version(),
                "pyarrow": pyarrow.__version__,
            },
            **source.facts(totals.sha256),
            **further,
        },
    )


def _counted(documents: Iterable[store.Document], progress: Progress) -> Iterator[store.Document]:
    size = 0
    for document in documents:
        size += len(document.text)
        progress.add(1, characters=f"{size:,}")
        yield document


def _refuse_empty(
    documents: Iterator[store.Document], where: str, skipped: Counter[str]
) -> Iterator[store.Document]:
    first = next(documents, None)
    if first is None:
        raise _empty(where, skipped)
    return itertools.chain([first], documents)


def _empty(where: str, skipped: Counter[str]) -> InputError:
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
    return InputError(
        f"{where} gives no documents (left out: {left_out or 'none'}): check what it reads"
    )
