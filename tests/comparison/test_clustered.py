import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.comparison.multiple_choice import clustered_mean


def test_three_clusters_by_hand():
    # Mean 12 / 4 = 3; residuals -1, -2, 3; sqrt(3/2 * 14) / 4.
    mean, stderr = clustered_mean([2.0, 4.0, 6.0], [1, 2, 1])
    assert mean == 3.0
    assert stderr == pytest.approx(math.sqrt(21) / 4)


def test_one_cluster_has_no_error_and_empty_ones_do_not_count():
    assert clustered_mean([6.0], [4]) == (1.5, None)
    assert clustered_mean([2.0, 0.0], [1, 0]) == (2.0, None)
    assert clustered_mean([2.0, 0.0, 6.0], [1, 0, 1]) == clustered_mean([2.0, 6.0], [1, 1])


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=20))
def test_clusters_of_one_give_the_ordinary_standard_error(values):
    mean, stderr = clustered_mean(values, np.ones(len(values)))
    assert mean == pytest.approx(np.mean(values), abs=1e-9)
    assert stderr == pytest.approx(np.std(values, ddof=1) / math.sqrt(len(values)), abs=1e-9)
