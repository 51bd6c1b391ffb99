"""The first stage: text from wherever it is to documents on disk, with its origin on record."""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow

from pike_mixing import settings
from pike_mixing.errors import InputError
from pike_mixing.settings import mapping, unknown
from pipeline.data import SOURCES
from pipeline.data import documents as store
from pipeline.runtime import atomic_files, optional_imports
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

    Args:
        settings_file: JSON of the source: its `kind` and that kind's settings.
        out: Folder to be made; its name is the source's name.
        workers: Files fetched at once, of a source that has several far away; absent: 4.

    Raises:
        InputError: wrong settings, a source that cannot be read, no documents, or a full disk.
    """
    values = atomic_files.read_mapping(settings_file)
    source = parse(values, f"sources.{out.name}")
    own = source.paths() if isinstance(source, store.OfFiles) else []
    inputs = [settings_file, *(path for path, _ in own)]
    with atomic_files.atomic_write(out, store.STAGE, inputs) as partial:
        partial.mkdir()
        writer, facts = _write(source, partial, out.name, workers or WORKERS)
        atomic_files.write_manifest(
            partial / atomic_files.MANIFEST,
            stage=store.STAGE,
            settings=values,
            inputs=[],
            files=writer.files,
            modules=[__name__, SOURCES[values["kind"]].partition(":")[0]],
            facts=facts,
        )


def _write(
    source: store.Source, out: Path, name: str, workers: int
) -> tuple[store.Writer, dict[str, Any]]:
    """Writes a source's documents, file by file where it has several, and what is to be told."""
    writer, skipped, files = store.Writer(out), Counter[str](), []
    total = None if source.bytes is None else round(source.bytes / 1e6)
    with Progress(f"download {name}", total=total, unit="MB") as progress:
        if isinstance(source, store.Partitioned):
            for file in source.parts(workers):
                files.append(file.facts())
                left = None if source.bytes is None else source.bytes - writer.bytes
                writer.add(_counted(store.limited(file.read(skipped), left), progress))
                if source.bytes is not None and writer.bytes >= source.bytes:
                    break
        else:
            writer.add(_counted(store.limited(source.read(skipped), source.bytes), progress))
    if not writer.documents:
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
        raise InputError(
            f"sources.{name} gives no documents (left out: {left_out or 'none'}): check what it "
            "reads"
        )
    return writer, {
        "documents": writer.documents,
        "characters": writer.characters,
        "bytes": writer.bytes,
        "documents_sha256": writer.sha256,
        "licence": source.licence,
        "skipped": dict(sorted(skipped.items())),
        "entropy_nats_per_character": source.entropy_nats_per_character,
        "versions": {"python": platform.python_version(), "pyarrow": pyarrow.__version__},
        **source.facts(writer.sha256),
        **({"source_files": files} if files else {}),
    }


def _counted(documents: Iterable[store.Document], progress: Progress) -> Iterator[store.Document]:
    for document in documents:
        progress.add(len(document.text.encode()) / 1e6)
        yield document
