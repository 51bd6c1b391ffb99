"""Datasets of the Hugging Face Hub: the files of a pinned revision, in order, read from afar.

Which files belong to a configuration is asked of `datasets`; the files themselves are read block by
block (`pipeline.data.remote`) by the readers of local files, so that truncated streams, malformed
lines and bytes that are not UTF-8 are treated alike. With HF_HUB_OFFLINE=1 the files are taken from
the Hub's own cache instead, where `hf download` has put them.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import datasets
import huggingface_hub
from huggingface_hub import HfFileSystem, constants

from pike_mixing.errors import InputError
from pike_mixing.limits import PositiveInt
from pipeline.data import formats, remote
from pipeline.data.documents import Document
from pipeline.runtime.hub import FAILURES, with_retries
from pipeline.settings import Commit, HubId

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

    def parts(self) -> Sequence["HubFile"]:
        """The dataset's files.

        Raises:
            InputError: no connection, no such dataset, revision, configuration, split or file, or
                a format that is not read here.
        """
        try:
            found = self._cached() if constants.HF_HUB_OFFLINE else self._listed()
        except FAILURES as error:
            raise self.unreachable(error, "its files") from error
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

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """Documents in stored order; one file after the other.

        Raises:
            InputError: as `parts`, or a file that cannot be read.
        """
        for part in self.parts():
            yield from part.read(skipped)

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """The revision, and with which versions of the Hub's clients it was read."""
        return {
            "revision": self.revision,
            "datasets": datasets.__version__,
            "huggingface_hub": huggingface_hub.__version__,
        }

    def _listed(self) -> list["HubFile"]:
        fs, root = remote.file_system(), f"datasets/{self.dataset}@{self.revision}"
        found: dict[str, dict[str, Any]] = {}
        if self.data_files:
            for pattern in self.data_files:
                ask = functools.partial(fs.glob, f"{root}/{pattern}", detail=True)
                matches: Any = with_retries(ask, f"{self.dataset}: {pattern}")
                found.update((n, matches[n]) for n in sorted(matches))
        else:
            for path in self._of_config(self.dataset):
                name = path.removeprefix("hf://")
                found[name] = with_retries(functools.partial(fs.info, name), name)
        prefix = len(root) + 1
        return [
            HubFile(self, name[prefix:], info["size"], _identity(info), fs=fs)
            for name, info in found.items()
            if info["type"] == "file"
        ]

    def _of_config(self, place: str) -> list[str]:
        """Paths of a configuration's files, as `datasets` finds them."""
        try:
            builder = with_retries(
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
        return [self._of_cache(snapshot / name, name) for name in _gapless(names)]

    def _of_cache(self, path: Path, name: str) -> "HubFile":
        if not path.is_file():
            return HubFile(self, name, 0, "missing", cached=path)
        # The cache's files are links to blobs that are named by their identity.
        return HubFile(self, name, path.stat().st_size, path.resolve().name, cached=path)

    def unreachable(self, error: Exception, what: str) -> InputError:
        """What to tell of something that cannot be fetched."""
        first = str(error).partition("\n")[0]
        return InputError(
            f"dataset {self.dataset!r} at {self.revision} cannot be read "
            f"({what}: {type(error).__name__}: {first}): check its name, revision and your "
            "connection (HF_HUB_OFFLINE=1 takes what `hf download` has put into the Hub's cache, "
            "HF_ENDPOINT names a mirror, HF_TOKEN opens gated sets), then start again: finished "
            "files are not fetched twice"
        )


@dataclass(frozen=True)
class HubFile:
    """One file of a dataset."""

    source: HuggingFace
    path: str
    """Within the repository."""
    stored_bytes: int
    identity: str
    """SHA-256 of a large file, Git's blob id of a small one."""
    fs: HfFileSystem | None = None
    """The Hub, where the file is read from there."""
    cached: Path | None = None
    """The file in the Hub's cache, where it is read from there."""

    @property
    def name(self) -> str:
        """What tells the file from others, and from what it was in another revision."""
        return f"{self.path} {self.identity}"

    def facts(self) -> dict[str, Any]:
        """What the manifest says of a file that was read."""
        return {"file": self.path, "bytes": self.stored_bytes, "identity": self.identity}

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
            opened=self._opened,
            skipped=skipped,
            shorter="leave the file out of data_files",
        )
        yield from formats.documents(reading)

    def _opened(self) -> BinaryIO:
        """The open file; what cannot be fetched later is told as what cannot be opened now."""
        try:
            if self.cached is not None:
                return self.cached.open("rb")
            assert self.fs is not None
            name = f"datasets/{self.source.dataset}@{self.source.revision}/{self.path}"
            return cast(BinaryIO, remote.RemoteFile(self.fs, name, self._unreachable))
        except FAILURES as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> InputError:
        return self.source.unreachable(error, self.path)


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
