"""The user's own files: text, JSON lines (plain or compressed), Parquet and Arrow."""

import collections
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline.data import file_formats
from pipeline.data.file_settings import LocalSettings
from pipeline.data.source_interface import (
    CUT,
    Document,
    NamedFile,
    Source,
)
from pipeline.runtime import atomic_files, file_kinds, file_patterns


class LocalSource(LocalSettings, Source):
    """The reader of such files."""

    def read(
        self, skipped: Counter[str], downloaded_files: list[dict[str, Any]]
    ) -> Iterator[Document]:
        """All documents in the order of the files' names; with `bytes`, a sample of each file.

        Raises:
            InputError: a file that cannot be read as what its suffix says; its name and, where
                there is one, the line are in the message. One text file that is not cut. A file
                that was written to meanwhile.
        """
        listed = self.user_files()
        self._refuse_single_document(listed)
        if self.bytes is not None:
            yield from self._first_documents_of_every_file(listed, self.bytes, skipped)
            return
        for path, name in listed:
            yield from self._read_file(path, name, skipped)

    def _first_documents_of_every_file(
        self, files: list[NamedFile], total_bytes: int, skipped: Counter[str]
    ) -> Iterator[Document]:
        """The first documents of every file, of each file the same share of its size on disk.

        A corpus is often sorted by site or by date: the first files alone are another text. Where
        files end before `total_bytes` are reached (they are packed unlike the others), the others
        are read further.
        """
        total, taken = 0, dict.fromkeys(files, 0)
        # Of a file that ends it is forgotten how much was taken: nothing is left.
        while taken and total < total_bytes:
            # One byte more: a file of none has a weight, too.
            sizes = {file: file.path.stat().st_size + 1 for file in taken}
            before, seen, whole = total, 0, sum(sizes.values())
            for file, size in sizes.items():
                seen += size
                goal = before + (total_bytes - before) * seen / whole
                if total >= goal:
                    continue
                documents = self._read_file(*file, skipped)
                counted = skipped.copy()
                collections.deque(itertools.islice(documents, taken[file]), maxlen=0)
                # What was left out among those is counted already.
                skipped.clear()
                skipped.update(counted)
                for document in documents:
                    yield document
                    taken[file] += 1
                    total += len(document.text.encode())
                    if total >= goal:
                        break
                else:
                    del taken[file]

    def source_file(
        self, path: Path, name: str, skipped: Counter[str], cut: str
    ) -> file_formats.SourceFile:
        """One of its files as it is to be read; texts are cut as `cut` says."""
        return file_formats.SourceFile(
            name=name,
            place=str(path),
            field=self.field,
            invalid_utf8=self.invalid_utf8,
            path=path,
            skipped=skipped,
            cut=cut,
        )

    def _read_file(self, path: Path, name: str, skipped: Counter[str]) -> Iterator[Document]:
        """The documents of one file, which nobody may change meanwhile."""
        before = atomic_files.file_stamp(path)
        yield from file_formats.read_source_file(
            self.source_file(path, name, skipped, self.documents)
        )
        if atomic_files.file_stamp(path) != before:
            raise InputError(f"{path} was changed while it was read: start again")

    def revision_facts(self, _documents_sha256: str, /) -> dict[str, Any]:
        """The revision, which is the identity of all files, and the files."""
        listed = _file_digests(self)
        held_out = self.validation_source()
        every = [*listed, *_file_digests(held_out)] if held_out else listed
        return {"revision": f"sha256 {atomic_files.json_digest(every)}", "source_files": listed}

    def user_files(self) -> list[NamedFile]:
        """Each file with its name relative to the innermost folder that holds them all.

        Files of `exclude` and of the validation text are none of them, under whatever name.
        """
        matching = file_patterns.files_in_pattern_order(self.files, "files")
        result = _without_dataset_caches(sorted(matching))
        for setting in ("exclude", "validation_files"):
            named = file_patterns.files_in_pattern_order(getattr(self, setting) or (), setting)
            others = {Path(name).resolve() for name in named}
            result = [name for name in result if Path(name).resolve() not in others]
            if not result:
                raise InputError(f"files: {setting} names all of them, none is left: name more")
        file_formats.refuse_files_of_unknown_format(result, "files")
        common = os.path.commonpath([Path(name).absolute().parent for name in result])
        return [
            NamedFile(Path(name), Path(os.path.relpath(name, common)).as_posix()) for name in result
        ]

    def _refuse_single_document(self, listed: list[NamedFile]) -> None:
        """Stops at one text file that is not cut."""
        (path, name), *further = listed
        is_text = file_formats.suffix_with_compression(name) in file_formats.TEXT
        is_cut = self.documents != "file"
        if is_text and not (is_cut or further or self.validation_files is not None):
            file_kinds.refuse_content_unlike_suffix(path)
            raise InputError(
                f"{path} is the only file, and a text file is one document, of which a corpus "
                f"needs some to train on and some for validation: {CUT}, or name more files"
            )

    def count_single_document_files(self) -> int:
        """How many of its files are one document each."""
        if self.documents != "file":
            return 0
        suffixes = [file_formats.suffix_with_compression(name) for _, name in self.user_files()]
        return sum(suffix in file_formats.TEXT for suffix in suffixes)


def _without_dataset_caches(files: list[str]) -> list[str]:
    """The same without the caches that `datasets` leaves in a folder of `save_to_disk`."""
    arrow = [Path(name) for name in files if name.endswith(".arrow")]
    caches: set[str] = set()
    for state in {path.parent / "state.json" for path in arrow}:
        if state.exists():
            parts = atomic_files.read_json_mapping(state).get("_data_files", [])
            listed = {state.parent / part["filename"] for part in parts}
            if missing := sorted(path.name for path in listed if not path.exists()):
                raise InputError(
                    f"{state} lists {', '.join(missing)}, which is missing: save the data set anew"
                )
            caches |= {str(p) for p in arrow if p.parent == state.parent and p not in listed}
    return [name for name in files if str(Path(name)) not in caches]


def _file_digests(source: LocalSource) -> list[dict[str, Any]]:
    return [
        {"file": name, "bytes": path.stat().st_size, "sha256": atomic_files.sha256(path)}
        for path, name in source.user_files()
    ]
