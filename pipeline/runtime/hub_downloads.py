"""Files of the Hugging Face Hub, asked for until they come.

Waits grow from try to try; a time that the Hub asks for (Retry-After) its own client waits. Needs
the extra `hub`.
"""

import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import huggingface_hub
from huggingface_hub import constants

# The transport's error (httpx) is not always an OSError.
from huggingface_hub.errors import (  # type: ignore[attr-defined, unused-ignore]
    HTTPError,
    LocalEntryNotFoundError,
)

from pike_mixing.errors import InputError
from pipeline import errors

log = logging.getLogger("pike")

TRIES = 8
"""Times that one file or listing is asked for, over a minute and a half."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds before the second try, and between later ones at most; they double from try to try."""

FAILURES = (HTTPError, OSError)
"""What the Hub's clients raise when something cannot be fetched."""

_PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Answers after which the same request may succeed."""

T = TypeVar("T")


def download_hub_file(
    repository: str, file: str, revision: str, *, kind: Literal["model", "dataset"], remedy: str
) -> Path:
    """A file of a repository's commit, in the Hub's own cache; from there when it is there already.

    `remedy` is what a user can do without the Hub.
    """
    ask = functools.partial(
        huggingface_hub.hf_hub_download, repository, file, repo_type=kind, revision=revision
    )
    try:
        with errors.explain_disk_errors(Path(constants.HF_HUB_CACHE)):
            return Path(call_with_retries(ask, f"{file} of {repository}"))
    except FAILURES as error:
        raise unreachable_error(f"{file} of {repository} at {revision}", error, remedy) from error


def unreachable_error(what: str, error: Exception, remedy: str) -> InputError:
    """The error for something that cannot be fetched, from what the Hub's client raised."""
    reason = _cause_of_cache_miss(error)
    first = str(reason).strip().partition("\n")[0]
    return InputError(
        f"{what} cannot be fetched ({type(reason).__name__}: {first}): check its name, revision "
        "and your connection (HF_HUB_OFFLINE=1 takes what the Hub's cache holds, HF_ENDPOINT names "
        f"a mirror, HF_TOKEN opens gated repositories), or {remedy}"
    )


def call_with_retries(call: Callable[[], T], what: str) -> T:
    """Calls until it succeeds, or raises the last failure."""
    wait = FIRST_WAIT
    for left in reversed(range(TRIES)):
        try:
            return call()
        except FAILURES as error:
            if not left or not _is_temporary(_cause_of_cache_miss(error)):
                raise
            log.warning(
                "%s: %s: %s; again in %.0f s (%d tries left)",
                *(what, type(error).__name__, str(error).partition("\n")[0], wait, left),
            )
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
    raise AssertionError("the last try returns or raises")


def _cause_of_cache_miss(error: Exception) -> BaseException:
    """Why a file is not in the cache is what kept the client from fetching it."""
    return (isinstance(error, LocalEntryNotFoundError) and error.__cause__) or error


def _is_temporary(error: BaseException) -> bool:
    answer = getattr(error, "response", None)
    if answer is not None:
        return answer.status_code in _PASSING
    if isinstance(error, OSError) and errors.is_user_fixable_write_error(error):
        return False
    return not (constants.HF_HUB_OFFLINE or isinstance(error, FileNotFoundError))
