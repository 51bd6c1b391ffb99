"""Files that a pattern names: a plain path or one with `*`, `?`, `[...]` and `**`."""

import glob
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from pike_mixing.errors import InputError

_LONGEST = 255
"""Characters of a file's name, on all usual disks."""
_Identities = frozenset[tuple[int, int]]
"""Folders by device and number."""


def files_in_pattern_order(patterns: Iterable[str], place: str) -> list[str]:
    """Files that one of several patterns names, each once, pattern by pattern.

    A file under two spellings (`a.txt`, `./a.txt`) has that which comes first. `place` the patterns
    were set is for messages.

    Raises:
        InputError: a pattern without a file, or a name that is not UTF-8.
    """
    result: dict[str, str] = {}
    for pattern in patterns:
        if not (matches := files_of_pattern(pattern)):
            hint = _missing_file_hint(Path(pattern))
            raise InputError(f"{place}: no file matches {pattern!r} from {Path.cwd()}{hint}")
        for name in matches:
            result.setdefault(os.path.abspath(name), name)  # noqa: PTH100 - Links stay links.
    return [*result.values()]


def _missing_file_hint(named: Path) -> str:
    """What to name instead of a folder: a data set saved by `datasets` has one for each split."""
    if len(named.name) > _LONGEST:
        return f": no name is longer than {_LONGEST} characters"
    if named.is_symlink() and not named.exists():
        return f": it is a link to {named.readlink()}, which is not there"
    if not named.is_dir():
        return ""
    splits = sorted({str(path.parent / "*.arrow") for path in named.glob("**/*.arrow")})
    return f": name its files: {' or '.join(splits[:9]) or f'{named}/**'}"


def files_of_pattern(pattern: str) -> list[str]:
    """Regular files, in the order of their names; neither folders nor pipes nor devices.

    A file of exactly the pattern's name is the only one: brackets in its name are no pattern then.
    `**` crosses folders, those that links lead to too, but never enters a folder within itself:
    Python's own `glob` gives each file below a link to its parent 41 times, and does not end
    where there are two such links, or many `**`.

    Raises:
        InputError: a file whose name is not UTF-8, which no record can hold, or a link of
            git-annex to a file that is not here.
    """
    if _is_file(pattern):
        result = [pattern]
    else:
        matches = _matching_paths(pattern)
        result = sorted(filter(_is_file, matches))
        for name in matches.difference(result):
            if Path(name).is_symlink() and "annex/objects/" in os.fspath(Path(name).readlink()):
                raise InputError(
                    f"{name} is a link of git-annex to a file that is not here: run "
                    f"`git annex get {shlex.quote(name)}`, or name it in `exclude`"
                )
    for name in result:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"the name of the file {name!r} is not UTF-8: rename it") from None
    return result


def _is_file(name: str) -> bool:
    return os.path.isfile(name)  # noqa: PTH113 - Path raises where a name is too long.


def _matching_paths(pattern: str) -> set[str]:
    """What a pattern names: one part between `**` after the other."""
    parts: list[list[str]] = [[]]
    for one in pattern.split("/"):
        if one != "**":
            parts[-1].append(one)
        elif parts[-1] or len(parts) == 1:
            # `**/**` crosses the same folders as `**`.
            parts.append([])
    first, *further = parts
    if not further:
        return set(glob.glob(pattern))  # noqa: PTH207 - Path.glob refuses absolute patterns.
    tops = glob.glob("/".join([*first, ""])) if first else [""]  # noqa: PTH207
    found: dict[str, _Identities] = dict.fromkeys(tops, frozenset())
    for part in further:
        names = "/".join((part or ["*"]) if part is further[-1] else [*part, ""])
        crossed = {
            folder: above for top in found.items() for folder, above in _walk_visible_folders(*top)
        }
        found = {
            name: above
            for folder, above in crossed.items()
            for name in glob.glob(glob.escape(folder) + names)  # noqa: PTH207
        }
    return set(found)


def _walk_visible_folders(top: str, above: _Identities) -> Iterator[tuple[str, _Identities]]:
    """A folder and those below it that are not hidden, each with a slash at its end.

    Beside each stand the folders that it lies in, those `above` the first among them, and itself.
    """
    left = [(top, above)]
    while left:
        folder, above = left.pop()
        if Path(folder).is_dir():
            facts = Path(folder).stat()
            identity = (facts.st_dev, facts.st_ino)
            if identity not in above:
                within = above | {identity}
                yield folder, within
                below = glob.glob(f"{glob.escape(folder)}*/")  # noqa: PTH207
                left += [(name, within) for name in below]
