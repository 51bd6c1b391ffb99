import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.row_order import BLOCK, Order, first_epochs
from pipeline.data.batches import DomainRows
from pipeline.data.shards import Corpus


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, make_corpus):
    """Rows of 2 tokens: 5 of `a` (0 to 10) and 3 of `b` (50 to 56)."""
    folder = tmp_path_factory.mktemp("corpora")
    return {
        "a": Corpus.open(make_corpus(folder / "a", range(11)), "train"),
        "b": Corpus.open(make_corpus(folder / "b", range(50, 57)), "train"),
    }


@settings(deadline=None)
@given(rows=st.integers(1, 3000), seed=st.integers(0, 2**40), epoch=st.integers(0, 2**20))
def test_an_epoch_is_a_permutation(rows, seed, epoch):
    positions = np.arange(epoch * rows, (epoch + 1) * rows)
    assert sorted(Order(rows, seed).at(positions).tolist()) == list(range(rows))


@settings(deadline=None)
@given(rows=st.lists(st.integers(1, 300), max_size=6))
def test_orders_that_are_computed_together_are_those_computed_alone(rows):
    orders = [Order(n, ["key", i]) for i, n in enumerate(rows)]
    alone = [order.at(np.arange(order.rows)).tolist() for order in orders]
    assert [row_N.tolist() for row_N in first_epochs(orders)] == alone


@pytest.mark.slow
@settings(deadline=None)
@given(
    rows=st.sampled_from([1, 2, 3, 48, 5000]),
    start=st.integers(0, 20_000) | st.just(10**15),
    counts=st.lists(st.integers(0, 300) | st.just(3 * BLOCK), min_size=1, max_size=8),
)
def test_a_position_is_all_that_resuming_needs(rows, start, counts):
    whole = Order(rows, "key").at(np.arange(start, start + sum(counts))).tolist()
    order, parts, position = Order(rows, "key"), [], start
    for count in counts:
        parts += order.take(position, count).tolist()
        position += count
    assert parts == whole
    if counts[-1]:
        resumed = Order(rows, "key").take(position - counts[-1], counts[-1])
        assert resumed.tolist() == whole[-counts[-1] :]


def test_the_order_is_the_same_on_every_machine():
    # Literal values: another platform, NumPy or refactoring must not reorder the data.
    assert Order(10, {"seed": 0}).at(np.arange(12)).tolist() == [2, 4, 9, 3, 5, 6, 1, 7, 0, 8, 2, 1]


def test_the_order_looks_random():
    rows = 4096
    order = Order(rows, "key").at(np.arange(2 * rows)).reshape(2, rows)
    place = order[0].astype(float)
    # Correlations of independent permutations have standard deviation 1/64.
    assert abs(np.corrcoef(place[:-1], place[1:])[0, 1]) < 4 / 64
    assert abs(np.corrcoef(order[0], order[1])[0, 1]) < 4 / 64
    # A random permutation has 1 fixed point on average, and is above 8 once in a million.
    assert (order[0] == np.arange(rows)).sum() <= 8


def test_small_orders_reach_every_permutation():
    # 6 permutations of 3 rows over 6,000 epochs: 1,000 each, standard deviation 29.
    epochs = Order(3, "key").at(np.arange(18_000)).reshape(6000, 3)
    _, counts = np.unique(epochs, axis=0, return_counts=True)
    assert len(counts) == 6
    assert counts.min() > 800
    assert counts.max() < 1200


@pytest.mark.slow
@settings(deadline=None)
@given(counts=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=9))
def test_counts_are_exact_and_epochs_complete(corpora, counts):
    mixture, positions = DomainRows(corpora, 2, 1, "train"), np.zeros(2, np.int64)
    seen = {0: [], 1: []}
    for counts_K in np.array(counts):
        tokens = mixture.read_tokens_at(counts_K, positions)
        assert tokens.shape == (counts_K.sum(), 3)
        assert tokens.dtype == np.int64
        # Tokens of `b` begin at 50.
        domain = (tokens[:, 0] >= 50).astype(int)
        assert domain.tolist() == np.repeat([0, 1], counts_K).tolist()
        for row, k in zip(tokens.tolist(), domain.tolist(), strict=True):
            seen[k].append(row[0])
        positions += counts_K
    # However the counts change, each epoch gives every row once.
    for k, (rows, given_rows) in enumerate([(5, seen[0]), (3, seen[1])]):
        assert len(given_rows) == positions[k]
        for epoch in range(len(given_rows) // rows):
            assert len(set(given_rows[epoch * rows : (epoch + 1) * rows])) == rows


def test_a_domain_has_its_order_from_its_name_alone(corpora):
    both = DomainRows(corpora, 2, 0, "train").read_tokens_at(np.array([5, 3]), np.array([0, 0]))
    alone = DomainRows({"b": corpora["b"]}, 2, 0, "train").read_tokens_at(
        np.array([3]), np.array([0])
    )
    assert (both[5:] == alone).all()


@pytest.mark.parametrize(
    ("seed", "purpose", "domain"), [(1, "t", "a"), (0, "s", "a"), (0, "t", "z")]
)
def test_seed_purpose_and_name_make_an_order(corpora, seed, purpose, domain):
    def batch(seed, purpose, domain):
        mixture = DomainRows({domain: corpora["a"]}, 2, seed, purpose)
        return mixture.read_tokens_at(np.array([50]), np.array([0])).tolist()

    assert batch(seed, purpose, domain) != batch(0, "t", "a")


def test_domains_of_different_tokenizers_do_not_mix(tmp_path, corpora, make_corpus):
    other = Corpus.open(make_corpus(tmp_path / "c", range(9), vocabulary=99), "train")
    with pytest.raises(InputError, match="'a' and 'c' were packed with different tokenizers"):
        DomainRows({**corpora, "c": other}, 2, 0, "train")


def test_repeats_are_counted_and_capped(corpora):
    mixture = DomainRows(corpora, 2, 0, "train", max_epochs=1.5)
    # a has 5 rows, b 3.
    assert mixture.epochs_by_domain(np.array([5, 4])) == {"a": 1.0, "b": pytest.approx(4 / 3)}
    # One and a half times 3 rows are 4 whole ones.
    assert len(mixture.read_tokens_at(np.array([0, 4]), np.array([0, 0]))) == 4
    assert len(mixture.read_tokens_at(np.array([1, 0]), np.array([6, 4]))) == 1
    with pytest.raises(InputError, match=r"'b': all rows have been read 1\.5 times.*max_epochs"):
        mixture.read_tokens_at(np.array([0, 1]), np.array([0, 4]))
    with pytest.raises(InputError, match="'a', 'b'"):
        mixture.read_tokens_at(np.array([8, 1]), np.array([0, 4]))
