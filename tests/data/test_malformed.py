"""What can be wrong with text from elsewhere: a clear message or a counted loss, no other text."""

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from downloads import download, lines, manifest, parquet, read

from pike_mixing.errors import InputError
from pipeline.data import sources

GOOD = [{"text": "one", "id": "1"}, {"text": "two", "id": "2"}]


def zst(content):
    return pa.compress(content, codec="zstd", asbytes=True)


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
TWICE = pa.table([["one"], ["two"]], names=["text", "text"])

MISTAKES = {
    "truncated gz": ("a.jsonl.gz", gzip.compress(LARGE)[:-200], r"a\.jsonl\.gz cannot be read"),
    "gz with flipped bytes": ("a.jsonl.gz", without(gzip.compress(LARGE), 5000, 5001), "cannot be"),
    "gz with a wrong checksum": ("a.jsonl.gz", without(gzip.compress(LARGE), -6), "cannot be read"),
    "gz with rubbish behind": ("a.jsonl.gz", gzip.compress(LARGE) + b"rubbish" * 9, "cannot be"),
    "gz without its last byte": ("a.jsonl.gz", gzip.compress(LARGE)[:-1], "Truncated"),
    "zst without its last byte": ("a.jsonl.zst", zst(LARGE)[:-1], "Truncated"),
    "plain text named gz": ("a.jsonl.gz", LARGE, "cannot be read"),
    "plain text named parquet": ("a.parquet", LARGE, "cannot be read"),
    "truncated parquet": ("a.parquet", parquet(STRINGS)[:-20], "cannot be read"),
    "parquet named jsonl": ("a.jsonl", parquet(STRINGS), r"a\.jsonl is no UTF-8 text"),
    "zero bytes": ("a.jsonl", b"", "holds nothing"),
    "zero bytes, parquet": ("a.parquet", b"", "file size is 0 bytes"),
    "gz of nothing": ("a.jsonl.gz", gzip.compress(b""), "holds nothing"),
    "parquet without rows": ("a.parquet", parquet({"text": pa.array([], pa.string())}), "no docu"),
    "blanks alone": ("a.jsonl", lines({"text": " "}, {"text": ""}), "left out: 2 blank"),
    "invalid UTF-8": ("a.jsonl", b'{"text": "ab\xe9"}\n', r"a\.jsonl:1: .*utf-8"),
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
    "lone surrogate": ("a.jsonl", b'{"text": "\\ud800"}\n', r"a\.jsonl:1: .*surrogates"),
    "half a line of JSON": ("a.jsonl", lines(*GOOD)[:-9], r"a\.jsonl:2: malformed JSON"),
    "an array of records": (
        "a.json",
        json.dumps(GOOD).encode(),
        "no object: give each object a line",
    ),
    "a number as text": ("a.jsonl", lines({"text": 5}), r"a\.jsonl:1: 'text' is 5, not a text"),
    "wrong column, later": ("a.jsonl", lines(*GOOD, {"content": "a"}), r"a\.jsonl:3: no column"),
    "wrong column, parquet": ("a.parquet", parquet({"content": ["a"]}), "no column 'text'"),
    "numbers in parquet": (
        "a.parquet",
        parquet({"text": [1, 2]}),
        "cast from int64 .*name another `field`",
    ),
    "an unknown format": ("a.csv", b"text\none\n", "formats are told by suffix"),
}


def downloaded(folder, **values):
    """Texts of the files in `in`, and what was left out."""
    out = download(folder, {"kind": "local", "files": f"{folder}/in/**", **values})
    return read(out), manifest(out)["skipped"]


def write(folder, name, content):
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_page_on_data_says_how_many_kinds_are_tried():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    assert f"{len(MISTAKES)} kinds of files that cannot be read" in page
    assert f"{len(KEPT)} kinds that are only unusual" in page


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_and_leaves_nothing(tmp_path, mistake):
    name, content, message = MISTAKES[mistake]
    write(tmp_path, name, content)
    with pytest.raises(InputError, match=message):
        downloaded(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"in", "web.json"}


def test_a_changed_zst_is_told_by_its_checksum(tmp_path):
    """The zstd command writes one; without it a changed byte can be a changed letter."""
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(LARGE)
    write(tmp_path, "a.jsonl.zst", without(packed, 5000, 5001))
    with pytest.raises(InputError, match="cannot be read"):
        downloaded(tmp_path)


LONG = "wort " * 10_000_000
"""50 MB without a line break."""

KEPT = {
    "nulls and blanks": (
        {"a.jsonl": lines(GOOD[0], {"text": None}, {"text": " "}, GOOD[1])},
        ["one", "two"],
        {"null": 1, "blank": 1},
    ),
    "empty lines": ({"a.jsonl": b'\n{"text": "one"}\n\n'}, ["one"], {"blank": 2}),
    "escaped NUL": ({"a.jsonl": lines({"text": "a\0b"})}, ["a\0b"], {}),
    "Windows line ends": ({"a.jsonl": lines(*GOOD).replace(b"\n", b"\r\n")}, ["one", "two"], {}),
    "byte order mark": ({"a.jsonl": b"\xef\xbb\xbf" + lines(*GOOD)}, ["one", "two"], {}),
    "a very long line": ({"a.jsonl": lines({"text": LONG})}, [LONG], {}),
    "duplicate ids": ({"a.jsonl": lines(GOOD[0], GOOD[0])}, ["one", "one"], {}),
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
    "nulls in parquet": ({"a.parquet": parquet({"text": ["one", None]})}, ["one"], {"null": 1}),
    "blanks and umlauts in a name": (
        {"ein Ordner/ü ß.jsonl": lines(GOOD[0]), "ein Ordner/日本.txt": b"two"},
        ["one", "two"],
        {},
    ),
    "gz in several members": (
        {"a.jsonl.gz": gzip.compress(lines(GOOD[0])) + gzip.compress(lines(GOOD[1]))},
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


def test_links_pipes_devices_and_folders_give_no_document(tmp_path):
    path = write(tmp_path, "b/a.jsonl", lines(*GOOD))
    for name, target in (
        ("loop.jsonl", "loop.jsonl"),
        ("gone.jsonl", "nowhere.jsonl"),
        ("zero.txt", "/dev/zero"),
        # Folders within themselves give no document twice.
        ("up", ".."),
        ("also-up", ".."),
    ):
        path.with_name(name).symlink_to(target)
    os.mkfifo(path.with_name("pipe.txt"))
    path.with_name("folder.txt").mkdir()
    assert downloaded(tmp_path)[0] == ["one", "two"]
    with pytest.raises(InputError, match=r"no file matches .*loop\.jsonl"):
        downloaded(tmp_path, files=f"{tmp_path}/in/b/loop.jsonl")
    with pytest.raises(InputError, match=r"no file matches .*: name its files: .*/in/\*\*"):
        downloaded(tmp_path, files=f"{tmp_path}/in")


def test_of_many_unknown_files_three_are_named(tmp_path):
    for number in range(9):
        write(tmp_path, f"{number}.csv", b"text")
    with pytest.raises(InputError, match=r"/1\.csv, .*/2\.csv, \.\.\.: formats are told"):
        downloaded(tmp_path)


def test_a_file_that_is_written_to_meanwhile_is_named(tmp_path):
    path = write(tmp_path, "a.jsonl", lines(*GOOD))
    source = sources.parse({"kind": "local", "files": str(path)}, "sources.web")
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
