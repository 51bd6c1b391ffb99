"""The parser of both command lines."""

import argparse
import re
from typing import Any, NoReturn


class ListExtendingParser(argparse.ArgumentParser):
    """A parser whose lists grow: `--models X --models Y` is `--models X Y`.

    Of an option that is given twice, argparse keeps the last, without a word.
    """

    def add_argument(self, *names: Any, **how: Any) -> argparse.Action:
        """Adds an argument, as argparse does."""
        # A default that is no empty list would grow, too.
        if names[0][0] == "-" and how.get("nargs") in ("+", "*") and not how.get("default"):
            how = {"action": "extend", **how}
        return super().add_argument(*names, **how)

    def error(self, message: str) -> NoReturn:
        """Ends the program, code 2; an option of several words may have taken what is missing."""
        lists = [a.option_strings[0] for a in self._actions if a.option_strings and a.nargs == "+"]
        if lists and re.search(r"arguments are required: [^-]", message):
            message += (
                f": type it before {' and '.join(lists)}: an option of several words takes every "
                "word behind it"
            )
        super().error(message)
