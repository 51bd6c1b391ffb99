"""JSON that other programs wrote: what is no file, too large or too deep is told as damage."""

import json
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError

MOST_BYTES = 2**30
"""Bytes from which on no file of JSON is read."""


def parse_json_or_value_error(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, or nested deeper than anybody writes.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets within brackets, too many") from None


def refuse_pipes_and_folders(path: Path, remedy: str) -> None:
    """Stops at a pipe, a device or a folder, of which whoever reads it may wait for ever.

    Raises:
        InputError: there is one; arguments as of `read_json`.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is no file: {remedy}")


def read_json_nonobject_as_empty(path: Path, remedy: str) -> dict[str, Any]:
    """The values of a JSON file's object by name; none where it holds no object."""
    result = read_json(path, remedy)
    return result if isinstance(result, dict) else {}


def read_json(path: Path, remedy: str) -> Any:
    """The value of a file that was found, not named: of a pipe or device nothing is read.

    Messages end with the remedy: what to do where the file is damaged.

    Raises:
        InputError: it is no file, cannot be read, has more than `MOST_BYTES`, or is no JSON.
    """
    refuse_pipes_and_folders(path, remedy)
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise ValueError(f"{size:,} bytes, too many for JSON")
        return parse_json_or_value_error(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: check the path") from None
    except ValueError as error:
        raise InputError(f"{path} is cut or damaged ({error}): {remedy}") from None
