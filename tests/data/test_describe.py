import csv
import io
import itertools
import json
import math

import edits
import numpy as np
import pytest

from pike_mixing.errors import InputError
from pipeline.data import packing, tokenizer
from pipeline.data.describe import describe_corpora
from pipeline.data.shards import entropy_nats


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, make_source, letters):
    """Two domains of letters, a token a letter."""
    folder = tmp_path_factory.mktemp("described")
    make_source(folder / "data" / "short", [f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh"])
    make_source(folder / "data" / "long", [a * n for a in "abcd" for n in range(3, 19)])
    (folder / "p.json").write_text('{"validation_share": 0.3}')
    for name in ("short", "long"):
        out = folder / "corpora" / "letters" / name
        packing.pack_corpus(folder / "p.json", folder / "data" / name, letters, out)
    return folder / "corpora"


def test_numbers_are_those_of_the_text(corpora, letters):
    rows = json.loads(describe_corpora([str(corpora)], format="json"))
    expected = [*itertools.product(("long", "short"), ("train", "validation", "search"))]
    assert [(row["domain"], row["split"]) for row in rows] == expected
    short = rows[3:]
    # Two letters and the end.
    assert sum(row["documents"] for row in short) == 64
    assert sum(row["tokens"] for row in short) == 64 * 3
    assert all(row["bytes_per_token"] == pytest.approx(2 / 3) for row in short)
    assert all(row["lengths"] == {"2": row["documents"]} for row in short)
    # 8 letters and the end.
    vocabulary = tokenizer.Tokenizer(letters).vocabulary
    assert short[0]["vocabulary_share"] == pytest.approx(9 / vocabulary)
    assert 0 < short[0]["unigram_entropy_nats"] < math.log(9)
    long = rows[:3]
    totals = {n: sum(row["lengths"].get(n, 0) for row in long) for n in ("4", "8", "16")}
    # 4 to 19 tokens, each length 4 times.
    assert totals == {"4": 4 * 4, "8": 4 * 8, "16": 4 * 4}


def test_a_table_is_for_reading_and_csv_for_machines(corpora):
    table = describe_corpora([str(corpora / "letters" / "long")])
    assert table.splitlines()[0].split()[:4] == ["tokenizer", "domain", "split", "documents"]
    assert "{" not in table
    assert table.splitlines()[-5].split() == ["tokenizer", "domain", "split", "4", "8", "16"]
    rows = list(csv.DictReader(io.StringIO(describe_corpora([str(corpora)], format="csv"))))
    assert [row["documents_from_2_tokens"] for row in rows[:2]] == ["0", "0"]
    counted = [int(n) for row in rows for name, n in row.items() if "from_" in name]
    assert sum(counted) == 128
    assert list(rows[0])[-4:] == [f"documents_from_{n}_tokens" for n in (2, 4, 8, 16)]
    assert sum(int(row["documents"]) for row in rows) == 128


def test_entropy_of_worked_examples():
    assert entropy_nats(np.array([5, 0, 5])) == pytest.approx(math.log(2))
    assert entropy_nats(np.array([3, 1])) == pytest.approx(
        0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    )
    assert entropy_nats(np.zeros(3, np.int64)) == 0


def test_what_is_no_corpus_is_refused(tmp_path, make_corpus):
    with pytest.raises(InputError, match="holds no corpus"):
        describe_corpora([str(tmp_path)])
    corpus = make_corpus(tmp_path / "unmeasured", range(2, 30))
    edits.values("manifest.json", {"splits/train/lengths": edits.GONE})(corpus)
    with pytest.raises(InputError, match=r"lengths is missing.*pack it again"):
        describe_corpora([str(corpus)])
