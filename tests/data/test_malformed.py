"""What can be wrong with text from elsewhere: a clear message or a counted loss, no other text."""

import gzip
import io
import json
import lzma
import os
from collections import Counter

import pyarrow as pa
import pytest
from downloads import download, lines, manifest, parquet, read

from pike_mixing.errors import InputError
from pipeline.data import file_formats, sources

GOOD = [{"text": "one", "id": "1"}, {"text": "two", "id": "2"}]


def zst(content):
    return pa.compress(content, codec="zstd", asbytes=True)


def arrow(columns):
    sink, table = io.BytesIO(), pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def nested(depth):
    return b'{"text": "one", "n": ' + b"[" * depth + b"]" * depth + b"}\n"


def without(content, *places):
    """The bytes with some flipped."""
    changed = bytearray(content)
    for place in places:
        changed[place] ^= 0xFF
    return bytes(changed)


LARGE = lines(*({"text": os.urandom(40).hex()} for _ in range(300)))
STRINGS = {"text": ["one", "two"]}
BROKEN_ID = {"text": ["one"], "id": pa.array([b"\xff"]).view(pa.string())}
EMPTY = {"text": pa.array([], pa.string())}
TWICE = pa.table([["one"], ["two"]], names=["text", "text"])

TAR = b"name".ljust(257, b"x") + b"ustar" + bytes(250)
# A frame's header that asks for 2 GiB: one block of a repeated byte.
WIDE_WINDOW = bytes.fromhex("28b52ffd04a84b000002785634")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 9\n" % (b"0" * 64)
ANNEXED = b"/annex/objects/SHA256E-s9--%s.jsonl\n" % (b"0" * 64)

MISTAKES = {
    "gz with a wrong checksum": ("a.jsonl.gz", without(gzip.compress(LARGE), -6), "cannot be read"),
    "gz with rubbish behind": ("a.jsonl.gz", gzip.compress(LARGE) + b"rubbish" * 9, "cannot be"),
    "gz without its last byte": ("a.jsonl.gz", gzip.compress(LARGE)[:-1], "it is cut off: fetch"),
    "zst without its last byte": ("a.jsonl.zst", zst(LARGE)[:-1], "it is cut off"),
    "plain text named gz": ("a.jsonl.gz", LARGE, "cannot be read"),
    "plain text named parquet": ("a.parquet", LARGE, "cannot be read"),
    "parquet named jsonl": ("a.jsonl", parquet(STRINGS), r"is Parquet: end its name in \.parquet"),
    "gz named jsonl": ("a.jsonl", gzip.compress(LARGE), r"is gzip: end its name in \.gz"),
    "gz in gz": ("a.jsonl.gz", gzip.compress(gzip.compress(LARGE)), "holds gzip: pack it once"),
    "xz named gz": (
        "a.txt.gz",
        lzma.compress(LARGE),
        "is xz: unpack it: `xz -dc < .*a.txt.gz > NEW",
    ),
    "tar in gz": ("a.txt.gz", gzip.compress(TAR), "holds a tar archive: unpack it: `tar -xf"),
    "zst of a long window": ("a.jsonl.zst", WIDE_WINDOW, "unpack it: `zstd -dc --long=31 < "),
    "an archive": ("a.tar.gz", TAR, "formats are told by suffix.*`tar -xf .*a.tar.gz`"),
    "a page of HTML": (
        "a.jsonl",
        b"\n<!DOCTYPE html><p>403",
        "is a page of HTML.*fetch the file anew",
    ),
    "a page of XML, parquet": ("a.parquet", b"<?xml?><Error/>", "is a page of HTML or XML"),
    "a nested field as text": ("a.jsonl", lines({"text": {"en": "a"}}), "name what .*: 'text.en'"),
    "many columns": ("a.jsonl", lines({f"c{n}": 1 for n in range(999)}), r"'c19', \.\.\. \(999\)"),
    "zero width alone": ("a.txt", "\u200b\ufeff\u2060 \u3164\x01".encode(), "left out: 1 blank"),
    "UTF-16": ("a.jsonl", '{"text": "one"}\n'.encode("utf-16"), r"a\.jsonl is UTF-16.*iconv"),
    "UTF-32": ("a.jsonl", '{"text": "one"}\n'.encode("utf-32"), "UTF-32: .*iconv -f UTF-32"),
    "UTF-16 without its mark": (
        "a.jsonl",
        '{"text": "one"}\n'.encode("utf-16-le"),
        r"a\.jsonl is no UTF-8 text, with NUL among.*iconv -f UTF-16LE",
    ),
    "zst with rubbish behind": ("a.jsonl.zst", zst(LARGE) + b"rubbish" * 9, "cannot be read"),
    "CR alone ends lines of JSON": ("a.jsonl", lines(*GOOD).replace(b"\n", b"\r"), "malformed"),
    "JSON nested 990 deep": ("a.jsonl", nested(990), r"a\.jsonl:1: malformed JSON .*recursion"),
    "lone surrogate in an id": (
        "a.jsonl",
        b'{"text": "a", "id": "\\ud800"}\n',
        r"a\.jsonl:1: the id",
    ),
    "invalid UTF-8 in an id": (
        "a.parquet",
        parquet(BROKEN_ID),
        r"a\.parquet cannot be read: .*utf-8",
    ),
    "two columns of one name": ("a.parquet", parquet(TWICE), "several columns {'text'}"),
    "half a line of JSON": ("a.jsonl", lines(*GOOD)[:-9], r"a\.jsonl:2: malformed JSON"),
    "an array of records": (
        "a.json",
        json.dumps(GOOD).encode(),
        "no object: give each object a line",
    ),
    "a number as text": ("a.jsonl", lines({"text": 5}), r"a\.jsonl:1: 'text' is 5, not a text"),
    "wrong column, later": ("a.jsonl", lines(*GOOD, {"content": "a"}), r"a\.jsonl:3: no column"),
    "numbers in parquet": (
        "a.parquet",
        parquet({"text": [1, 2]}),
        "cast from int64 .*name another `field`",
    ),
    "an unknown format": ("a.csv", b"text\none\n", "formats are told by suffix"),
}


def downloaded(folder, **values):
    """Texts of the files in `in`, and what was left out."""
    (path, *more) = (folder / "in").rglob("*.*")
    # A text file alone would be one document.
    cut = {"documents": "paragraphs"} if ".txt" in path.name and not more else {}
    out = download(folder, {"kind": "local", "files": f"{folder}/in/**", **cut, **values})
    return read(out), manifest(out)["skipped"]


def write(folder, name, content):
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_and_leaves_nothing(tmp_path, mistake):
    name, content, message = MISTAKES[mistake]
    write(tmp_path, name, content)
    with pytest.raises(InputError, match=message):
        downloaded(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"in", "web.json"}


@pytest.mark.parametrize("suffix", file_formats.FORMATS)
def test_pointers_and_files_of_nothing_are_treated_alike_in_all_formats(tmp_path, suffix):
    good = write(tmp_path, "good.jsonl", lines(*GOOD))
    other = write(tmp_path, f"other{suffix}", b"")
    packed = {".gz": gzip.compress, ".zst": zst}.get(suffix[-4:].lstrip("jsonltx"), bytes)
    nothing = {".parquet": parquet(EMPTY), ".arrow": arrow(EMPTY)}.get(suffix, packed(b""))
    for content in (b"", nothing):
        other.write_bytes(content)
        assert downloaded(tmp_path) == (["one", "two"], {"empty file": 1})
        good.rename(tmp_path / "good")
        with pytest.raises(InputError, match=r"gives no documents \(left out: 1 empty file\)"):
            downloaded(tmp_path)
        (tmp_path / "good").rename(good)
    for content, how in ((POINTER, "`git lfs pull`"), (ANNEXED, "`git annex get .*other")):
        other.write_bytes(content)
        with pytest.raises(InputError, match=rf"other{suffix} is a pointer of .*{how}"):
            downloaded(tmp_path)
        with pytest.raises(InputError, match=f"is a pointer of .*{how}"):
            downloaded(tmp_path, files=str(other))
    assert downloaded(tmp_path, exclude=f"{tmp_path}/in/o*") == (["one", "two"], {})
    with pytest.raises(InputError, match="exclude: no file matches"):
        downloaded(tmp_path, exclude="nowhere/*")
    with pytest.raises(InputError, match="exclude names all of them"):
        downloaded(tmp_path, exclude=[str(good), str(other)])


LONG = "wort " * 10_000_000
"""50 MB without a line break."""

MARK = b"\xef\xbb\xbf"

KEPT = {
    "nulls and blanks": (
        {"a.jsonl": lines(GOOD[0], {"text": None}, {"text": " "}, GOOD[1])},
        ["one", "two"],
        {"null": 1, "blank": 1},
    ),
    "empty lines": ({"a.jsonl": b'\n{"text": "one"}\n\n'}, ["one"], {"blank": 2}),
    "escaped NUL": ({"a.jsonl": lines({"text": "a\0b"})}, ["a\0b"], {}),
    "Windows line ends": ({"a.jsonl": lines(*GOOD).replace(b"\n", b"\r\n")}, ["one", "two"], {}),
    "byte order marks of joined files": (
        {
            "a.jsonl": MARK + lines(GOOD[0]) + MARK + lines(GOOD[1]),
            "b.jsonl.gz": gzip.compress(MARK + lines(GOOD[0]))
            + gzip.compress(MARK + lines(GOOD[1])),
            "c.txt": MARK * 2 + b"one\r\n" + MARK + "in\ufeffside\n".encode() + MARK,
            "d.txt.zst": zst(MARK + b"x" * (2**20 - 5) + b"\n" + MARK + b"y"),
        },
        ["one", "two"] * 2 + ["one\r\nin\ufeffside\n", "x" * (2**20 - 5) + "\ny"],
        {},
    ),
    "zeros between and behind gzip streams": (
        {"a.jsonl.gz": b"".join(gzip.compress(lines(one)) + bytes(700) for one in GOOD)},
        ["one", "two"],
        {},
    ),
    "letters of a zero width": ({"a.txt": "\u200bन\u200d".encode()}, ["\u200bन\u200d"], {}),
    "a very long line": ({"a.jsonl": lines({"text": LONG})}, [LONG], {}),
    "further columns, differing": (
        {"a.jsonl": lines({"text": "one", "n": 1}, {"text": "two", "n": "x", "m": []})},
        ["one", "two"],
        {},
    ),
    "differing schemas of files": (
        {
            "a.parquet": parquet({"text": ["one"], "n": [1]}),
            "b.parquet": parquet({"n": ["x"], "text": pa.array(["two"], pa.large_string())}),
        },
        ["one", "two"],
        {},
    ),
    "bytes in parquet": ({"a.parquet": parquet({"text": [b"one"]})}, ["one"], {}),
    "blanks and umlauts in a name": (
        {"ein Ordner/ü ß.jsonl": lines(GOOD[0]), "ein Ordner/日本.txt": b"two"},
        ["one", "two"],
        {},
    ),
    "no line break at the end": ({"a.jsonl": lines(*GOOD)[:-1]}, ["one", "two"], {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", KEPT)
def test_what_is_only_unusual_is_read_and_what_is_left_out_is_counted(tmp_path, case):
    given, texts, skipped = KEPT[case]
    for name, content in given.items():
        write(tmp_path, name, content)
    assert downloaded(tmp_path) == (texts, skipped)


def test_a_folder_in_the_place_of_its_files_is_named_with_what_to_write(tmp_path):
    """What else is no file: tests/runtime/test_file_patterns.py."""
    write(tmp_path, "b/a.jsonl", lines(*GOOD))
    with pytest.raises(InputError, match=r"no file matches .*: name its files: .*/in/\*\*"):
        downloaded(tmp_path, files=f"{tmp_path}/in")


def test_a_file_that_is_written_to_meanwhile_is_named(tmp_path):
    path = write(tmp_path, "a.jsonl", lines(*GOOD))
    source = sources.parse_source({"kind": "local", "files": str(path)}, "sources.web")
    found = source.read(Counter(), [])
    assert next(found).text == "one"
    path.write_bytes(lines(*GOOD[:1]))
    with pytest.raises(InputError, match=r"a\.jsonl was changed while it was read: start again"):
        list(found)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path):
    write(tmp_path, "a.jsonl", lines(*GOOD)).chmod(0)
    with pytest.raises(InputError, match=r"a\.jsonl cannot be read: .*Permission"):
        downloaded(tmp_path)
