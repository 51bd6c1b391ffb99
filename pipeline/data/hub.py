"""Datasets of the Hugging Face Hub: the files of a pinned revision, in order.

`datasets` finds the files, by configuration and split or by patterns, and `huggingface_hub` puts
them into its cache, whole or not at all. The readers of local files read them there
(docs/decisions.md, 0040), so that truncated streams, malformed lines and bytes that are not UTF-8
are treated alike.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import datasets
import huggingface_hub
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub import HfFileSystem
from huggingface_hub.errors import LocalEntryNotFoundError

from pike_mixing.errors import InputError
from pipeline.data import file_formats
from pipeline.data.file_settings import HuggingFaceSettings
from pipeline.data.source_interface import Document, NamedFile
from pipeline.runtime import hub_downloads

REMEDY = "start again later: files that came whole are not fetched twice"
NOT_REACHED = (DatasetNotFoundError, LocalEntryNotFoundError)
"""Of the errors that count as files not found, those of a whole dataset."""


class HuggingFaceSource(HuggingFaceSettings):
    """The reader of such a dataset."""

    entropy_nats_per_character = None

    def user_files(self) -> list[NamedFile]:
        """None of the user's own."""
        return []

    def read(
        self, skipped: Counter[str], downloaded_files: list[dict[str, Any]]
    ) -> Iterator[Document]:
        """Documents in stored order; a file is fetched when the one before is read.

        Raises:
            InputError: no connection, no such dataset, revision, configuration, split or file, a
                format that is not read here, a file that is not what its suffix says, or one that
                is also of the validation text.
        """
        listed, held_out = self._list_files(), self.validation_source()
        if held_out and (both := sorted({*listed} & {*held_out._list_files()})):
            raise InputError(
                f"dataset {self.dataset!r}: {', '.join(both[:3])} would be trained on and be "
                "validation text: name other files in data_files or validation_data_files"
            )
        for path in listed:
            fetched = hub_downloads.download_hub_file(
                self.dataset, path, self.revision, kind="dataset", remedy=REMEDY
            )
            # The cache names files by their identity.
            identity = fetched.resolve().name
            downloaded_files.append(
                {"file": path, "bytes": fetched.stat().st_size, "identity": identity}
            )
            reading = file_formats.SourceFile(
                name=path,
                place=f"{path} of {self.dataset} at {self.revision}",
                field=self.field,
                invalid_utf8=self.invalid_utf8,
                path=fetched,
                skipped=skipped,
            )
            yield from file_formats.read_source_file(reading)

    def revision_facts(self, _documents_sha256: str, /) -> dict[str, Any]:
        """The revision, and with which versions of the Hub's clients it was read."""
        return {
            "revision": self.revision,
            "datasets": datasets.__version__,
            "huggingface_hub": huggingface_hub.__version__,
        }

    def _list_files(self) -> list[str]:
        """Paths of the files within the repository, pattern by pattern, each time by name."""
        repository = f"hf://datasets/{self.dataset}"
        root = f"{repository}@{self.revision}/"
        named = self.data_files and {self.split: [root + pattern for pattern in self.data_files]}

        def find_files_by_split() -> dict[str, list[str]]:
            # What a broken listing left would pass for the whole.
            HfFileSystem.clear_instance_cache()
            # By addresses of the Hub's: files and folders here of these names are not meant.
            builder = datasets.load_dataset_builder(
                repository, self.config, data_files=named, revision=self.revision
            )
            return dict(builder.config.data_files or {})

        try:
            known = hub_downloads.call_with_retries(find_files_by_split, self.dataset)
        except hub_downloads.FAILURES as error:
            if not isinstance(error, FileNotFoundError) or isinstance(error, NOT_REACHED):
                what = f"the list of files of {self.dataset} at {self.revision}"
                raise hub_downloads.unreachable_error(what, error, REMEDY) from error
            known = {self.split: []}
        except (ValueError, RuntimeError) as error:
            # An unknown configuration, where the message lists those that are there, or a script.
            raise InputError(
                f"dataset {self.dataset!r} cannot be opened: {' '.join(str(error).split())}: name "
                "its `config` or other `data_files`; where a script makes the text, a commit of "
                "its branch refs/convert/parquet"
            ) from error
        if self.split not in known:
            raise InputError(
                f"dataset {self.dataset!r} has no split {self.split!r}: known: {', '.join(known)}"
            )
        result = [path.removeprefix(root) for path in dict.fromkeys(known[self.split])]
        if not result:
            raise InputError(
                f"dataset {self.dataset!r} at {self.revision} has no file for "
                f"{self.data_files or [self.config, self.split]}: check the patterns"
            )
        where = f"dataset {self.dataset!r}"
        file_formats.refuse_files_of_unknown_format(result, where, "name other files in data_files")
        return result
