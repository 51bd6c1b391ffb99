"""One file of a model's repository on the Hugging Face Hub."""

from pathlib import Path

import huggingface_hub

from pipeline.data import remote
from pipeline.errors import InputError


def downloaded(repository: str, file: str, revision: str) -> Path:
    """A file of a commit, in the Hub's own cache; from there when it is there already.

    Raises:
        InputError: it cannot be had.
    """
    try:
        path = remote.patiently(
            lambda: huggingface_hub.hf_hub_download(repository, file, revision=revision),
            f"{file} of {repository}",
        )
    except remote.FAILURES as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(
            f"{file} of {repository} at {revision} cannot be fetched ({type(error).__name__}: "
            f"{first}): check its name, revision and your connection (HF_HUB_OFFLINE=1 takes what "
            "the Hub's cache holds, HF_ENDPOINT names a mirror, HF_TOKEN opens gated "
            "repositories), or fetch it yourself and give it with kind: file"
        ) from error
    return Path(path)
