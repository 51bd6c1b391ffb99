"""The parser of both command lines."""

import argparse
from typing import Any


class Parser(argparse.ArgumentParser):
    """A parser whose lists grow: `--models X --models Y` is `--models X Y`.

    Of an option that is given twice, argparse keeps the last, without a word.
    """

    def add_argument(self, *names: Any, **how: Any) -> argparse.Action:
        """Adds an argument, as argparse does."""
        # A default that is no empty list would grow, too.
        if names[0][0] == "-" and how.get("nargs") in ("+", "*") and not how.get("default"):
            how = {"action": "extend", **how}
        return super().add_argument(*names, **how)
