import math
import random
from unittest import mock

import edits
import numpy as np
import pytest
import yaml
from downloads import download, lines, manifest
from hypothesis import given, settings
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pipeline.data.corpus_settings import (
    is_held_out_from_training,
    is_search_among_held_out,
    text_hash,
)
from pipeline.data.document_store import read_training_documents
from pipeline.data.packing import pack_corpus, unigram_nats
from pipeline.data.shards import Corpus
from pipeline.data.tokenizer import Tokenizer, sample_training_texts
from pipeline.planning import planner
from pipeline.runtime import atomic_files

LETTERS = "abcdefgh"


def words(seed, count=100):
    draw = random.Random(seed)
    return ["".join(draw.choices(LETTERS, k=draw.randrange(1, 12))) for _ in range(count)]


def split_of(text, share=0.3):
    hashed = text_hash(text)
    if not is_held_out_from_training(hashed, share):
        return "train"
    return "search" if is_search_among_held_out(hashed, share) else "validation"


def by_hand(texts, tokenizer, share=0.3):
    """The flat stream of each split."""
    streams = {"train": [], "validation": [], "search": []}
    for text in texts:
        streams[split_of(text, share)] += [*tokenizer.encode([text])[0].tolist(), tokenizer.eos]
    return streams


def own_validation(folder, train, validation):
    """A downloaded source of local files, some of them for validation."""
    for name, texts in (("train", train), ("validation", validation)):
        (folder / f"{name}.jsonl").write_bytes(lines(*({"text": text} for text in texts)))
    named = {"files": f"{folder}/train.jsonl", "validation_files": f"{folder}/validation.jsonl"}
    return download(folder / "data", {"kind": "local", **named}, "domain")


def test_a_sources_own_validation_text_is_the_validation_split(packed, tmp_path):
    train, validation = words(0), words(1)[:30]
    source = own_validation(tmp_path, train, validation)
    folder = packed(None)
    # But for a tenth of all hashes, which searches read.
    searched = [text for text in validation if text_hash(text) < 2**64 / 10]
    kept = [text for text in validation if text not in searched]
    assert searched
    for split, texts in (("train", train), ("validation", kept), ("search", searched)):
        hashes = Corpus.open(folder, split, verify=True).document_records()["hash"].tolist()
        assert hashes == [text_hash(text) for text in texts]
    # A tokenizer is trained on all of the one and none of the other.
    assert sorted(sample_training_texts(source, 10**6, 0.3)) == sorted(train)


@pytest.mark.parametrize("tokens", [None, 100])
def test_duplicates_of_a_sources_own_validation_text_leave_training(packed, tmp_path, tokens):
    every = [f"{a}{b}{c}" for a in LETTERS for b in LETTERS for c in LETTERS]
    # The last 150 of 300 documents are in both: of 4 tokens each, behind a limit of 100.
    own_validation(tmp_path, every[:300], every[150:300])
    folder = packed(None, hygiene={"drop_duplicates": True}, tokens=tokens)
    found = {
        split: Corpus.open(folder, split).document_records()["hash"].tolist()
        for split in ("train", "validation", "search")
    }
    assert found["train"] == [text_hash(text) for text in every[: 25 if tokens else 150]]
    held_out = sorted(found["validation"] + found["search"])
    assert held_out == sorted(map(text_hash, every[150:300]))
    dropped = 0 if tokens else 150
    assert manifest(folder)["hygiene"]["dropped"].get("duplicate", 0) == dropped


def test_validation_files_are_not_trained_on(tmp_path):
    for name in ("a", "b", "held-out/v"):
        edits.put(f"{name}.txt", f"the text of {name}")(tmp_path)
    (tmp_path / "linked.txt").symlink_to("held-out/v.txt")
    values = {"kind": "local", "files": f"{tmp_path}/**/*.txt"}
    values |= {"validation_files": f"{tmp_path}/held-out/*.txt"}
    folder = download(tmp_path / "out", values, "domain")
    texts = [text for _, text in read_training_documents(folder)]
    assert texts == ["the text of a", "the text of b"]
    assert manifest(folder)["validation"]["documents"] == 1
    assert [one["file"] for one in manifest(folder)["source_files"]] == ["a.txt", "b.txt"]
    # Beside them a single file is enough to train on.
    download(tmp_path / "out", values | {"files": f"{tmp_path}/a.txt"}, "single")
    with pytest.raises(InputError, match=r"validation_files names all of them, none is left"):
        download(tmp_path / "out", values | {"files": f"{tmp_path}/held-out/v.txt"}, "none")


def test_another_validation_text_is_another_revision(tmp_path):
    def revision(seed):
        return manifest(own_validation(tmp_path, words(0), words(seed)))["revision"]

    assert revision(1) == revision(1) != revision(2)


def test_the_card_says_what_the_manifest_does(packed):
    folder = packed(words(0))
    _, head, body = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    about = yaml.safe_load(head)
    assert (about["license"], about["license_name"]) == ("other", "CC0-1.0")
    assert about["size_categories"] == ["n<1K"]
    assert "skipped documents: 2 blank" in body
    for name, split in manifest(folder)["splits"].items():
        assert f"| {name} | {split['documents']:,} | {split['tokens']:,} | " in body
        assert f"{split['largest_share']:.1%} | {split['bytes']:,} |" in body


def test_the_manifest_counts_exactly(packed, letters):
    texts = words(0)
    facts = manifest(packed(texts))
    for total, expected in (
        ("documents", len(texts)),
        ("characters", sum(map(len, texts))),
        ("bytes", sum(map(len, texts))),
        ("tokens", sum(map(len, texts)) + len(texts)),
        ("unknown_tokens", 0),
    ):
        assert sum(split[total] for split in facts["splits"].values()) == expected
    tokenizer = Tokenizer(letters)
    assert facts["tokenizer"] == tokenizer.manifest_facts()
    assert facts["uniform_nats"] == math.log(tokenizer.vocabulary)
    expected = {"source": "domain", "revision": "by hand", "licence": "CC0-1.0"}
    expected |= {"skipped": {"blank": 2}, "dtype": "uint16", "floor_nats": None}
    assert expected.items() <= facts.items()


def test_characters_and_bytes_differ_beyond_ascii(packed):
    folder = packed(["ab\u0905" * 20] * 2 + words(0), unknown_share_limit=1)
    splits = manifest(folder)["splits"].values()
    # 40 letters of three bytes, each an unknown token.
    assert sum(split["bytes"] - split["characters"] for split in splits) == 80
    assert sum(split["unknown_tokens"] for split in splits) == 40


def test_the_fingerprint_is_that_of_the_tokens(packed):
    first, same, other = (
        Corpus.open(packed(words(seed), name=name), "train").fingerprint
        for seed, name in ((0, "a"), (0, "b"), (1, "c"))
    )
    assert first == same != other


@pytest.mark.parametrize(("beyond", "documents"), [(-1, 9), (0, 9), (1, 10)])
def test_training_stops_at_the_document_that_reaches_the_limit(packed, letters, beyond, documents):
    texts = words(0)
    sizes = [len(t) + 1 for t in texts if split_of(t) == "train"]
    folder = packed(texts, tokens=sum(sizes[:9]) + beyond)
    assert Corpus.open(folder, "train").document_records()["tokens"].tolist() == sizes[:documents]
    # Validation is the same whatever the limit.
    whole = by_hand(texts, Tokenizer(letters))["validation"]
    assert Corpus.open(folder, "validation").tokens == len(whole)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(
    texts=st.lists(st.text(LETTERS, min_size=1, max_size=9), min_size=30, max_size=60, unique=True),
    shard_tokens=st.integers(1, 80),
    batch=st.integers(1, 50),
)
def test_the_stream_is_that_of_the_documents(
    tmp_path_factory, letters, make_source, texts, shard_tokens, batch
):
    folder = tmp_path_factory.mktemp("property")
    values = {"validation_share": 0.5, "shard_tokens": shard_tokens}
    atomic_files.write_json(folder / "p.json", values)
    texts += [LETTERS * 3, LETTERS * 4, "a" * 30]
    with mock.patch("pipeline.data.document_store.GROUP_BYTES", batch):
        source = make_source(folder / "source", texts)
    pack_corpus(folder / "p.json", source, letters, folder / "out", workers=1)
    for split, stream in by_hand(texts, Tokenizer(letters), 0.5).items():
        corpus = Corpus.open(folder / "out", split, verify=True)
        assert corpus.read_tokens(0, corpus.tokens).tolist() == stream
        shards = [shard["tokens"] for shard in corpus.manifest["splits"][split]["shards"]]
        full, last = divmod(len(stream), shard_tokens)
        assert shards == [shard_tokens] * full + [last] * bool(last)
        own = [text for text in texts if split_of(text, 0.5) == split]
        documents = corpus.document_records()
        # One token a letter and the end; a letter is a byte.
        assert documents["tokens"].tolist() == [len(text) + 1 for text in own]
        assert documents["bytes"].tolist() == [len(text) for text in own]
        assert documents["hash"].tolist() == [text_hash(text) for text in own]
        # The list is written as NumPy writes it.
        np.save(folder / "again.npy", documents)
        written = (folder / "out" / f"{split}-documents.npy").read_bytes()
        assert written == (folder / "again.npy").read_bytes()


def test_unigram_nats_of_a_worked_example(packed, letters):
    # Training counts 3, 1, 0 with one added are 4/7, 2/7, 1/7; one validation token each.
    expected = -(math.log(4 / 7) + math.log(2 / 7) + math.log(1 / 7)) / 3
    assert unigram_nats(np.array([3, 1, 0]), np.array([1, 1, 1])) == pytest.approx(expected)
    folder, size = packed(words(0)), Tokenizer(letters).vocabulary
    train, validation = (
        np.bincount(corpus.read_tokens(0, corpus.tokens), minlength=size)
        for corpus in (Corpus.open(folder, split) for split in ("train", "validation"))
    )
    nats = manifest(folder)["unigram_nats"]
    assert nats == pytest.approx(unigram_nats(train, validation))
    assert math.log(8) < nats < math.log(size)


def test_the_floor_shares_the_entropy_out_over_tokens(packed):
    # Documents of 9 letters are 10 tokens: each bears 0.9 of a letter's entropy.
    texts = ["".join(random.Random(n).choices(LETTERS, k=9)) for n in range(60)]
    assert manifest(packed(texts, entropy=2.0))["floor_nats"] == pytest.approx(1.8)
    # Unknown tokens leave none.
    folder = packed([f"{t}\u0905" for t in texts], name="b", entropy=2.0, unknown_share_limit=1)
    assert manifest(folder)["floor_nats"] is None


def test_a_quarter_of_all_hashes_is_held_out_and_a_tenth_of_these_for_searches():
    # printf abc | sha256sum gives ba7816bf8f01cfea...
    assert text_hash("abc") == 0xBA7816BF8F01CFEA
    hashes = [int(share * 2**64) for share in (0.0, 0.0249, 0.0251, 0.2499, 0.25, 0.99)]
    held_out = [is_held_out_from_training(hashed, 0.25) for hashed in hashes]
    assert held_out == [True] * 4 + [False] * 2
    assert [is_search_among_held_out(hashed, 0.25) for hashed in hashes] == [True] * 2 + [False] * 4


WORDS = words(0)


@pytest.mark.parametrize(
    ("texts", "values", "message"),
    [
        ([f"{t}\u0905" for t in WORDS], {}, r"'domain': 1\d\.\d% of .* tokens are unknown"),
        (WORDS, {"validation_share": 1e-9}, "0 of 100 documents, 0 of .* tokens are for valid"),
        (WORDS, {"validation_share": 1 - 1e-9}, "0 of 100 documents, 0 of .* tokens are for train"),
        # A handful of tokens is no split.
        ([a + b for a in "ab" for b in "cdef"], {"validation_share": 0.5}, "of 24 tokens are for "),
        (WORDS, {"shards": 5}, "'shards' is unknown: did you mean 'shard_tokens'"),
    ],
)
def test_what_makes_no_corpus_is_named(packed, tmp_path, texts, values, message):
    with pytest.raises(InputError, match=message):
        packed(texts, **values)
    assert not [*tmp_path.glob("corpora/*")]


def test_a_full_disk_is_named_and_left_clean(tmp_path, small_disk, letters, make_source):
    disk = small_disk(80)
    source = make_source(tmp_path / "source", [LETTERS * 500] * 3 + words(0, 200))
    (tmp_path / "p.json").write_text('{"validation_share": 0.3}')
    make_source(tmp_path / "big", [f"{LETTERS * 500}{word}" for word in words(0, 40)])
    with pytest.raises(InputError, match=r"cannot be written.*No space left"):
        pack_corpus(tmp_path / "p.json", tmp_path / "big", letters, disk / "big")
    assert list(disk.iterdir()) == []
    # A small one fits.
    pack_corpus(tmp_path / "p.json", source, letters, disk / "source")


def texts_of(length, split):
    """Texts of letters that go to a split, by their hashes."""
    draw = random.Random(length)
    drawn = ("".join(draw.choices(LETTERS, k=length)) for _ in range(1200))
    return [text for text in drawn if split_of(text) == split]


SHORT, LONG = texts_of(9, "validation"), texts_of(99, "train")


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        # Texts have 9 and 99 letters, and each an end: 2,000 of 22,000 tokens; 1,990 of 3,990;
        # 2,000 of 4,000. One of 108 letters more is 109 of 2,109 tokens of validation.
        (
            SHORT[:200] + LONG[:200],
            ("200 documents (200 are enough)", "2,000 of 22,000 tokens (9.1%)"),
        ),
        (
            SHORT[:199] + LONG[:20],
            ("199 documents (too few: 200 are enough)", "1,990 of 3,990 tokens (49.9%)"),
        ),
        (SHORT[:200] + LONG[:20], None),
        (
            [*SHORT[:200], texts_of(108, "validation")[0], *LONG[:20]],
            (
                "201 documents (200 are enough), but the largest has 5.2% of their tokens (limit "
                "2%)",
                "2,109 of 4,109 tokens (51.3%)",
            ),
        ),
        (
            [*SHORT[:99], texts_of(108, "validation")[0], *LONG[:10]],
            (
                "100 documents (too few: 200 are enough), and the largest has 9.9% of their tokens "
                "(limit 2%)",
                "1,099 of 2,099 tokens (52.4%)",
            ),
        ),
    ],
)
def test_little_text_for_validation_is_told(packed, caplog, documents, told):
    warnings = manifest(packed(documents))["warnings"]
    assert [r.message for r in caplog.records if "validation" in r.message] == warnings
    if told is None:
        assert warnings == []
        return
    (warning,) = warnings
    count, tokens = told
    assert f"little text is for validation: {count}, {tokens}, so that losses" in warning
    assert ("are uncertain: split long documents into several records" in warning) == (
        "largest" in count
    )
    assert warning.endswith("or set a larger packing.validation_share (0.3)")


@pytest.mark.slow
def test_neither_packing_again_nor_the_number_of_threads_changes_a_byte(
    tmp_path, monkeypatch, letters, make_source
):
    # Some 60 batches.
    monkeypatch.setattr("pipeline.data.document_store.GROUP_BYTES", 100)
    source = make_source(tmp_path / "data" / "web", words(0, 1000))
    settings = {"validation_share": 0.3, "shard_tokens": 500, "tokens": 3000}
    atomic_files.write_json(tmp_path / "p.json", settings)

    def made(name, workers=1):
        out = tmp_path / name / "web"
        pack_corpus(tmp_path / "p.json", source, letters, out, workers=workers)
        assert [path.name for path in out.parent.iterdir()] == ["web"]
        return {path.name: path.read_bytes() for path in out.iterdir()}

    assert made("one") == made("one") == made("three", workers=3)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"kind": "huggingface", "bytes": 50_000_000}, 1),
        ({"kind": "huggingface", "bytes": 300_000_000}, 4),
        ({"kind": "huggingface", "bytes": 10**12}, 16),
        ({"kind": "local"}, 4),
        ({"kind": "python", "topic": "unicode", "documents": "1000 characters"}, 1),
        ({"kind": "synthetic", "documents": 100_000, "length": 2000}, 8),
    ],
)
def test_a_source_gets_the_processes_that_its_size_is_worth(source, expected):
    assert planner.packing_processes(source) == expected


def test_a_character_that_is_read_as_a_blank_is_counted(packed, caplog):
    texts = [f"{word} {word}" for word in words(0)]
    assert not [w for w in manifest(packed(texts))["warnings"] if "U+2581" in w]
    marked = [text.replace(" ", "\u2581") for text in texts[:7]]
    folder = packed([*marked, *texts[7:]], name="marked")
    (told,) = (w for w in manifest(folder)["warnings"] if "U+2581" in w)
    assert "domain 'marked': U+2581 (\u2581)" in told
    assert "stands 7 times in the text" in told
    assert told in [record.message for record in caplog.records]
