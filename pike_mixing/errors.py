"""The one exception that stands for a mistake of the user's, and the remedy of a common one."""

import importlib.util
from collections.abc import Iterable, Sequence

MOST_PROBLEMS, MOST_CHARACTERS, MOST_NAMES = 200, 200, 20
"""How much a message shows: lines, characters of a value, names in a row."""
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
"""What pip calls a module, where the names differ."""


class InputError(ValueError):
    """Something the user can mend: a wrong setting, a broken file, a full disk.

    The message says what is wrong, where it was set and what to do. The command line prints it
    without a traceback and exits with code 2; every other exception is a fault of ours, code 1.
    """


def refuse(problems: Sequence[str]) -> None:
    """Raises one InputError of all problems, a line each, if there are any; of many, the first."""
    if problems:
        more = len(problems) - MOST_PROBLEMS
        last = [f"and {more:,} more like these"] if more > 0 else []
        raise InputError("\n".join([*problems[:MOST_PROBLEMS], *last]))


def shortened_repr(value: object) -> str:
    """A value as a message shows it: the beginning of a long one."""
    text = repr(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def names_text(names: Iterable[str], most: int = MOST_NAMES) -> str:
    """Names with commas between: of many the first, and how many more there are."""
    listed = [*names]
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more:,} more" if more > 0 else "")


def missing_package_message(needed_by: str, packages: Sequence[str]) -> str | None:
    """Which package something needs and this Python lacks, and what to type; None when none.

    The command names packages, not extras: it is the same for an installation from the clone, from
    a wheel or from PyPI. `needed_by` is the subject of the sentence; packages are modules as they
    are imported.
    """
    lacking = [package for package in packages if importlib.util.find_spec(package) is None]
    if not lacking:
        return None
    names = " ".join(DISTRIBUTIONS.get(package, package) for package in lacking)
    return (
        f"{needed_by} needs the package {lacking[0]!r}, which is not installed: run "
        f"`pip install {names}`"
    )


def refuse_without_package(needed_by: str, package: str, further_remedy: str = "") -> None:
    """Raises the InputError of `missing_package_message`, with what else helps behind it."""
    if problem := missing_package_message(needed_by, [package]):
        raise InputError(problem + further_remedy)


def clone_setup_command(*extras: str) -> str:
    """The command that adds extras to the clone's environment, under its constraints.

    `pip install '.[hf]'` would put a copy of the package in the place of the clone.
    """
    return f"make setup EXTRAS={','.join(extras)}"
