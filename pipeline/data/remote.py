"""Files on the Hugging Face Hub, read block by block, each fetched again until it came whole.

A transfer that breaks off is no reason to begin a file again: only the block that was on its way is
lost.
"""

from collections.abc import Callable
from typing import Any

# The Hub's own clients.
from huggingface_hub import HfFileSystem, HfFileSystemFile, constants, get_session
from huggingface_hub.utils import (  # type: ignore[attr-defined, unused-ignore]
    build_hf_headers,
    hf_raise_for_status,
)

from pipeline.runtime.hub import FAILURES, with_retries

BLOCK = 8 * 2**20
"""Bytes fetched at once."""


def file_system() -> HfFileSystem:
    """The Hub as a file system that knows nothing of earlier calls."""
    return HfFileSystem(skip_instance_cache=True)


class RemoteFile(HfFileSystemFile):  # type: ignore[misc, unused-ignore]
    """A file of the Hub that can be read and sought, as the Hub's client does it, with patience."""

    def __init__(self, fs: HfFileSystem, path: str, told: Callable[[Exception], Exception]) -> None:
        """Opens a file.

        Args:
            fs: The Hub.
            path: datasets/owner/name@commit/file.
            told: Makes what is raised when a block cannot be had, so that readers in between do
                not take it for a damaged file.

        Raises:
            HTTPError, OSError: there is no such file, or no connection.
        """
        super().__init__(fs, path, mode="rb", block_size=BLOCK, cache_type="readahead")
        self._told = told

    def _fetch_range(self, start: int, end: int) -> bytes:
        try:
            return with_retries(lambda: self._fetch_once(start, end), self.path)
        except FAILURES as error:
            raise self._told(error) from error

    def _fetch_once(self, start: int, end: int) -> bytes:
        headers: dict[str, Any] = {**build_hf_headers(), "range": f"bytes={start}-{end - 1}"}
        answer = get_session().get(
            self.url(), headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
        )
        hf_raise_for_status(answer)
        content: bytes = answer.content
        if answer.status_code != 206:
            # A mirror that does not know ranges sends the whole file.
            content = content[start:end]
        if len(content) != end - start:
            raise ConnectionError(f"{len(content):,} bytes came, not {end - start:,}")
        return content
