"""What a file is by its first bytes, where its name says something else, and what to do."""

import re
import shlex
from pathlib import Path

from pike_mixing.errors import InputError

HEAD = 512
"""Bytes that tell a file's kind: a tar archive is known by its 257th and those behind it."""

_PAGE = re.compile(rb"\s*<(!doctype|html|head|\?xml|error)", re.IGNORECASE)
_RENAMED = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"PAR1": ("Parquet", ".parquet"),
    b"ARROW1": ("Arrow", ".arrow"),
}
"""Formats that are read under another suffix."""
_UNREADABLE = {
    b"version https://git-lfs.github.com/": (
        "a pointer of Git LFS, not the file itself",
        "run `git lfs pull` in the clone that it lies in",
    ),
    b"/annex/objects/": (
        "a pointer of git-annex, not the file itself",
        "run `git annex get {path}`",
    ),
    b"BZh": ("bzip2", "unpack it: `bzip2 -dc < {path} > NEW`"),
    b"\xfd7zXZ\0": ("xz", "unpack it: `xz -dc < {path} > NEW`"),
    b"\x04\x22\x4d\x18": ("lz4", "unpack it: `lz4 -dc < {path} > NEW`"),
    b"\x1f\x9d": ("what `compress` writes", "unpack it: `gzip -dc < {path} > NEW`"),
    b"PK\x03\x04": ("a zip archive", "unpack it: `unzip {path}`"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it: `7z x {path}`"),
    b"Rar!\x1a": ("a rar archive", "unpack it: `unrar x {path}`"),
    b"PARE": ("encrypted Parquet", "decrypt it"),
    b"%PDF-": ("PDF", "take its text: `pdftotext {path} NEW.txt`"),
    b"SQLite format 3\0": ("a SQLite database", "export its table as JSON lines"),
    b"\x89HDF": ("HDF5", "convert it to Parquet"),
    b"ORC": ("ORC", "convert it to Parquet"),
    b"Obj\x01": ("Avro", "convert it to Parquet"),
}
"""What is not read, and what to do with it."""


def wrong_kind_and_remedy_template(
    head: bytes, *, name: str, is_packed: bool = False
) -> tuple[str, str] | None:
    """What a file is whose first `HEAD` bytes are not of what its name says, and what to do.

    None of all else. `is_packed`: the bytes are of what the file packs.
    """
    for begin, (kind, suffix) in _RENAMED.items():
        if _starts_with_magic_not_text(head, begin) and (
            is_packed or not name.lower().endswith(suffix)
        ):
            remedy = (
                "pack it once, not within another" if is_packed else f"end its name in {suffix}"
            )
            return kind, remedy
    for begin, told in _UNREADABLE.items():
        if _starts_with_magic_not_text(head, begin):
            return told
    if head[257:262] == b"ustar":
        return "a tar archive", "unpack it: `tar -xf {path}`"
    if _PAGE.match(head) and ".txt" not in name.lower():
        return (
            "a page of HTML or XML, such as a server answers with an error",
            "look into it and fetch the file anew",
        )
    return None


def _starts_with_magic_not_text(head: bytes, magic: bytes) -> bool:
    """Whether bytes begin so, and are none of a text, which may begin with the same letters."""
    return head.startswith(magic) and (not magic.isalnum() or bool(re.search(rb"[\0-\x08]", head)))


def refuse_content_unlike_suffix(path: Path, place: str | None = None) -> None:
    """Refuses a file whose first bytes are not of what its name says; messages call it `place`."""
    with path.open("rb") as file:
        refuse_wrong_first_bytes(file.read(HEAD), path, place)


def refuse_wrong_first_bytes(
    head: bytes, path: Path, place: str | None = None, *, is_packed: bool = False
) -> None:
    """The same of bytes that were read from the file, or `is_packed` what it packs."""
    if told := wrong_kind_and_remedy_template(head, name=path.name, is_packed=is_packed):
        kind, remedy = told
        how = remedy.format(path=shlex.quote(str(path)))
        raise InputError(f"{place or path} {'holds' if is_packed else 'is'} {kind}: {how}")


_TO_PARQUET = (
    'convert it: `python -c "import duckdb; '
    "duckdb.read_csv('{path}').to_parquet('{path}.parquet')\"`"
)
_UNREAD = {
    ".tar": "`tar -xf {path}`",
    ".tar.gz": "`tar -xf {path}`",
    ".tar.zst": "`tar -xf {path}`",
    ".tgz": "`tar -xf {path}`",
    ".zip": "`unzip {path}`",
    ".7z": "`7z x {path}`",
    ".rar": "`unrar x {path}`",
    ".bz2": "`bunzip2 {path}`",
    ".xz": "`unxz {path}`",
    ".lz4": "`lz4 -d {path}`",
    ".parquet.gz": "`gunzip {path}`",
    ".parquet.zst": "`unzstd {path}`",
    ".ndjson": "end its name in .jsonl",
    ".jl": "end its name in .jsonl",
    ".feather": "end its name in .arrow",
    ".md": "end its name in .txt",
    ".csv": _TO_PARQUET,
    ".tsv": _TO_PARQUET,
}
"""What makes a file that is read of one whose suffix says that it is not."""


def remedy_for_suffix_or_default(path: str) -> str:
    """How a file of any suffix that is not read becomes one that is."""
    known = (how for suffix, how in _UNREAD.items() if path.lower().endswith(suffix))
    return next(known, "give it the suffix of its format, or name it in `exclude`").format(
        path=path
    )
