"""Words of a command line as values; what is none ends in a message."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path


def place(text: str) -> Path:
    """A path: not the empty text of a variable that is not set, which would be this folder."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def number(least: float = -math.inf) -> Callable[[str], float]:
    """Reads a number from `least` on."""

    def read(text: str) -> float:
        try:
            # Python reads 1_0 as 10.
            number = math.nan if "_" in text else float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number")
        if number < least:
            raise argparse.ArgumentTypeError(f"{text} must be {least:g} or more")
        return number

    return read


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """Reads a whole number of these bounds."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        if int(text) > most:
            raise argparse.ArgumentTypeError(f"{text} is above {most:,}")
        return int(text)

    return read
