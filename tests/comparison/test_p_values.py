import numpy as np
import pytest

from pike_mixing.comparison import mean_difference, p_values


def test_items_that_stand_alone_give_mcnemars_test():
    # One against nine of ten coins: twice 11 of 1024. Items without a difference say nothing.
    assert p_values.exact_sign_flip_p([1] * 9 + [-1] + [0] * 7) == pytest.approx(22 / 1024)
    stats = pytest.importorskip("scipy.stats")
    for better, worse in ((0, 1), (3, 14), (40, 61), (200, 250)):
        expected = stats.binomtest(better, better + worse, 0.5).pvalue
        found = p_values.exact_sign_flip_p([1] * better + [-1] * worse)
        assert found == pytest.approx(expected, rel=1e-9)


def test_items_of_a_document_are_flipped_together():
    # Sums +-3 and +-1: half of the four are as far from zero as 3.
    assert p_values.exact_sign_flip_p([2, 1]) == pytest.approx(0.5)
    # Ten items of one document are worth one coin, not ten.
    assert p_values.exact_sign_flip_p([10]) == 1
    # Shared points: +-1/2 +-1/3, as found in half of the cases.
    assert p_values.exact_sign_flip_p([1 / 2, 1 / 3]) == pytest.approx(0.5)


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1; the last may not fall below the third.
    assert p_values.holm_adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )
    assert p_values.holm_adjusted([0.5, None, 0.02]) == [0.5, None, 0.04]
    assert p_values.holm_adjusted([0.9, 0.8]) == [1.0, 1.0]


def flipped(sum_SxG):
    """The p-value where each document has one item."""
    count = len(sum_SxG[0])
    apart = mean_difference.differences_of_sums(sum_SxG, np.ones(count), range(count))
    return p_values.p_by_seeds_or_sign_flips(sum_SxG, mean_difference.estimate([apart]))


@pytest.mark.parametrize(
    ("sum_SxG", "p"),
    [
        ([[1] * 20] * 3, 2 / 2**20),
        ([[0, 0]], 1),
        ([[2, 1]], 0.5),
        # Two seeds bear no verdict, whatever varies, nor do three over few documents.
        ([[1] * 20] * 2, None),
        ([[1] * 19] * 3, None),
    ],
)
def test_one_seed_and_nothing_that_varies_are_flipped(sum_SxG, p):
    assert flipped(sum_SxG) == (None if p is None else pytest.approx(p))
