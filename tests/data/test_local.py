"""What local files become; `test_malformed` has those that cannot be read or are only unusual."""

import gzip
import re
from collections import Counter

import edits
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from downloads import lines, parquet
from repository import ROOT
from test_malformed import arrow, zst

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
    source = sources.parse_source({"kind": "local", "files": "*", **values}, "sources.mine")
    return [tuple(document) for document in source.read(skipped, [])], dict(skipped)


@pytest.mark.parametrize(("suffix", "packed"), [("", bytes), (".gz", gzip.compress), (".zst", zst)])
def test_a_line_of_json_is_a_document(here, suffix, packed):
    first = lines({"text": "one", "id": "x"}, {"text": "two"})
    # Streams of several parts are read whole.
    parts = packed(first) + packed(lines({"text": "three", "id": 7}))
    (here / f"a.jsonl{suffix}").write_bytes(parts)
    assert read()[0] == [("x", "one"), (f"a.jsonl{suffix}:2", "two"), ("7", "three")]


@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_a_parquet_record_is_a_document(here, text):
    table = pa.table({"id": [5, 6, 7], "body": pa.array(["one", None, "two"]).cast(text)})
    pq.write_table(table, here / "a.parquet")
    assert read(field="body") == ([("5", "one"), ("7", "two")], {"null": 1})


NESTED = [
    {"content": {"text": "one", "a.b": {"c": "x"}}, "id": 1},
    {"content": None, "id": 2},
    {"content": {"text": None, "a.b": None}, "id": 3},
    {"content": {"text": "two", "a.b": {"c": "y"}}, "id": 4},
]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow"])
def test_a_field_may_lie_within_another(here, suffix):
    table = pa.Table.from_pylist(NESTED)
    content = {"jsonl": lines(*NESTED), "parquet": parquet(table), "arrow": arrow(table)}
    (here / f"a.{suffix}").write_bytes(content[suffix])
    assert read(field="content.text") == ([("1", "one"), ("4", "two")], {"null": 2})
    # A name with a dot in it is a name, too.
    assert read(field="content.a.b.c") == ([("1", "x"), ("4", "y")], {"null": 2})
    for field in ("content.title", "id.text", "content.text.en", ".", "content."):
        with pytest.raises(InputError, match=r"no column .*columns: 'content\.text'.*name one in"):
            read(field=field)


@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_an_arrow_record_is_a_document(here, new):
    table = pa.table({"id": [5, 6, 7], "body": ["one", None, "two"], "more": [[1], [2], [3]]})
    with new(here / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    assert read(field="body") == ([("5", "one"), ("7", "two")], {"null": 1})
    (here / "a.arrow").write_bytes((here / "a.arrow").read_bytes()[:-300])
    with pytest.raises(InputError, match=r"a\.arrow cannot be read"):
        read(field="body")


def test_a_data_set_that_was_saved_is_its_splits(here):
    datasets = pytest.importorskip("datasets")
    texts = {"train": [f"text {n}" for n in range(6)], "test": ["held out"]}
    splits = {name: datasets.Dataset.from_dict({"text": text}) for name, text in texts.items()}
    saved = datasets.DatasetDict(splits | {"train": splits["train"].select([5, 0, 1, 2, 3, 4])})
    saved.save_to_disk("saved", num_shards={"train": 2, "test": 1})
    # A folder that is used keeps caches beside its data.
    datasets.load_from_disk("saved")["train"].map(lambda row: {"text": row["text"] + " again"})
    assert list((here / "saved" / "train").glob("cache-*.arrow"))
    found, _ = read(files="saved/train/*.arrow")
    assert [text for _, text in found] == [f"text {n}" for n in (5, 0, 1, 2, 3, 4)]
    assert [text for _, text in read(files="saved/test/*.arrow")[0]] == ["held out"]
    with pytest.raises(InputError, match=r"saved/test/\*\.arrow or saved/train/\*\.arrow"):
        read(files="saved")
    (here / "saved" / "train" / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(InputError, match=r"lists data-00001-of-00002\.arrow, which is missing"):
        read(files="saved/train/*.arrow")


def test_files_are_read_in_the_order_of_their_names(here):
    for name in ("b/2.txt", "a/3.txt", "a/b/1.txt"):
        edits.put(name, name)(here)
    names = ["a/3.txt", "a/b/1.txt", "b/2.txt"]
    # Patterns that overlap give a file once.
    for files in ("**/*.txt", ["**/*.txt", "b/*"]):
        assert [name for name, _ in read(files=files)[0]] == names
    with pytest.raises(InputError, match=r"no file matches 'c\*'"):
        read(files=["**", "c*"])


def test_a_limit_takes_the_same_share_of_each_file(here):
    def first(limit, files):
        found, skipped = read(bytes=limit, files=files, documents="lines")
        return [text for _, text in found], skipped

    for name in "abc":
        (here / f"{name}.txt").write_text("\n" + "".join(f"{name}{n:08d}\n" for n in range(20)))
    # Nine bytes a document: two of each file reach 54 bytes. Its blank line is counted once.
    pairs = [f"{name}{n:08d}" for name in "abc" for n in (0, 1)]
    assert first(54, "*.txt") == (pairs, {"blank": 3})
    # One more is of the first file, as its share is reached in the middle of a document.
    assert first(55, "*.txt")[0] == sorted([*pairs, "a00000002"])
    # One file gives its first documents, and a limit above all gives all.
    assert first(54, "a.txt")[0] == [f"a{n:08d}" for n in range(6)]
    assert len(first(541, "*.txt")[0]) == 60
    # A packed file is small and gives little at first; the others are then read further, from
    # where they stopped.
    everything = first(10_000, "*.txt")[0]
    (here / "b.txt.gz").write_bytes(gzip.compress((here / "b.txt").read_bytes()))
    for limit in (100, 300, 500, 540, 541):
        found, skipped = first(limit, ["a.txt", "b.txt.gz", "c.txt"])
        assert sorted(found) == sorted({*found} & {*everything})
        assert len(found) == min(-(-limit // 9), 60)
        assert skipped == {"blank": 3}
        for name in "abc":
            taken = [text for text in found if text[0] == name]
            assert taken == [f"{name}{n:08d}" for n in range(len(taken))]


def test_a_limit_takes_whole_files_from_all_over_a_folder(here):
    for n in range(100):
        (here / f"{n:02d}.txt").write_text(f"{n:09d}\n")
    (here / "99a.txt").write_text("")
    found, skipped = read(bytes=100)
    assert [name for name, _ in found] == [f"{n}0.txt" for n in range(10)]
    assert skipped == {}


def test_the_template_limits_what_it_takes_of_your_files():
    text = (ROOT / "config" / "config.yaml").read_text(encoding="utf-8")
    given = re.findall(r"^  # (\w+: \{kind: local.*)$", text, re.MULTILINE)
    found = [*map(yaml.safe_load, given)]
    assert len(found) == 4
    for ((name, values),) in (one.items() for one in found):
        # What is taken is copied, packed and held out in part: of a corpus for pretraining, hours.
        assert sources.parse_source(values, name).bytes == 30_000_000


def test_the_revision_is_that_of_names_and_contents(here):
    def revision(files="data/*"):
        return sources.parse_source({"kind": "local", "files": files}, "s").revision_facts("")[
            "revision"
        ]

    (here / "data").mkdir()
    (here / "data" / "a.txt").write_text("text")
    first = revision()
    # Where the folder lies does not matter.
    assert revision(str(here / "data" / "*")) == first
    (here / "data" / "a.txt").write_text("Text")
    second = revision()
    (here / "data" / "a.txt").rename(here / "data" / "b.txt")
    assert len({first, second, revision()}) == 3


INVALID = {
    "a.txt: .* byte 0xff": {"a.txt": b"a\xffb", "b.txt": b"good"},
    "a.jsonl:1: .* byte 0xff": {"a.jsonl": b'{"text": "a\xffb"}\n{"text": "good"}\n'},
    "a.parquet:1: .* byte 0xff": {
        "a.parquet": parquet({"text": pa.array([b"a\xffb", b"good"]).view(pa.string())})
    },
    # JSON can escape what UTF-8 cannot hold: a lone surrogate.
    "a.jsonl:1: .*surrogates": {"a.jsonl": b'{"text": "a\\ud800b"}\n{"text": "good"}\n'},
}


@pytest.mark.parametrize("problem", INVALID)
def test_invalid_utf8_is_treated_by_policy(here, problem):
    for name, content in INVALID[problem].items():
        (here / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{problem}.*invalid_utf8"):
        read()
    kept, skipped = read(invalid_utf8="replace")
    assert [text for _, text in kept] == ["a\ufffdb", "good"]
    assert skipped == {"invalid UTF-8, replace": 1}
    kept, skipped = read(invalid_utf8="drop")
    assert [text for _, text in kept] == ["good"]
    assert skipped == {"invalid UTF-8, drop": 1}
