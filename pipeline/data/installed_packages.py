"""Files of the packages that are installed beside this project, by kind of text."""

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath

from pike_mixing.errors import InputError

SUFFIXES = {
    "code": (".py",),
    "docstrings": (".py",),
    "doctests": (".py",),
    "headers": (".h", ".hh", ".hpp", ".cuh", ".c", ".cc", ".cpp"),
    "prose": (".rst", ".md", ".txt"),
    "stubs": (".pyi",),
}
"""Topic: the ends of its files' names; licences without one are prose."""
_LICENCES = ("licence", "license", "copying", "notice", "authors")
_LISTS = ("top_level.txt", "entry_points.txt", "sources.txt", "requires.txt")
"""Lists of names that installers write."""


def files(packages: Mapping[str, str], topic: str) -> list[tuple[str, Path]]:
    """The files of a topic in some packages, each with its name, in the order of the names.

    Raises:
        InputError: packages that are missing or of another version, all of them.
    """
    _refuse_other(packages)
    result = {}
    for name in packages:
        for entry in metadata.files(name) or ():
            place = PurePosixPath(entry.as_posix())
            if ".." in place.parts or "__pycache__" in place.parts:
                continue
            licence = topic == "prose" and place.name.lower().startswith(_LICENCES)
            listed = place.name.lower() in _LISTS
            path = Path(str(entry.locate()))
            if (place.suffix in SUFFIXES[topic] or licence) and not listed and path.is_file():
                result[place.as_posix()] = path
    return sorted(result.items())


def licences(packages: Mapping[str, str]) -> str:
    """What the packages say of their licences, for the record."""
    _refuse_other(packages)
    result = []
    for name in packages:
        about = metadata.metadata(name)
        fields = [about[field] for field in ("License-Expression", "License") if field in about]
        lines = [line for text in fields for line in text.splitlines() if line.strip()]
        result.append(f"{name}: {lines[0] if lines else 'unknown'}")
    return "; ".join(result)


def _refuse_other(packages: Mapping[str, str]) -> None:
    wrong = [
        f"packages: {name} {installed} is installed, not {version}"
        for name, version in packages.items()
        if (installed := _version(name)) != version
    ]
    if wrong:
        advice = "set up the environment that the source was written for, or name what is installed"
        raise InputError(f"{'; '.join(wrong)}: {advice}")


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "nothing"
