"""Files of data sets on the Hugging Face Hub, at a commit."""

from pathlib import Path

import huggingface_hub

# The transport's own error (httpx or requests, by version); a refused connection is not an OSError.
from huggingface_hub.errors import (  # type: ignore[attr-defined, unused-ignore]
    HfHubHTTPError,
    HTTPError,
    LocalEntryNotFoundError,
)

from pipeline.errors import InputError


def downloaded(repository: str, file: str, revision: str) -> Path:
    """A file of a commit; from the Hub's own cache when there is no connection.

    Raises:
        InputError: it cannot be had.
    """
    try:
        return Path(
            huggingface_hub.hf_hub_download(
                repository, file, repo_type="dataset", revision=revision
            )
        )
    except (HfHubHTTPError, HTTPError, LocalEntryNotFoundError, OSError) as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(
            f"{file} of {repository} at {revision} cannot be fetched ({type(error).__name__}: "
            f"{first}): check your connection (HF_HUB_OFFLINE=1 takes what the Hub's cache holds, "
            "HF_ENDPOINT names a mirror), or give files that you have with --from SPLIT=FILE"
        ) from error
