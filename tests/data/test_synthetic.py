import math
from collections import Counter

import numpy as np
import pytest

from pipeline import settings
from pipeline.data.synthetic import Synthetic
from pipeline.errors import InputError

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
    return list(settings.parse(Synthetic, values, "sources.s").read(Counter()))


@pytest.mark.parametrize(
    ("values", "nats"),
    [
        # Two equally likely successors.
        (EASY, math.log(2)),
        # 2 symbols of probability 0.45 + 0.1/40 = 0.4525 and 38 of 0.0025.
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
    language = Synthetic(**values)
    assert language.entropy_nats_per_character == pytest.approx(nats, abs=1e-12)


def test_the_hard_language_of_the_notes_has_1_287_nats():
    assert Synthetic(**HARD).entropy_nats_per_character == pytest.approx(1.287, abs=5e-4)


@pytest.mark.parametrize("values", [EASY, HARD, NOISE, {**NOISE, "noise": 0.5, "successors": 3}])
def test_a_text_costs_its_entropy_under_the_true_probabilities(values):
    language = Synthetic(**{**values, "documents": 200, "length": 500})
    table, nats, symbols = language.table(), 0.0, 0
    rare = language.noise / language.symbols
    likely = (1 - language.noise) / language.successors + rare
    for _, text in language.read(Counter()):
        context = 0
        for symbol in (ord(c) - language.alphabet for c in text):
            nats -= math.log(likely if symbol in table[context] else rare)
            context = (context * language.symbols + symbol) % len(table)
            symbols += 1
    # 100,000 symbols; the surprise of one has a standard deviation below 2 nats.
    assert nats / symbols == pytest.approx(language.entropy_nats_per_character, abs=0.02)


@pytest.mark.parametrize("values", [EASY, HARD, NOISE])
def test_successors_of_a_context_differ(values):
    language = Synthetic(**{**values, "successors": 3})
    table = language.table()
    assert table.shape == (language.symbols**language.order, 3)
    assert all(len(set(row)) == 3 for row in table.tolist())


def test_every_symbol_follows_equally_many_others():
    # So none dies out: 64 symbols with two successors each are each the successor of two.
    assert np.bincount(Synthetic(**EASY).table().ravel()).tolist() == [2] * 64


def test_all_symbols_of_the_alphabet_and_no_others_appear():
    for values in (EASY, HARD, NOISE):
        text = "".join(text for _, text in made({**values, "length": 1000}))
        codes = {ord(c) - values["alphabet"] for c in text}
        assert codes == set(range(values["symbols"]))


def test_documents_have_the_length_asked_for():
    documents = made(EASY)
    assert [len(text) for _, text in documents] == [100] * 20
    assert [identity for identity, _ in documents][:2] == ["00000000", "00000001"]


def test_more_documents_change_none_that_were_there():
    assert made({**EASY, "documents": 2000})[:20] == made(EASY)


def test_longer_documents_begin_like_shorter_ones():
    longer = [text[:100] for _, text in made({**HARD, "length": 150})]
    assert longer == [text for _, text in made(HARD)]


def test_the_seed_makes_the_language():
    assert made({**EASY, "seed": 2}) != made(EASY)


def test_the_text_is_the_same_on_every_machine():
    document = made({**HARD, "alphabet": ord("A"), "symbols": 26, "length": 40})[3]
    assert document == ("00000003", "HSCTFSPYQNRHTTRIVVIZDQWAVCYRNWOAAHLHJRCA")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": 3}, "order: must be 0, 1 or 2"),
        ({"symbols": 1}, "symbols: must be at least 2"),
        ({"successors": 65}, "successors: must lie between 1 and symbols"),
        ({"successors": 0}, "successors: must lie between 1 and symbols"),
        ({"noise": 1.1}, "noise: 1.1 is not a probability"),
        ({"documents": 0}, "documents: must be at least 1"),
        ({"length": 0}, "length: must be at least 1"),
        ({"order": 2, "symbols": 300}, "symbols: 300 are too many for order 2"),
        # Blank, surrogates, beyond Unicode, changed by NFKC, SentencePiece's sign for a space.
        ({"alphabet": 0x20}, "alphabet"),
        ({"alphabet": 0xD7F0}, "alphabet"),
        ({"alphabet": 0x10FFFF}, "alphabet"),
        ({"alphabet": 0xFB00}, "alphabet"),
        ({"alphabet": 0x2570}, "alphabet"),
        ({"wrong": 1}, "'wrong' is unknown"),
    ],
)
def test_settings_that_make_no_language_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        made({**EASY, **change})
