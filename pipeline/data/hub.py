"""Datasets of the Hugging Face Hub: the files of a pinned revision, in order.

Which files belong to a configuration is asked of `datasets`; `huggingface_hub` puts the files into
its cache, whole or not at all, and the readers of local files read them there, so that truncated
streams, malformed lines and bytes that are not UTF-8 are treated alike. With HF_HUB_OFFLINE=1 the
cache's files alone are taken, where `hf download` has put them.
"""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
from huggingface_hub import HfFileSystem, constants

from pike_mixing.errors import InputError
from pike_mixing.limits import PositiveInt
from pipeline.data import formats, worker_pool
from pipeline.data.documents import Document
from pipeline.runtime import hub
from pipeline.settings import Commit, HubId

REMEDY = "start again later: files that came whole are not fetched twice"

_NUMBERED = re.compile(r"(.*\D|)(\d+)(-of-)(\d+)(\D.*)")
"""c4-de.tfrecord-00000-of-02048.json.gz"""


@dataclass(frozen=True)
class HuggingFace:
    """The first documents of a dataset's files, in the order of the files and their lines."""

    dataset: HubId
    """Id on the Hub, such as "allenai/c4"."""
    revision: Commit
    """Commit of the dataset, 40 hex digits: a branch can change under the experiment."""
    field: str
    """Column that holds the text."""
    bytes: PositiveInt
    """Stop at the document that reaches so many UTF-8 bytes."""
    licence: str
    """Licence of the dataset, for the record."""
    split: str = "train"
    """Split of the configuration; files that are named by `data_files` have none."""
    config: str | None = None
    """Configuration, where the dataset has several: "realnewslike"."""
    data_files: formats.Patterns | None = None
    """Patterns of files to read instead of a configuration's, read in the order of their names.
    `multilingual/c4-hi*` also matches `c4-hi-Latn`: write `multilingual/c4-hi.*`."""
    invalid_utf8: formats.Utf8Policy = "error"
    """What to do with a text that is not valid UTF-8: see `pipeline.data.local.Local`."""

    def problems(self) -> list[str]:
        """Files that are named in two ways."""
        if self.data_files and self.config:
            return ["data_files: stand instead of config; leave one of them out"]
        return []

    @property
    def entropy_nats_per_character(self) -> None:
        """Unknown."""

    def parts(self, workers: int) -> Iterator["HubFile"]:
        """The dataset's files, each when it lies in the Hub's cache.

        Args:
            workers: Files fetched at once: those that the first `bytes` of text may need.

        Raises:
            InputError: no connection, no such dataset, revision, configuration, split or file, or
                a format that is not read here.
        """
        listed = self._files()
        # Text is seldom smaller than it is stored: later files are hardly needed.
        begins = itertools.accumulate((file.stored_bytes for file in listed), initial=0)
        needed = sum(begin < self.bytes for begin, _ in zip(begins, listed, strict=False))
        yield from worker_pool.in_order(HubFile.fetched, listed[:needed], workers)
        yield from map(HubFile.fetched, listed[needed:])

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """Documents in stored order; one file after the other.

        Raises:
            InputError: as `parts`, or a file that cannot be read.
        """
        for part in self.parts(1):
            yield from part.read(skipped)

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """The revision, and with which versions of the Hub's clients it was read."""
        return {
            "revision": self.revision,
            "datasets": datasets.__version__,
            "huggingface_hub": huggingface_hub.__version__,
        }

    def _files(self) -> list["HubFile"]:
        try:
            found = self._cached() if constants.HF_HUB_OFFLINE else self._listed()
        except hub.FAILURES as error:
            what = f"the list of files of {self.dataset} at {self.revision}"
            raise hub.unreachable(what, error, REMEDY) from error
        if not found:
            raise InputError(
                f"dataset {self.dataset!r} at {self.revision} has no file for "
                f"{self.data_files or [self.config, self.split]}: check the patterns"
            )
        unknown = [file.path for file in found if formats.suffix(file.path) not in formats.FORMATS]
        if unknown:
            raise InputError(
                f"dataset {self.dataset!r}: {', '.join(unknown[:3])}: formats are told by suffix: "
                f"{', '.join(formats.FORMATS)}; name other files in data_files"
            )
        return found

    def _listed(self) -> list["HubFile"]:
        # A file system that knows nothing of earlier calls.
        fs = HfFileSystem(skip_instance_cache=True)
        root = f"datasets/{self.dataset}@{self.revision}"
        found: dict[str, dict[str, Any]] = {}
        if self.data_files:
            for pattern in self.data_files:
                ask = functools.partial(fs.glob, f"{root}/{pattern}", detail=True)
                matches: Any = hub.with_retries(ask, f"{self.dataset}: {pattern}")
                found.update((n, matches[n]) for n in sorted(matches))
        else:
            for path in self._of_config(self.dataset):
                name = path.removeprefix("hf://")
                found[name] = hub.with_retries(functools.partial(fs.info, name), name)
        return [
            HubFile(self, name[len(root) + 1 :], info["size"], _identity(info))
            for name, info in found.items()
            if info["type"] == "file"
        ]

    def _of_config(self, place: str) -> list[str]:
        """Paths of a configuration's files, as `datasets` finds them."""
        try:
            builder = hub.with_retries(
                lambda: datasets.load_dataset_builder(
                    place, self.config, revision=None if Path(place).is_dir() else self.revision
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

    def _cached(self) -> list["HubFile"]:
        """The files of the Hub's cache; those that are not there fail when they are read."""
        snapshot = Path(
            huggingface_hub.snapshot_download(
                self.dataset,
                repo_type="dataset",
                revision=self.revision,
                local_files_only=True,
                # What is missing is found below: it may lie behind the end of what is read.
                allow_patterns=[],
            )
        )
        if self.data_files:
            paths = [p for pattern in self.data_files for p in sorted(snapshot.glob(pattern))]
        else:
            paths = [Path(path) for path in self._of_config(str(snapshot))]
        names = [path.relative_to(snapshot).as_posix() for path in paths if path.is_file()]
        return [HubFile(self, name, *_of_cache(snapshot / name)) for name in _gapless(names)]


@dataclass(frozen=True)
class HubFile:
    """One file of a dataset."""

    source: HuggingFace
    path: str
    """Within the repository."""
    stored_bytes: int
    identity: str
    """SHA-256 of a large file, Git's blob id of a small one."""

    def facts(self) -> dict[str, Any]:
        """What the manifest says of a file that was read."""
        return {"file": self.path, "bytes": self.stored_bytes, "identity": self.identity}

    def fetched(self) -> "HubFile":
        """The same file when it lies in the Hub's cache.

        Raises:
            InputError: the file cannot be fetched.
        """
        self._local()
        return self

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """The file's documents.

        Raises:
            InputError: the file cannot be fetched, or is not what its suffix says.
        """
        reading = formats.Reading(
            name=self.path,
            place=f"{self.path} of {self.source.dataset} at {self.source.revision}",
            remedy="take another revision, or leave the file out of data_files",
            field=self.source.field,
            invalid_utf8=self.source.invalid_utf8,
            path=self._local(),
            skipped=skipped,
            shorter="leave the file out of data_files",
        )
        yield from formats.documents(reading)

    def _local(self) -> Path:
        chosen = self.source
        return hub.download(
            chosen.dataset, self.path, chosen.revision, kind="dataset", remedy=REMEDY
        )


def _of_cache(path: Path) -> tuple[int, str]:
    """Size and identity of a file of the cache: a link to a blob that is named by its identity."""
    return (path.stat().st_size, path.resolve().name) if path.is_file() else (0, "missing")


def _identity(info: dict[str, Any]) -> str:
    large = info.get("lfs")
    return f"sha256 {large['sha256']}" if large else f"blob {info['blob_id']}"


def _gapless(names: Sequence[str]) -> list[str]:
    """Names and, of files numbered x-of-y, those of the y that are not there.

    A cache holds what somebody fetched: without the missing ones the first bytes of a dataset would
    be other bytes.
    """
    found: dict[str, None] = {}
    for name in names:
        parts = _NUMBERED.fullmatch(name)
        if parts is None:
            found[name] = None
            continue
        before, digits, of, total, after = parts.groups()
        for number in range(int(total)):
            found[f"{before}{number:0{len(digits)}d}{of}{total}{after}"] = None
    return list(found)
