"""Texts that are cut into documents: by hand, and against the text as a whole."""

import gzip
import io
import json
import tracemalloc

import edits
import pytest
from downloads import download, lines, manifest
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pipeline.data import document_cutting, packing, sources, tokenizer
from pipeline.data import document_store as store


def opened(content):
    """The bytes as a file of text, read in small pieces."""
    stream = io.TextIOWrapper(io.BytesIO(content), "utf-8", "surrogateescape", newline="")
    stream._CHUNK_SIZE = 3
    return stream


def cut(content, how):
    """Documents of a file of these bytes, as bytes."""
    found = document_cutting.cut_documents(opened(content), how, "a.txt")
    return [(number, text.encode(errors="surrogateescape")) for number, text in found]


@pytest.mark.parametrize(
    ("text", "how", "documents"),
    [
        # Set off by blank lines, with the number of their first line.
        (
            b"\none\n two \n\n \t\nthree\r\nfour\r\n\r\n\r\nfive",
            "paragraphs",
            [(2, b"one\n two "), (6, b"three\r\nfour"), (10, b"five")],
        ),
        *(
            (
                end.join([b"one", b"", b" two "]) + last,
                "lines",
                [(1, b"one"), (2, b""), (3, b" two ")],
            )
            for end in (b"\n", b"\r\n", b"\r")
            for last in (b"", end)
        ),
        # Behind a blank where there is one.
        (
            b"one two three fourteen",
            "8 characters",
            [(1, b"one two "), (2, b"three "), (3, b"fourteen")],
        ),
        (
            "äöü\nß".encode(),
            "2 characters",
            [(1, "äö".encode()), (2, "ü\n".encode()), (3, "ß".encode())],
        ),
        (b"one\n\ntwo\n", "file", [(None, b"one\n\ntwo\n")]),
    ],
)
def test_each_way_to_cut_by_hand(text, how, documents):
    assert cut(text, how) == documents


TEXTS = st.text(alphabet="a é\u0905\U0001f600\n\r\t", max_size=40)


@given(content=st.binary(max_size=30), size=st.integers(1, 12))
def test_pieces_of_any_bytes_make_up_the_bytes(content, size):
    pieces = [piece for _, piece in cut(content, f"{size} characters")]
    assert b"".join(pieces) == content
    assert all(0 < len(piece.decode(errors="surrogateescape")) <= size for piece in pieces)


@given(text=TEXTS)
def test_paragraphs_hold_every_line_that_is_not_blank(text):
    content = text.encode()
    lines = [line for _, line in cut(content, "lines") if line.strip()]
    paragraphs = [paragraph for _, paragraph in cut(content, "paragraphs")]
    assert [line for part in paragraphs for line in part.splitlines()] == lines
    assert all(paragraph in content for paragraph in paragraphs)


def test_what_is_no_way_to_cut_is_named():
    def told(how):
        with pytest.raises(InputError) as caught:
            sources.parse_source({"kind": "local", "files": "*", "documents": how}, "sources.mine")
        return str(caught.value)

    for how in ("file ", "paragraph", "0 characters", "-1 characters", "2000", "9e3 characters"):
        assert f"sources.mine.documents: {how!r} is not file, paragraphs, lines or" in told(how)
    assert told("100000000 characters").endswith("at most 67108864 characters")


def downloaded(folder, files, **values):
    """Documents of a source of these files, and what was left out."""
    for name, content in files.items():
        edits.put(name, content)(folder / "in")
    out = download(folder, {"kind": "local", "files": f"{folder}/in/*", **values}, "mine")
    return dict(store.read_training_documents(out)), manifest(out)["skipped"]


BROKEN = {"a.txt": b"one\n\ntw\xffo\n\nthree"}
LONG = {"a.txt": b"short\n" + b"long " * 300, "b.txt": b"short"}


@pytest.mark.parametrize(
    ("files", "values", "documents", "skipped"),
    [
        (
            {"a.txt.gz": gzip.compress("\ufeffeins\nzwei\n\n\ndrei\n".encode())},
            {"documents": "paragraphs"},
            {"a.txt.gz:1": "eins\nzwei", "a.txt.gz:5": "drei"},
            {},
        ),
        # Blank lines are counted where lines are documents.
        (
            {"a.txt": b"one\n\n  \ntwo\n"},
            {"documents": "lines"},
            {"a.txt:1": "one", "a.txt:4": "two"},
            {"blank": 2},
        ),
        # A record is cut as a text file is; one without an id is named by its line.
        (
            {"a.txt": b"one two", "b.jsonl": lines({"text": "ab cd", "id": 7}, {"text": "e"})},
            {"documents": "4 characters"},
            {"a.txt:1": "one ", "a.txt:2": "two", "7:1": "ab ", "7:2": "cd", "b.jsonl:2:1": "e"},
            {},
        ),
    ],
)
def test_files_become_documents(tmp_path, files, values, documents, skipped):
    assert downloaded(tmp_path, files, **values) == (documents, skipped)


@pytest.mark.parametrize(
    ("files", "values", "message"),
    [
        (BROKEN, {"documents": "paragraphs"}, r"a\.txt:3: .*0xff.*invalid_utf8"),
        ({"a.txt": b"one\n\ntwo"}, {}, r"only file.*write `documents: paragraphs` \(or lines, or"),
        (LONG, {}, r"a\.txt is longer than 1,000 characters.*documents: 2000"),
        (LONG, {"documents": "lines"}, r"a\.txt:2 is longer .*documents: 2000 characters`"),
        ({"a.txt": b"one\n\n" + b"row\n" * 300}, {"documents": "paragraphs"}, r"a\.txt:3 is lon"),
        (
            {"c.jsonl": lines({"text": "short"}, {"text": "x" * 1000})},
            {},
            r"c\.jsonl:2 is longer .*split other records",
        ),
    ],
)
def test_files_that_documents_does_not_fit_are_named(tmp_path, monkeypatch, files, values, message):
    monkeypatch.setattr(document_cutting, "LIMIT", 1000)
    with pytest.raises(InputError, match=message):
        downloaded(tmp_path, files, **values)


def test_too_few_text_files_need_the_setting_too(tmp_path):
    downloaded(tmp_path, {"a.txt": b"one two three four five", "b.txt": b"seven eight nine ten"})
    settings, model = tmp_path / "settings.json", tmp_path / "letters.model"
    letters = {"kind": "train", "model": "char", "vocabulary": 40, "characters": 100}
    message = r"each text file is one document: write `documents: paragraphs`.*\(sources\.mine\)"
    settings.write_text(json.dumps({**letters, "validation_share": 1 - 1e-9}))
    with pytest.raises(InputError, match=f"no training text.*{message}"):
        tokenizer.build_tokenizer(settings, [tmp_path / "mine"], model)
    settings.write_text(json.dumps({**letters, "validation_share": 0}))
    tokenizer.build_tokenizer(settings, [tmp_path / "mine"], model)
    settings.write_text(json.dumps({"validation_share": 1e-9}))
    with pytest.raises(
        InputError, match=f"0 of 2 documents.* for validation: {message}, or change"
    ):
        packing.pack_corpus(settings, tmp_path / "mine", model, tmp_path / "corpus" / "mine")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["paragraphs", "lines", "1000 characters"])
def test_memory_does_not_grow_with_the_file(tmp_path, how):
    def peak(megabytes):
        block = b"words of a line that is not long\n" * 30 + b"\n"
        path = tmp_path / "a.txt"
        path.write_bytes(block * (megabytes * 2**20 // len(block)))
        tracemalloc.start()
        with path.open(newline="") as stream:
            assert (
                sum(1 for _ in document_cutting.cut_documents(stream, how, "a.txt"))
                > 900 * megabytes
            )
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return held

    assert peak(8) < 1.1 * peak(2)
