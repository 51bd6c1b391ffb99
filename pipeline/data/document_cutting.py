"""A text to documents: whole, by paragraphs, by lines or by a number of characters.

Memory holds one document, of `LIMIT` characters at most.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TextIO

from pike_mixing.errors import InputError

LIMIT = 2**28
"""Characters of a document, or of a line of JSON: both are held in memory, packing takes 45 times
it."""
LineOrPieceNumber = int

_SEEN = re.compile(
    r"[^\s\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""A character that shows: no blank or control, and none that Unicode calls default-ignorable."""


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: white space and characters without width alone, or nothing."""
    return not _SEEN.search(text)


def characters_per_document(cut: str) -> int | None:
    """N of "N characters"; None of any other text."""
    match = re.fullmatch("([1-9][0-9]*) characters", cut)
    return int(match[1]) if match else None


def cut_size_problem(cut: str) -> str | None:
    """Why documents cannot be cut into so many characters; None of any other text, too."""
    limit = LIMIT // 4
    too_long = (characters_per_document(cut) or 0) > limit
    return f"{cut!r}: at most {limit} characters" if too_long else None


def too_long_error(place: str) -> InputError:
    """What is said of a document, or of a line, of more than `LIMIT` characters."""
    return InputError(
        f"{place} is longer than {LIMIT:,} characters, the limit of a document: write "
        "`documents: 2000 characters` for text files, split other records, or leave it out"
    )


def cut_documents(
    stream: TextIO, cut: str, place: str
) -> Iterator[tuple[LineOrPieceNumber | None, str]]:
    """The documents of a text with their numbers.

    Args:
        stream: The text, opened with `newline=""`.
        cut: "file": the text is one document, without a number. "paragraphs": lines between blank
            ones (white space alone), numbered by their first line. "lines": each with
            its number. Both come without their last line end; LF, CRLF and CR end a line. "N
            characters": pieces numbered from 1 that make up the whole text, N characters long or
            ending behind the last blank or line break among those.
        place: Where the file lies, for messages.

    Raises:
        InputError: a document of more than `LIMIT` characters.
    """
    if (size := characters_per_document(cut)) is not None:
        yield from enumerate(_cut_at_blanks(stream, size), start=1)
    elif cut == "file":
        text = stream.read(LIMIT + 1)
        if len(text) > LIMIT:
            raise too_long_error(place)
        yield None, text
    else:
        result = read_numbered_lines(stream, place)
        if cut == "paragraphs":
            result = _join_paragraphs(result, place)
        yield from ((number, text.rstrip("\r\n")) for number, text in result)


def read_numbered_lines(stream: TextIO, place: str) -> Iterator[tuple[int, str]]:
    """The lines of a stream from 1 on, with their ends."""
    for number, line in enumerate(iter(lambda: stream.readline(LIMIT + 1), ""), start=1):
        if len(line) > LIMIT:
            raise too_long_error(f"{place}:{number}")
        yield number, line


def _join_paragraphs(lines: Iterable[tuple[int, str]], place: str) -> Iterator[tuple[int, str]]:
    waiting: list[str] = []
    begun = size = 0
    for number, line in lines:
        if line.strip():
            begun = begun if waiting else number
            waiting.append(line)
            size += len(line)
            if size > LIMIT:
                raise too_long_error(f"{place}:{begun}")
        elif waiting:
            yield begun, "".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield begun, "".join(waiting)


def _cut_at_blanks(stream: TextIO, most_characters: int) -> Iterator[str]:
    waiting = stream.read(most_characters + 1)
    while len(waiting) > most_characters:
        blank = max(waiting.rfind(" ", 0, most_characters), waiting.rfind("\n", 0, most_characters))
        end = most_characters if blank < 0 else blank + 1
        yield waiting[:end]
        waiting = waiting[end:] + stream.read(end)
    if waiting:
        yield waiting
