"""Datasets of the Hugging Face Hub: the files of a pinned revision, in order.

Which files belong to a configuration is asked of `datasets`; `huggingface_hub` puts the files into
its cache, whole or not at all, and the readers of local files read them there, so that truncated
streams, malformed lines and bytes that are not UTF-8 are treated alike.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import datasets
import huggingface_hub
from huggingface_hub import HfFileSystem

from pike_mixing.errors import InputError
from pipeline.data import formats
from pipeline.data.file_settings import HuggingFaceSettings
from pipeline.data.source_interface import Document
from pipeline.runtime import hub_downloads

REMEDY = "start again later: files that came whole are not fetched twice"


class HuggingFace(HuggingFaceSettings):
    """The reader of such a dataset."""

    entropy_nats_per_character = None

    def read(self, skipped: Counter[str], files: list[dict[str, Any]]) -> Iterator[Document]:
        """Documents in stored order; a file is fetched when the one before is read.

        Raises:
            InputError: no connection, no such dataset, revision, configuration, split or file, a
                format that is not read here, a file that is not what its suffix says, or one that
                is also of the validation text.
        """
        listed, held_out = self._list_files(), self.validation()
        if held_out and (both := sorted({*listed} & {*held_out._list_files()})):
            raise InputError(
                f"dataset {self.dataset!r}: {', '.join(both[:3])} would be trained on and be "
                "validation text: name other files in data_files or validation_data_files"
            )
        for path in listed:
            fetched = hub_downloads.download(
                self.dataset, path, self.revision, kind="dataset", remedy=REMEDY
            )
            # The cache names files by their identity.
            identity = fetched.resolve().name
            files.append({"file": path, "bytes": fetched.stat().st_size, "identity": identity})
            reading = formats.Reading(
                name=path,
                place=f"{path} of {self.dataset} at {self.revision}",
                field=self.field,
                invalid_utf8=self.invalid_utf8,
                path=fetched,
                skipped=skipped,
            )
            yield from formats.read_documents(reading)

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """The revision, and with which versions of the Hub's clients it was read."""
        return {
            "revision": self.revision,
            "datasets": datasets.__version__,
            "huggingface_hub": huggingface_hub.__version__,
        }

    def _list_files(self) -> list[str]:
        """Paths of the files within the repository."""
        try:
            result = self._of_config() if self.data_files is None else self._matching()
        except hub_downloads.FAILURES as error:
            what = f"the list of files of {self.dataset} at {self.revision}"
            raise hub_downloads.unreachable(what, error, REMEDY) from error
        if not result:
            raise InputError(
                f"dataset {self.dataset!r} at {self.revision} has no file for "
                f"{self.data_files or [self.config, self.split]}: check the patterns"
            )
        unknown = [path for path in result if formats.format_suffix(path) not in formats.FORMATS]
        if unknown:
            raise InputError(
                f"dataset {self.dataset!r}: {', '.join(unknown[:3])}: formats are told by suffix: "
                f"{', '.join(formats.FORMATS)}: name other files in data_files"
            )
        root = f"datasets/{self.dataset}@{self.revision}/"
        return [path.removeprefix("hf://").removeprefix(root) for path in dict.fromkeys(result)]

    def _matching(self) -> list[str]:
        """Files that fit a pattern, pattern by pattern."""
        # A file system that knows nothing of earlier calls.
        fs = HfFileSystem(skip_instance_cache=True)
        result: list[str] = []
        for pattern in self.data_files or ():
            place = f"datasets/{self.dataset}@{self.revision}/{pattern}"
            ask = functools.partial(fs.glob, place, detail=True)
            matches: Any = hub_downloads.with_retries(ask, f"{self.dataset}: {pattern}")
            result += [name for name in sorted(matches) if matches[name]["type"] == "file"]
        return result

    def _of_config(self) -> list[str]:
        """Paths of a configuration's files, as `datasets` finds them."""
        try:
            builder = hub_downloads.with_retries(
                lambda: datasets.load_dataset_builder(
                    self.dataset, self.config, revision=self.revision
                ),
                self.dataset,
            )
        except ValueError as error:
            # How `datasets` answers an unknown configuration; its message lists them.
            raise InputError(f"dataset {self.dataset!r} cannot be opened: {error}") from error
        known: dict[str, list[str]] = dict(builder.config.data_files or {})
        if self.split not in known:
            raise InputError(
                f"dataset {self.dataset!r} has no split {self.split!r}: known: {', '.join(known)}"
            )
        return [str(path) for path in known[self.split]]
