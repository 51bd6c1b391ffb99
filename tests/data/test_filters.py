import gzip

import pytest
from downloads import lines, manifest, parquet

from pike_mixing.errors import InputError
from pipeline.data import document_filters
from pipeline.data.corpus_settings import text_hash
from pipeline.data.document_filters import Decontamination, ngram_hashes
from pipeline.data.shards import SPLITS, Corpus

WORDS = [f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]
"""64 documents of two letters."""
PACKED = gzip.compress(b'{"q": "a"}' * 99, mtime=0)


@pytest.fixture
def cleaned(packed):
    """Packs texts; gives the manifest and the hashes of what was kept."""

    def cleaned(texts, **hygiene):
        corpus = packed(texts, entropy=2.0, hygiene=hygiene)
        splits = [Corpus.open(corpus, split) for split in SPLITS]
        found = [hashed for split in splits for hashed in split.document_records()["hash"].tolist()]
        return manifest(corpus), sorted(found)

    return cleaned


def hashes(texts):
    return sorted(map(text_hash, texts))


@pytest.mark.parametrize(
    ("texts", "chosen", "kept", "hygiene"),
    [
        # Nothing happens unless it is asked for.
        ([*WORDS, *WORDS], {}, [*WORDS, *WORDS], None),
        # Of duplicates the first is kept.
        ([*WORDS, *WORDS[:10], "aa", "aa"], {"drop_duplicates": True}, WORDS, {"duplicate": 12}),
        (
            [*WORDS, "abc", "  ab  ", "abcd", *(word * 2 for word in WORDS)],
            {"min_characters": 3},
            ["abc", "abcd", *(word * 2 for word in WORDS)],
            {"short": 65},
        ),
        # Text is normalised before all else.
        (
            [*WORDS, "abe\u0301", "ab\u00e9"],
            {"normalisation": "NFC", "drop_duplicates": True},
            [*WORDS, "ab\u00e9"],
            {"duplicate": 1},
        ),
    ],
)
def test_what_is_left_out_is_counted(cleaned, texts, chosen, kept, hygiene):
    facts, found = cleaned(texts, **chosen)
    assert found == hashes(kept)
    assert facts.get("hygiene") == (hygiene and {"dropped": hygiene})
    assert (facts["floor_nats"] is None) == bool(hygiene)


ITEM = "a b c d e f"


def test_documents_that_hold_an_item_are_left_out(cleaned, tmp_path):
    records = [
        {"question": ITEM, "choices": {"text": ["g h", "h"]}},
        {"question": "h g f e d", "id": 3},
        {"question": "a b"},
    ]
    (tmp_path / "items.jsonl").write_bytes(lines(*records))
    (tmp_path / "other.txt").write_text("b b b b b\n\nc c c c c c\n")
    clean = [*WORDS, "a b c d", "a b c d d e f", "h a b c d"]
    # Letter case and punctuation aside, five words in a row are shared.
    dirty = ["ha A, B. c d e ha", "b c d e f", "a b c d e f g", "c c c c c", "h g f e d a b c d e"]
    facts, kept = cleaned(
        [*clean, *dirty],
        decontaminate={"files": [f"{tmp_path}/items.jsonl", f"{tmp_path}/*.txt"], "ngram": 5},
    )
    assert kept == hashes(clean)
    assert facts["hygiene"]["dropped"] == {"contaminated": 5}
    assert any("items.jsonl" in name for name in facts["given"])


ITEMS = lines({"q": ITEM}, {"q": [f"{ITEM} g"]})


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".jsonl", ITEMS),
        (".jsonl.gz", gzip.compress(ITEMS, mtime=0)),
        (".parquet", parquet({"n": [1, 2], "q": [[ITEM], [f"{ITEM} g"]]})),
        (".txt", f"{ITEM}\n{ITEM} g\n".encode()),
    ],
)
def test_items_are_read_in_their_formats(tmp_path, suffix, content):
    path = tmp_path / f"items{suffix}"
    path.write_bytes(content)
    chosen = Decontamination((str(path),), 6)
    assert document_filters.has_evaluation_item(f"x {ITEM} x", chosen)
    assert document_filters.has_evaluation_item("b c d e f g", chosen)
    assert not document_filters.has_evaluation_item("a b c d e", chosen)


def test_scripts_without_blanks_are_cut_into_characters():
    assert len(ngram_hashes("\u4e2d\u6587\u6ca1\u6709\u7a7a\u683c", 3)) == 4
    # 2020 and four characters.
    assert len(ngram_hashes("2020\u5e74\u5317\u4eac\u5e02", 1)) == 5
    assert set(ngram_hashes("ein Satz, zwei", 2)) == set(ngram_hashes("Ein satz - ZWEI!", 2))
    assert len(ngram_hashes("zu kurz", 3)) == 0


@pytest.mark.parametrize(
    "text",
    [
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902",
        "\u0bae\u0bca\u0bb4\u0bbf \u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
        "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05e2\u05b7\u05dc",
        "\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0651 \u0645\u0650\u0646\u0652",
    ],
    ids=["Hindi", "Tamil", "Hebrew", "Arabic"],
)
def test_a_mark_is_part_of_its_word(text):
    assert len(ngram_hashes(text, 1)) == 2
    first, second = text.split()
    # Another vowel is another word.
    assert len({*ngram_hashes(f"{first} {first[0]}{first[2:]}", 1).tolist()}) == 2
    assert ngram_hashes(f"({second}, {first})", 1).tolist() == ngram_hashes(text, 1)[::-1].tolist()


def test_a_mark_behind_no_letter_is_no_word():
    # A heart and the mark that colours it; in Thai each character, marks too, is a word.
    assert len(ngram_hashes("\u2764\ufe0f a", 1)) == 1
    assert len(ngram_hashes("a \u0e01\u0e31\u0e1a", 1)) == 4


def test_items_that_cannot_be_read_or_found_are_refused(cleaned, tmp_path):
    for name, content, message in (
        ("a.jsonl", b"no json", r"a\.jsonl:1 cannot be read"),
        ("p.parquet", b"version https://git-lfs.github.com/spec/v1\n", r"Git LFS.*git lfs pull"),
        ("b.parquet", b"no parquet", r"b\.parquet cannot be read"),
        ("c.jsonl.gz", PACKED[:-9], r"c\.jsonl\.gz cannot be read"),
        ("e.jsonl", b'{"q": "a b c"}', r"no item in .* has a text of 13 words"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            cleaned(WORDS, decontaminate={"files": [str(tmp_path / name)]})
    with pytest.raises(InputError, match=r"files: no file matches 'none\*'"):
        cleaned(WORDS, decontaminate={"files": ["none*"]})
