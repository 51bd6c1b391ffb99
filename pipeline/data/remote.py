"""Files on the Hugging Face Hub, read block by block, each fetched again until it came whole.

A transfer that breaks off is no reason to begin a file again: only the block that was on its way is
lost. Waits grow from try to try, and are as long as the Hub asks where it says so.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

# The Hub's own clients and the transport's error (httpx), which is not always an OSError.
from huggingface_hub import HfFileSystem, HfFileSystemFile, constants, get_session
from huggingface_hub.errors import (  # type: ignore[attr-defined, unused-ignore]
    HTTPError,
    OfflineModeIsEnabled,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined, unused-ignore]
    build_hf_headers,
    hf_raise_for_status,
)

log = logging.getLogger("pike")

TRIES = 8
"""Times that one block or one listing is asked for, over some two minutes."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds before the second try, and between later ones at most; they double from try to try."""
BLOCK = 8 * 2**20
"""Bytes fetched at once."""

FAILURES = (HTTPError, OSError)
"""What the Hub's clients raise when something cannot be fetched."""

_PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Answers after which the same request may succeed."""

T = TypeVar("T")


def patiently(call: Callable[[], T], what: str) -> T:
    """Calls until it succeeds, or raises the last failure.

    Raises:
        HTTPError, OSError: a failure that will not pass, or one that has not passed in time.
    """
    wait = FIRST_WAIT
    for left in reversed(range(TRIES)):
        try:
            return call()
        except FAILURES as error:
            if not left or not _passing(error):
                raise
            asked = _asked_wait(error)
            pause = wait if asked is None else asked
            log.warning(
                "%s: %s: %s; again in %.0f s (%d tries left)",
                *(what, type(error).__name__, str(error).partition("\n")[0], pause, left),
            )
            time.sleep(pause)
            wait = min(2 * wait, LONGEST_WAIT)
    raise AssertionError("the last try returns or raises")


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
            return patiently(lambda: self._fetch_once(start, end), self.path)
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


def _passing(error: Exception) -> bool:
    answer = getattr(error, "response", None)
    if answer is not None:
        return answer.status_code in _PASSING
    return not isinstance(error, OfflineModeIsEnabled | FileNotFoundError | PermissionError)


def _asked_wait(error: Exception) -> float | None:
    """Seconds that the answer asks to wait (Retry-After), if it does."""
    answer = getattr(error, "response", None)
    asked = "" if answer is None else answer.headers.get("retry-after", "")
    return min(float(asked), 10 * LONGEST_WAIT) if asked.isdecimal() else None
