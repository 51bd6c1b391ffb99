"""A text file to documents: whole, by paragraphs, by lines or by a number of characters.

From chunks of bytes to bytes, since a document that is not UTF-8 may have to be left out by itself.
Memory holds a chunk and one document, of `LIMIT` bytes at most.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

LIMIT = 2**28
"""Bytes of a document, or of a line of JSON: both are held in memory, packing takes 45 times it."""

Refusal = Callable[[int | None], Exception]
"""What to raise of a document that is too long, by its number."""


def characters(how: str) -> int | None:
    """N of "N characters"; None of any other text."""
    found = re.fullmatch("([1-9][0-9]*) characters", how)
    return int(found[1]) if found else None


def problems(how: str) -> list[str]:
    """Why a file cannot be cut so; empty when it can."""
    size = characters(how)
    if size is None and how not in ("file", "paragraphs", "lines"):
        return [f"{how!r} is none of file, paragraphs, lines and, for example, 2000 characters"]
    return [f"{how!r}: at most {LIMIT // 4} characters"] if (size or 0) > LIMIT // 4 else []


def cut(chunks: Iterable[bytes], how: str, too_long: Refusal) -> Iterator[tuple[int | None, bytes]]:
    """The documents of a text file with their numbers.

    Args:
        chunks: The file's bytes; none is empty.
        how: "file": the file is one document, without a number. "paragraphs": lines between blank
            ones (nothing but blanks and tabs), numbered by their first line. "lines": each with
            its number. Both come without their last line end; LF, CRLF and CR end a line. "N
            characters": pieces numbered from 1 that make up the whole text, N characters long or
            ending behind the last blank or line break among those.
        too_long: Makes the error that a document of more than `LIMIT` bytes raises.
    """
    if (size := characters(how)) is not None:
        yield from enumerate(_pieces(chunks, size), start=1)
    elif how == "file":
        yield None, b"".join(joined(chunks, lambda chunk: [chunk], lambda _: too_long(None)))
    else:
        lines = enumerate(joined(_whole_ends(chunks), _ended, too_long), start=1)
        found = _paragraphs(lines, too_long) if how == "paragraphs" else lines
        yield from ((number, content.rstrip(b"\r\n")) for number, content in found)


def joined(
    chunks: Iterable[bytes], split: Callable[[bytes], list[bytes]], too_long: Refusal
) -> Iterator[bytes]:
    """What `split` makes of the chunks' concatenation; the last of each goes on in the next."""
    held: list[bytes] = []
    size, number = 0, 1
    for chunk in chunks:
        first, *others = split(chunk)
        held.append(first)
        size += len(first)
        for piece in others:
            if size > LIMIT:
                raise too_long(number)
            yield b"".join(held)
            held, size, number = [piece], len(piece), number + 1
        if size > LIMIT:
            raise too_long(number)
    if size:
        yield b"".join(held)


def _whole_ends(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks that part no CR from its LF."""
    held = b""
    for chunk in chunks:
        whole = held + chunk
        held = whole[-1:] if whole.endswith(b"\r") else b""
        if len(whole) > len(held):
            yield whole.removesuffix(held)
    if held:
        yield held


def _ended(chunk: bytes) -> list[bytes]:
    """Lines with their ends, and what is behind the last end."""
    lines = chunk.splitlines(keepends=True)
    return [*lines, b""] if lines[-1].endswith((b"\n", b"\r")) else lines


def _paragraphs(
    lines: Iterable[tuple[int, bytes]], too_long: Refusal
) -> Iterator[tuple[int, bytes]]:
    held, begun = bytearray(), 0
    for number, line in lines:
        if line.strip():
            begun = begun if held else number
            held += line
            if len(held) > LIMIT:
                raise too_long(begun)
        elif held:
            yield begun, bytes(held)
            held.clear()
    if held:
        yield begun, bytes(held)


def _pieces(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    # Bytes that are not UTF-8 pass as lone surrogates, a character each, and come out as they were.
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    held: list[str] = []
    count = 0
    for chunk in chunks:
        held.append(decoder.decode(chunk))
        count += len(held[-1])
        if count > size:
            text, start = "".join(held), 0
            while len(text) - start > size:
                limit = start + size
                blank = max(text.rfind(" ", start, limit), text.rfind("\n", start, limit))
                end = limit if blank < start else blank + 1
                yield text[start:end].encode(errors="surrogateescape")
                start = end
            held, count = [text[start:]], len(text) - start
    rest = "".join(held) + decoder.decode(b"", final=True)
    # An unfinished character at the end can make the rest longer than a piece.
    for start in range(0, len(rest), size):
        yield rest[start : start + size].encode(errors="surrogateescape")
