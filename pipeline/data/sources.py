"""The first stage: text from wherever it is to documents on disk, with its origin on record."""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow

from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message
from pipeline.data import SOURCES
from pipeline.data import document_store as store
from pipeline.data.source_interface import Document, Source
from pipeline.runtime import atomic_files, environment, made_from
from pipeline.runtime.progress import Progress
from pipeline.runtime.validate_settings import validate

VALIDATION_FACTS = "documents", "characters", "bytes", "documents_sha256", "skipped", "source_files"
"""What a manifest says of validation documents that a source has of its own."""


def parse_source(values: dict[str, Any], place: str) -> Source:
    """Settings of one source from plain values, `kind` among them.

    Raises:
        InputError: no such kind, a package that it needs is not installed, or what is wrong with
            its settings, all at once.
    """
    if "kind" not in values:
        raise InputError(f"{place}: kind is missing: one of {', '.join(sorted(SOURCES))}")
    name = values["kind"]
    if not isinstance(name, str) or name not in SOURCES:
        raise InputError(unknown_name_message(str(name), SOURCES, f"{place}.kind"))
    kind: type[Source] = environment.import_attribute(SOURCES[name], f"{place}.kind", name)
    return validate(kind, values, place)


def download_source(settings_file: Path, out: Path) -> None:
    """Fetches a source's documents and writes them with a manifest.

    `settings_file` is JSON of the source's `kind` and that kind's settings; the name of `out`, the
    folder to be made, is the source's name.

    Raises:
        InputError: wrong settings, a source that cannot be read, no documents, or a full disk.
    """
    values = atomic_files.read_json_mapping(settings_file)
    source = parse_source(values, f"sources.{out.name}")
    held_out = source.validation_source()
    given = [file.path for one in (source, held_out) if one for file in one.user_files()]
    modules = [__name__, SOURCES[values["kind"]].partition(":")[0]]
    taken = made_from.InputSnapshot(store.STAGE, modules, given=given)
    with atomic_files.atomic_write(out, store.STAGE, [settings_file, *given]) as partial:
        partial.mkdir()
        files = [partial / f"{store.TRAINING}.parquet"]
        facts = _write_source_and_return_facts(source, files[0], out.name)
        if held_out is not None:
            files.append(partial / f"{store.VALIDATION}.parquet")
            others = _write_source_and_return_facts(held_out, files[1], out.name)
            facts["validation"] = {n: others[n] for n in VALIDATION_FACTS if n in others}
        taken.write_manifest(
            partial / atomic_files.MANIFEST, settings=values, files=files, facts=facts
        )


def _write_source_and_return_facts(source: Source, file: Path, source_name: str) -> dict[str, Any]:
    """Writes a source's documents; returns what the manifest says of them."""
    skipped, files = Counter[str](), list[dict[str, Any]]()
    total = None if source.bytes is None else round(source.bytes / 1e6)
    with Progress(f"download {source_name}", total=total, unit="MB") as progress:
        every = source.read(skipped, files)
        written = store.write_documents_and_return_facts(
            _documents_up_to(every, source.bytes, progress), file
        )
    if not written["documents"]:
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
        raise InputError(
            f"sources.{source_name} gives no documents (left out: {left_out or 'none'}): check "
            "what it reads"
        )
    return {
        **written,
        "licence": source.licence,
        "skipped": dict(sorted(skipped.items())),
        "entropy_nats_per_character": source.entropy_nats_per_character,
        "read_with": {"python": platform.python_version(), "pyarrow": pyarrow.__version__},
        **source.revision_facts(written["documents_sha256"]),
        **({"source_files": files} if files else {}),
    }


def _documents_up_to(
    documents: Iterable[Document], limit_bytes: int | None, progress: Progress
) -> Iterator[Document]:
    """The documents up to and with the one that reaches `limit_bytes` UTF-8 bytes."""
    total = 0
    for document in documents:
        size = len(document.text.encode())
        progress.add(size / 1e6)
        yield document
        total += size
        if limit_bytes is not None and total >= limit_bytes:
            return
