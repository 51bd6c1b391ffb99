"""Modules that need packages which not everybody installs."""

import importlib
from typing import Any

from pike_mixing.errors import InputError, install

EXTRAS = {
    "alembic": "mlflow",
    "datasets": "hub",
    "google": "hf",
    "huggingface_hub": "hub",
    "mlflow": "mlflow",
    "sklearn": "domains",
    "sqlalchemy": "mlflow",
    "tensorboard": "tensorboard",
    "tokenizers": "hf",
    "transformers": "hf",
    "wandb": "wandb",
}
"""Packages that not everybody installs, and the extra that installs each."""


def import_optional(place: str, where: str, name: object) -> Any:
    """What lies at `module:attribute`.

    Args:
        place: Where it lies.
        where: Where it was asked for, for messages.
        name: As what it was asked for.

    Raises:
        InputError: a package that it needs is not installed.
    """
    module, _, attribute = place.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise InputError(
            f"{where}: {name!r} needs the package {error.name!r}, which is not installed: "
            f"run `{install(EXTRAS[error.name])}`"
        ) from error
