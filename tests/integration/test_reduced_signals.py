"""Signals of two ranks as one, by hand."""

import numpy as np
import pytest
from ranks import on_two_ranks

from pike_mixing.errors import InputError
from pike_mixing.interface import Signals, Statistics
from pike_mixing.signal_checks import contradiction_problems
from pike_mixing.torch import all_reduce

NAN = float("nan")


def statistics(*columns):
    return Statistics.of_moments(*map(np.array, columns))


OWN = [
    Signals(
        5,
        4,
        count_K=np.array([3, 1, 0]),
        loss_K=np.array([2.0, 4.0, NAN]),
        validation_loss_K=np.array([1.0, 2.0, NAN]),
        statistics=statistics([5.0, 1.0, NAN], [6.0, NAN, NAN], [2.0, 4.0, NAN], [3.0, 1.0, 0.0]),
    ),
    Signals(
        5,
        4,
        count_K=np.array([1, 3, 0]),
        loss_K=np.array([6.0, 0.0, NAN]),
        validation_loss_K=np.array([3.0, NAN, NAN]),
        statistics=statistics([7.0, 2.0, NAN], [NAN, 3.0, NAN], [6.0, 0.0, NAN], [1.0, 3.0, 0.0]),
    ),
]


def reduced(rank):
    with pytest.raises(InputError, match="gram_KxK"):
        all_reduce(Signals(5, 4, gram_KxK=np.eye(3)))
    with pytest.raises(InputError, match="count_K is missing"):
        all_reduce(Signals(5, 4, loss_K=np.ones(3)))
    lost = Signals(5, 4, count_K=np.array([2, 2]), loss_K=np.array([1.0, NAN if rank else 3.0]))
    # One that diverged is not hidden by the other.
    assert "diverges" in " ".join(contradiction_problems(all_reduce(lost), 2))
    return all_reduce(OWN[rank])


@pytest.mark.slow
def test_signals_of_two_ranks(tmp_path):
    assert all_reduce(OWN[0]) is OWN[0]
    for found in on_two_ranks(reduced, tmp_path):
        assert found.batch_rows == 8
        assert found.count_K.tolist() == [4, 4, 0]
        # Three rows of 2 and one of 6; one of 4 and three of 0.
        np.testing.assert_allclose(found.loss_K, [3, 1, NAN])
        np.testing.assert_allclose(found.validation_loss_K, [2, 2, NAN])
        pooled = found.statistics
        assert pooled.rows_K.tolist() == [4, 4, 0]
        # One row alone tells no variance: the other rank's is that of both.
        np.testing.assert_allclose(pooled.variance_K, [6, 3, NAN])
        # Unbiased 5 - 6 / 3 = 3 and 2 - 3 / 3 = 1; of a single row, none.
        np.testing.assert_allclose(pooled.squared_norm_unbiased_K, [3, 1, NAN])
        np.testing.assert_allclose(pooled.squared_norm_K, [3 + 6 / 4, 1 + 3 / 4, NAN])
        assert contradiction_problems(found, 3) == []
