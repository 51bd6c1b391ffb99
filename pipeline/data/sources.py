"""The first stage: text from wherever it is to documents on disk, with its origin on record."""

import importlib
import itertools
import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow

from pipeline import disk, files, settings
from pipeline.data import SOURCES
from pipeline.data import documents as store
from pipeline.errors import InputError
from pipeline.progress import Progress

_EXTRAS = {"datasets": "hub", "huggingface_hub": "hub"}


def kind(name: object, where: str) -> type[store.Source]:
    """The settings of a kind of source.

    Raises:
        InputError: no such kind, or a package that it needs is not installed.
    """
    if not isinstance(name, str) or name not in SOURCES:
        raise InputError(settings.unknown(str(name), SOURCES, f"{where}.kind"))
    module, _, attribute = SOURCES[name].partition(":")
    try:
        found: type[store.Source] = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise InputError(
            f"{where}.kind: {name!r} needs the package {error.name!r}, which is not installed: "
            f"pip install '.[{_EXTRAS[error.name]}]'"
        ) from error
    return found


def parse(values: dict[str, Any], where: str) -> store.Source:
    """Settings of one source from plain values, `kind` among them.

    Raises:
        InputError: what is wrong with them, all at once.
    """
    if "kind" not in values:
        raise InputError(f"{where}: kind is missing: one of {', '.join(sorted(SOURCES))}")
    fields = {name: value for name, value in values.items() if name != "kind"}
    for several in ("files", "data_files"):
        if isinstance(fields.get(several), str):
            fields[several] = [fields[several]]
    return settings.parse(kind(values["kind"], where), fields, where)


def download(settings_file: Path, out: Path) -> None:
    """Fetches a source's documents and writes them with a manifest.

    Args:
        settings_file: JSON of the source: its `kind` and that kind's settings.
        out: Folder to be made; its name is the source's name.

    Raises:
        InputError: wrong settings, a source that cannot be read, no documents, or a full disk.
    """
    values = files.read_json(settings_file)
    where = f"sources.{out.name}"
    source = parse(values, where)
    skipped = Counter[str]()
    with disk.named(out), files.appearing(out) as partial:
        partial.mkdir()
        with Progress(f"download {out.name}", total=None, unit="documents") as progress:
            found = _counted(limited(source.read(skipped), source.bytes), progress)
            totals = store.write(_refuse_empty(found, where, skipped), partial)
        files.write_manifest(
            partial / files.MANIFEST,
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
            },
        )


def limited(documents: Iterable[store.Document], limit: int | None) -> Iterator[store.Document]:
    """The documents up to and with the one that reaches `limit` UTF-8 bytes."""
    total = 0
    for document in documents:
        yield document
        total += len(document.text.encode())
        if limit is not None and total >= limit:
            return


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
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
        raise InputError(
            f"{where} gives no documents (left out: {left_out or 'none'}): check what it reads"
        )
    return itertools.chain([first], documents)
