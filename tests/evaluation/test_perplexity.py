import math

import numpy as np
import pytest

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.evaluation import perplexity
from pipeline.model.transformer import initial_model

# With their EOS 3, 4 and 4 tokens: with L = 5 the targets are tokens 1-5 and 6-10 of the stream.
DOCUMENTS = [[5, 6], [7, 8, 9], [10, 11, 12]]


@pytest.fixture
def windows(packed):
    """Of documents, with L = 5 unless something else is asked for."""

    def make(documents=DOCUMENTS, length=5, at_most=10, **packing):
        return perplexity.evenly_spread_windows(packed(documents, **packing)[0], length, at_most)

    return make


def by_length(windows, values):
    """`values` in the order of the windows' documents, which is that of their hashes."""
    return [values[size] for size in windows.tokens_G]


def test_tokens_and_bytes_go_to_their_documents(packed):
    held_out, _ = packed([[5, 6], [7, 8, 9], [10, 11, 12, 13]], sizes=[30, 40, 50])
    windows = perplexity.evenly_spread_windows(held_out, 5, 100)
    assert windows.tokens_RxL1.tolist() == [[5, 6, 1, 7, 8, 9], [9, 1, 10, 11, 12, 13]]
    # Of the first document tokens 1 and 2 of 3, of the last 4 of 5: its EOS is the dropped tail.
    scored = dict(zip(windows.documents, windows.tokens_G.tolist(), strict=True))
    names = [f"{h:016x}" for h in held_out.document_records()["hash"]]
    assert [scored[name] for name in names] == [2, 4, 4]
    sizes = dict(zip(windows.documents, windows.bytes_G.tolist(), strict=True))
    assert [sizes[name] for name in names] == [20, 40, 40]
    place = [names.index(windows.documents[p]) for p in windows.place_N]
    assert place == [0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_fewer_windows_are_spread_over_the_split(windows):
    made = windows([list(range(2, 42))], 4, 5)
    # 41 tokens are 10 windows: every second one.
    assert made.tokens_RxL1[:, 0].tolist() == [2, 10, 18, 26, 34]


def test_documents_of_equal_text_count_as_one(windows):
    made = windows([[5, 6, 7], [8, 9], [5, 6, 7]], 10, sizes=[3, 2, 3])
    assert sorted(made.tokens_G.tolist()) == [3, 7]
    # 3 of the first copy's 4 tokens and all of the second: 2.25 + 3 bytes, rounded.
    assert sorted(made.bytes_G.tolist()) == [2, 5]


def test_a_model_that_knows_nothing_has_the_vocabulary_as_perplexity(windows, constant):
    found = perplexity.measure_perplexity(constant, windows(sizes=[30, 40, 40]), batch_tokens=100)
    assert found.nll == pytest.approx(math.log(64), rel=1e-6)
    assert found.perplexity == pytest.approx(64, rel=1e-5)
    assert found.stderr == pytest.approx(0, abs=1e-9)
    assert found.tokens == 10
    # 10 tokens of 6 bits each over 20 + 40 + 40 bytes.
    assert found.bits_per_byte == pytest.approx(0.6, rel=1e-6)


def test_the_error_of_three_documents_by_hand(windows):
    # Scored are the first's EOS, the second's three tokens, the third's two: 6 in all.
    made = windows([[5], [6, 7], [8]], 3)
    # Sums 3, 6 and 3, so the mean is 2 and the residuals are 1, 0 and -1.
    nll_N = np.array(by_length(made, {1: 3.0, 3: 2.0, 2: 1.5}))[made.place_N]
    found = perplexity.summarise_token_losses(nll_N, made)
    assert found.nll == pytest.approx(2.0)
    assert found.stderr == pytest.approx(math.sqrt(3 / 2 * 2) / 6)
    assert found.nll_G.tolist() == by_length(made, {1: 3.0, 3: 6.0, 2: 3.0})


def test_one_document_has_no_error(windows, constant):
    made = windows([list(range(2, 30))], 4)
    assert perplexity.measure_perplexity(constant, made, batch_tokens=8).stderr is None


def test_text_without_bytes_has_no_bits_per_byte(windows, constant):
    found = perplexity.measure_perplexity(constant, windows(sizes=[0, 0, 0]), batch_tokens=8)
    assert found.bits_per_byte is None


def test_the_batch_size_changes_nothing(windows):
    numbers = np.random.default_rng(0).integers(2, 64, (20, 17))
    made = windows(numbers.tolist(), 8, 40)
    model = initial_model(settings.Model(2, 16, 2, 8), 64, seed=0)
    one, some, every = (
        perplexity.measure_perplexity(model, made, batch_tokens=budget)
        for budget in (1, 24, 10_000)
    )
    np.testing.assert_allclose(one.nll_G, every.nll_G, rtol=1e-6)
    assert one.nll == pytest.approx(every.nll, rel=1e-7)
    assert some.nll == pytest.approx(every.nll, rel=1e-7)


def test_a_loss_that_is_no_number_is_kept_visible(windows):
    made = windows()
    assert math.isnan(perplexity.summarise_token_losses(np.full(10, np.nan, np.float32), made).nll)
    diverged = perplexity.summarise_token_losses(np.full(10, 1000.0, np.float32), made)
    assert diverged.perplexity == math.inf


def test_a_split_shorter_than_a_window_is_refused(windows):
    with pytest.raises(InputError, match="3 validation tokens, fewer than one row of 8"):
        windows([[5, 6]], 8)
