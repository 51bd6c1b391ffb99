"""The one exception that stands for a mistake of the user's, and the remedy of a common one."""

from collections.abc import Sequence


class InputError(ValueError):
    """Something the user can mend: a wrong setting, a broken file, a full disk.

    The message says what is wrong, where it was set and what to do. The command line prints it
    without a traceback and exits with code 2; every other exception is a fault of ours, code 1.
    """


def refuse(problems: Sequence[str]) -> None:
    """Raises one InputError of all problems, a line each, if there are any."""
    if problems:
        raise InputError("\n".join(problems))


def install(*extras: str) -> str:
    """The command that adds extras to the clone's environment, under its constraints.

    `pip install '.[hf]'` would put a copy of the package in the place of the clone.
    """
    return f"make setup EXTRAS={','.join(extras)}"
