"""Files that a pattern names: a plain path or one with `*`, `?`, `[...]` and `**`."""

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pike_mixing.errors import InputError


def all_files(patterns: Iterable[str], where: str) -> list[str]:
    """Files that one of several patterns names, each once, pattern by pattern.

    A file under two spellings (`a.txt`, `./a.txt`) has that which comes first. `where` the patterns
    were set is for messages.

    Raises:
        InputError: a pattern without a file, or a name that is not UTF-8.
    """
    result: dict[str, str] = {}
    for pattern in patterns:
        if not (matches := files(pattern)):
            raise InputError(
                f"{where}: no file matches {pattern!r} from {Path.cwd()}{_hint(Path(pattern))}"
            )
        for name in matches:
            result.setdefault(os.path.abspath(name), name)  # noqa: PTH100 - Links stay links.
    return [*result.values()]


def _hint(folder: Path) -> str:
    """What to name instead of a folder: a data set saved by `datasets` has one for each split."""
    if not folder.is_dir():
        return ""
    splits = sorted({str(path.parent / "*.arrow") for path in folder.glob("**/*.arrow")})
    return f": name its files: {' or '.join(splits[:9]) or f'{folder}/**'}"


def files(pattern: str) -> list[str]:
    """Regular files, in the order of their names; neither folders nor pipes nor devices.

    A file of exactly the pattern's name is the only one: brackets in its name are no pattern then.
    `**` crosses folders, those that links lead to too, but never enters a folder within itself:
    Python's own `glob` gives each file below a link to its parent 41 times, and does not end
    where there are two such links.

    Raises:
        InputError: a file whose name is not UTF-8, which no record can hold.
    """
    if Path(pattern).is_file():
        result = [pattern]
    else:
        result = sorted(name for name in _matches(pattern) if Path(name).is_file())
    for name in result:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"the name of the file {name!r} is not UTF-8: rename it") from None
    return result


def _matches(pattern: str) -> set[str]:
    parts = pattern.split("/")
    if "**" not in parts:
        return set(glob.glob(pattern))  # noqa: PTH207 - Path.glob refuses absolute patterns.
    at = parts.index("**")
    before, after = "/".join([*parts[:at], ""]) if at else "", "/".join(parts[at + 1 :] or ["*"])
    tops = glob.glob(before) if before else [""]  # noqa: PTH207
    folders = {folder for top in tops for folder in _folders(top)}
    return {name for folder in folders for name in _matches(glob.escape(folder) + after)}


def _folders(top: str) -> Iterator[str]:
    """A folder and those below it that are not hidden, each with a slash at its end."""
    left: list[tuple[str, frozenset[tuple[int, int]]]] = [(top, frozenset())]
    while left:
        folder, above = left.pop()
        try:
            facts = Path(folder).stat()
            with os.scandir(Path(folder)) as entries:
                below = [e.name for e in entries if _is_folder(e) and not e.name.startswith(".")]
        except OSError:
            continue  # Not a folder, or one that this user may not read.
        identity = (facts.st_dev, facts.st_ino)
        if identity not in above:
            yield folder
            left += [(f"{folder}{name}/", above | {identity}) for name in below]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # A link to itself.
