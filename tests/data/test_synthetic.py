import math
from collections import Counter

import numpy as np
import pytest

from pike_mixing.errors import InputError
from pipeline.data.synthetic import SyntheticSource
from pipeline.runtime import atomic_files
from pipeline.runtime.validate_settings import validate

EASY = {
    "order": 1,
    "symbols": 64,
    "successors": 2,
    "noise": 0.0,
    "alphabet": 0x4E00,
    "documents": 20,
    "length": 100,
    "seed": 1,
}
HARD = {**EASY, "order": 2, "symbols": 40, "noise": 0.1}
NOISE = {**EASY, "order": 0, "symbols": 256, "noise": 1.0}


def made(values):
    return list(validate(SyntheticSource, values, "sources.s").read(Counter(), []))


@pytest.mark.parametrize(
    ("values", "nats"),
    [
        # Two equally likely successors.
        (EASY, math.log(2)),
        # 2 symbols of probability 0.45 + 0.1/40 = 0.4525 and 38 of 0.0025: 1.287.
        (HARD, -2 * 0.4525 * math.log(0.4525) - 38 * 0.0025 * math.log(0.0025)),
        # Uniform over 256.
        (NOISE, math.log(256)),
        # One successor and no noise: nothing is left to chance.
        ({**EASY, "successors": 1}, 0.0),
        # All symbols are successors.
        ({**EASY, "successors": 64, "noise": 0.3}, math.log(64)),
    ],
)
def test_the_entropy_is_that_of_the_closed_form(values, nats):
    language = SyntheticSource(**values)
    assert language.entropy_nats_per_character == pytest.approx(nats, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        EASY,
        HARD,
        {**EASY, "order": 4, "symbols": 6, "noise": 0.1},
        {**NOISE, "noise": 0.5, "successors": 3},
        {**EASY, "family": 7, "overlap": 0.5},
    ],
)
def test_a_text_costs_its_entropy_under_the_true_probabilities(values):
    language = SyntheticSource(**{**values, "documents": 200, "length": 500})
    table, nats, symbols = language.successor_table(), 0.0, 0
    rare = language.noise / language.symbols
    likely = (1 - language.noise) / language.successors + rare
    for _, text in language.read(Counter(), []):
        context = 0
        for symbol in (ord(c) - language.alphabet for c in text):
            nats -= math.log(likely if symbol in table[context] else rare)
            context = (context * language.symbols + symbol) % len(table)
            symbols += 1
    # 100,000 symbols; the surprise of one has a standard deviation below 2 nats.
    assert nats / symbols == pytest.approx(language.entropy_nats_per_character, abs=0.02)


@pytest.mark.parametrize("values", [EASY, HARD, NOISE])
def test_successors_of_a_context_differ_and_no_symbol_dies_out(values):
    language = SyntheticSource(**{**values, "successors": 3})
    table = language.successor_table()
    assert table.shape == (language.symbols**language.order, 3)
    assert all(len(set(row)) == 3 for row in table.tolist())
    if language.order == 1:
        # Every symbol follows equally many others.
        assert np.bincount(table.ravel()).tolist() == [3] * language.symbols
    text = "".join(text for _, text in made({**values, "length": 1000}))
    assert {ord(c) - values["alphabet"] for c in text} == set(range(values["symbols"]))


def test_a_document_is_a_function_of_the_language_and_its_number():
    documents = made(EASY)
    assert [len(text) for _, text in documents] == [100] * 20
    assert [identity for identity, _ in documents][:2] == ["00000000", "00000001"]
    # More documents change none that were there, longer ones begin like shorter ones.
    assert made({**EASY, "documents": 2000})[:20] == documents
    assert [(n, text[:100]) for n, text in made({**HARD, "length": 150})] == made(HARD)
    assert made({**EASY, "seed": 2}) != documents


def test_the_text_is_the_same_on_every_machine():
    document = made({**HARD, "alphabet": ord("A"), "symbols": 26, "length": 40})[3]
    assert document == ("00000003", "HSCTFSPYQNRHTTRIVVIZDQWAVCYRNWOAAHLHJRCA")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"successors": 1}, "noise: must be above 0 with 1 successor"),
        ({"successors": 65}, "successors: must lie between 1 and symbols"),
        ({"order": 2, "symbols": 300}, "symbols: 300 are too many for order 2"),
        # Blank, surrogates, beyond Unicode, changed by NFKC, SentencePiece's sign for a space.
        ({"alphabet": 0x20}, "alphabet"),
        ({"alphabet": 0xD7F0}, "alphabet"),
        ({"alphabet": 0x10FFFF}, "alphabet"),
        ({"alphabet": 0xFB00}, "alphabet"),
        ({"alphabet": 0x2570}, "alphabet"),
        ({"overlap": 0.5}, "overlap: give both overlap and family, or neither"),
        ({"family": 3}, "overlap: give both overlap and family, or neither"),
    ],
)
def test_settings_that_make_no_language_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        made({**EASY, **change})


FAMILY = {**EASY, "symbols": 200, "family": 7}


def test_languages_of_a_family_agree_on_the_smaller_of_their_shares():
    tables = [
        SyntheticSource(**{**FAMILY, "seed": seed, "overlap": overlap}).successor_table()
        for seed, overlap in ((1, 0.6), (2, 0.3), (3, 0.6))
    ]
    assert all(len(set(row)) == 2 for table in tables for row in table.tolist())
    alone = [
        SyntheticSource(**{**EASY, "symbols": 200, "seed": seed}).successor_table()
        for seed in (1, 2)
    ]
    # Standard deviation of a share of 200 contexts: below 0.036.
    assert agreeing(tables[0], tables[1]) == pytest.approx(0.3, abs=0.11)
    assert agreeing(tables[0], tables[2]) == pytest.approx(0.6, abs=0.11)
    assert agreeing(tables[0], alone[0]) == pytest.approx(0.4, abs=0.11)
    assert agreeing(*alone) < 0.05
    whole = [
        SyntheticSource(**{**FAMILY, "seed": s, "overlap": 1.0}).successor_table().tolist()
        for s in (1, 2)
    ]
    assert whole[0] == whole[1]


def agreeing(first, second):
    """Share of contexts with the same successors."""
    return float((np.sort(first, axis=1) == np.sort(second, axis=1)).all(axis=1).mean())


def test_a_language_by_itself_is_what_it_was_before_there_were_families():
    before = atomic_files.json_digest({**EASY, "bytes": None, "licence": "CC0-1.0"})[:16]
    language = SyntheticSource(**EASY)
    assert language.revision_facts("0")["revision"] == f"synthetic-1 settings {before} documents 0"
    assert SyntheticSource(**FAMILY, overlap=0.5).revision_facts("0") != language.revision_facts(
        "0"
    )
