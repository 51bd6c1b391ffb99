"""Which symbols a synthetic language can have; a plan, which waits for no library, asks too."""

import unicodedata

TABLE_SYMBOLS = 2**24
"""Largest number of (context, symbol) pairs of a language: its tables then take 128 MiB."""


def problems(order: int, symbols: int, successors: int, alphabet: int) -> list[str]:
    """Reasons why a language has no such symbols, each with the setting at fault.

    Args:
        order: How many symbols the next one depends on: 0, 1 or 2.
        symbols: Size of the alphabet.
        successors: Equally likely next symbols of each context.
        alphabet: Code point of the first symbol.
    """
    if symbols < 2:
        return ["symbols: must be at least 2"]
    if not 1 <= successors <= symbols:
        return [f"successors: must lie between 1 and symbols ({symbols})"]
    if symbols ** (order + 1) > TABLE_SYMBOLS:
        return [f"symbols: {symbols} are too many for order {order}"]
    if not _plain(alphabet, symbols):
        return [
            f"alphabet: of the {symbols} code points from {alphabet} on some are blank, unassigned "
            "or changed by Unicode normalisation: 19968 has 20,000 good ones"
        ]
    return []


def _plain(first: int, count: int) -> bool:
    """Whether each character stands for itself in every tokenizer: letters that NFKC keeps."""
    if not 0 < first <= first + count <= 0x110000:
        return False
    return (
        all(
            unicodedata.category(c)[0] in "LNS" and unicodedata.normalize("NFKC", c) == c
            for c in map(chr, range(first, first + count))
            if c != "\u2581"
        )
        and not first <= 0x2581 < first + count
    )
