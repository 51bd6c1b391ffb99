import gzip
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pike_mixing.errors import InputError
from pipeline.data import sources


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Patterns are relative to the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(**values):
    """Documents and what was skipped."""
    skipped = Counter()
    source = sources.parse({"kind": "local", "files": "*", **values}, "sources.mine")
    return [tuple(document) for document in source.read(skipped)], dict(skipped)


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def compressed(content, suffix):
    if suffix == ".gz":
        return gzip.compress(content)
    return pa.compress(content, codec="zstd", asbytes=True)


def test_a_text_file_is_a_document(here):
    (here / "b.txt").write_text("second\n")
    (here / "a.txt").write_text("first\nline two")
    assert read() == ([("a.txt", "first\nline two"), ("b.txt", "second\n")], {})


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_line_of_json_is_a_document(here, suffix):
    content = lines({"text": "one", "id": "x"}, {"text": "two"}, {"text": "three", "id": 7})
    (here / f"a.jsonl{suffix}").write_bytes(compressed(content, suffix) if suffix else content)
    name = f"a.jsonl{suffix}"
    assert read()[0] == [("x", "one"), (f"{name}:2", "two"), ("7", "three")]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_streams_of_several_parts_are_read_whole(here, suffix):
    parts = compressed(lines({"text": "one"}), suffix) + compressed(lines({"text": "two"}), suffix)
    (here / f"a.jsonl{suffix}").write_bytes(parts)
    assert [text for _, text in read()[0]] == ["one", "two"]


@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_a_parquet_record_is_a_document(here, text):
    table = pa.table({"id": [5, 6, 7], "body": pa.array(["one", None, "two"]).cast(text)})
    pq.write_table(table, here / "a.parquet")
    assert read(field="body") == ([("5", "one"), ("7", "two")], {"null": 1})


def test_files_are_read_in_the_order_of_their_names(here):
    for name in ("b/2.txt", "a/3.txt", "a/b/1.txt"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(name)
    names = ["a/3.txt", "a/b/1.txt", "b/2.txt"]
    assert [name for name, _ in read(files="**/*.txt")[0]] == names
    # Patterns that overlap give a file once.
    assert [name for name, _ in read(files=["**/*.txt", "b/*"])[0]] == names


def test_long_lines_cross_the_chunks_that_are_read(here):
    texts = ["a" * 3_000_000, "b", "c" * 1_100_000]
    (here / "a.jsonl.gz").write_bytes(gzip.compress(lines(*({"text": t} for t in texts))))
    assert [text for _, text in read()[0]] == texts


def test_a_last_line_needs_no_line_break(here):
    (here / "a.jsonl").write_bytes(lines({"text": "one"}, {"text": "two"}).rstrip())
    assert [text for _, text in read()[0]] == ["one", "two"]


def test_blank_empty_and_null_documents_are_counted(here):
    (here / "a.jsonl").write_bytes(
        lines({"text": ""}, {"text": " \n"}, {"text": None}, {"text": "kept"}) + b"\n"
    )
    assert read() == ([("a.jsonl:4", "kept")], {"blank": 3, "null": 1})


def test_a_byte_order_mark_is_no_text(here):
    (here / "a.txt").write_bytes(b"\xef\xbb\xbftext")
    (here / "b.jsonl").write_bytes(b"\xef\xbb\xbf" + lines({"text": "line"}))
    assert [text for _, text in read()[0]] == ["text", "line"]


def test_the_revision_is_that_of_names_and_contents(here):
    def revision(files="data/*"):
        return sources.parse({"kind": "local", "files": files}, "s").facts("")["revision"]

    (here / "data").mkdir()
    (here / "data" / "a.txt").write_text("text")
    first = revision()
    # Where the folder lies does not matter.
    assert revision(str(here / "data" / "*")) == first
    (here / "data" / "a.txt").write_text("Text")
    second = revision()
    (here / "data" / "a.txt").rename(here / "data" / "b.txt")
    assert len({first, second, revision()}) == 3


def test_no_matching_file_is_an_error(here):
    (here / "a.txt").write_text("text")
    with pytest.raises(InputError, match=r"no file matches 'b\*'"):
        read(files=["*.txt", "b*"])
    with pytest.raises(InputError, match="files: name at least one"):
        read(files=[])


def test_unknown_formats_are_named(here):
    (here / "a.csv").write_text("text")
    with pytest.raises(InputError, match=r"a\.csv.*\.jsonl\.zst"):
        read()


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet"])
def test_an_empty_file_is_named(here, name):
    (here / name).touch()
    with pytest.raises(InputError, match=f"{name} is empty"):
        read()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_stream_of_nothing_is_named(here, suffix):
    (here / f"a.jsonl{suffix}").write_bytes(compressed(b"", suffix))
    with pytest.raises(InputError, match="unpacks to nothing"):
        read()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("cut", [1, 20, 2000])
def test_a_truncated_stream_is_named(here, suffix, cut):
    whole = compressed(lines(*({"text": f"line {n * n}"} for n in range(5000))), suffix)
    (here / f"a.jsonl{suffix}").write_bytes(whole[:-cut])
    with pytest.raises(InputError, match=rf"a\.jsonl\{suffix} cannot be read.*Truncated"):
        read()


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.parquet"])
def test_a_file_of_another_format_is_named(here, name):
    (here / name).write_text("this is neither compressed nor Parquet")
    with pytest.raises(InputError, match=f"{name} cannot be read"):
        read()


def write_invalid(here, kind):
    """A first document of one invalid byte between letters, a good second one."""
    broken = b"a\xffb"
    if kind == "txt":
        (here / "a.txt").write_bytes(broken)
        (here / "b.txt").write_text("good")
    elif kind == "parquet":
        column = pa.array([broken, b"good"]).view(pa.string())
        pq.write_table(pa.table({"text": column}), here / "a.parquet")
    else:
        (here / "a.jsonl").write_bytes(b'{"text": "a\xffb"}\n' + lines({"text": "good"}))


@pytest.mark.parametrize(
    ("kind", "place"), [("txt", "a.txt"), ("jsonl", "a.jsonl:1"), ("parquet", "a.parquet:1")]
)
def test_invalid_utf8_is_treated_by_policy(here, kind, place):
    write_invalid(here, kind)
    with pytest.raises(InputError, match=f"{place}: .* byte 0xff .*invalid_utf8"):
        read()
    kept, skipped = read(invalid_utf8="replace")
    assert [text for _, text in kept] == ["a\ufffdb", "good"]
    assert skipped == {"invalid UTF-8, replace": 1}
    kept, skipped = read(invalid_utf8="drop")
    assert [text for _, text in kept] == ["good"]
    assert skipped == {"invalid UTF-8, drop": 1}


def test_a_lone_surrogate_is_invalid_utf8(here):
    (here / "a.jsonl").write_text('{"text": "fine"}\n{"text": "a\\ud800b"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: .*surrogates.*invalid_utf8"):
        read()
    assert read(invalid_utf8="drop")[1] == {"invalid UTF-8, drop": 1}
    kept = read(invalid_utf8="replace")[0]
    assert kept[1][1].encode().decode() == "a\ufffd\ufffd\ufffdb"


@pytest.mark.parametrize("line", ["{", '{"text": "a" "b"}', "nothing", '{"n": ' + "1" * 5000 + "}"])
def test_malformed_json_is_named_with_its_line(here, line):
    (here / "a.jsonl").write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(InputError, match=r"a\.jsonl:2: malformed JSON"):
        read()


def test_a_line_that_is_no_object_is_named(here):
    (here / "a.jsonl").write_text('["text"]\n')
    with pytest.raises(InputError, match=r"a\.jsonl:1: .* is not a JSON object"):
        read()


def test_a_missing_column_is_named_with_those_there_are(here):
    (here / "a.jsonl").write_bytes(lines({"text": "one"}, {"content": "two", "n": 1}))
    with pytest.raises(InputError, match=r"a\.jsonl:2: no column 'text'; columns: 'content', 'n'"):
        read()
    (here / "a.jsonl").unlink()
    pq.write_table(pa.table({"content": ["a"], "n": [1]}), here / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: no column 'text'; columns: 'content', 'n'"):
        read()


def test_a_text_that_is_none_is_named(here):
    (here / "a.jsonl").write_bytes(lines({"text": "one"}, {"text": 5}))
    with pytest.raises(InputError, match=r"a\.jsonl:2: 'text' is 5, not a text"):
        read()
    (here / "a.jsonl").unlink()
    pq.write_table(pa.table({"text": [5]}), here / "a.parquet")
    with pytest.raises(InputError, match=r"column 'text' is of type int64, not text"):
        read()


def test_a_control_character_stays(here):
    (here / "a.jsonl").write_text('{"text": "a\\u0000b"}\n')
    assert read()[0] == [("a.jsonl:1", "a\0b")]
