"""Points and accuracies of multiple-choice items, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.comparison.multiple_choice import (
    SCORES,
    accuracy_percent,
    clustered_mean,
    item_points,
)


def test_points_are_shared_by_the_best():
    found = item_points(np.array([1.0, 3, 3, 5, 2]), np.array([3, 2]), np.array([1, 1]))
    assert found.tolist() == [0.5, 0]


def test_an_accuracy_and_its_error_by_hand():
    # Residuals 2 - 0.75 * 2, 1 - 0.75 and 0 - 0.75.
    squares = 0.5**2 + 0.25**2 + 0.75**2
    expected = pytest.approx((75, 100 * math.sqrt(3 / 2 * squares) / 4))
    assert accuracy_percent(np.array([1.0, 1, 1, 0]), ["a", "a", "b", "c"]) == expected
    assert accuracy_percent(np.array([1.0, 0]), ["a", "a"]) == (50, None)


def test_scores_by_hand():
    sum_C, alone_C, length_C = np.array([-6.0]), np.array([-2.0]), np.array([2])
    found = {}
    for name, (needed, score) in SCORES.items():
        known = {"sum_log_likelihood": sum_C, "unconditional": alone_C}
        found[name] = float(score(*(known.get(n, length_C) for n in needed))[0])
    assert found == {
        "per_token": -3, "sum": -6, "per_character": -3, "per_byte": -3, "per_character_olmes": -2,
        "unconditional": -4, "raw": -6, "pmi": -4, "answer_only": -2,
    }  # fmt: skip


def test_one_cluster_has_no_error_and_empty_ones_do_not_count():
    assert clustered_mean([6.0], [4]) == (1.5, None)
    assert clustered_mean([2.0, 0.0], [1, 0]) == (2.0, None)
    assert clustered_mean([2.0, 0.0, 6.0], [1, 0, 1]) == clustered_mean([2.0, 6.0], [1, 1])


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=20))
def test_clusters_of_one_give_the_ordinary_standard_error(values):
    mean, stderr = clustered_mean(values, np.ones(len(values)))
    assert mean == pytest.approx(np.mean(values), abs=1e-9)
    assert stderr == pytest.approx(np.std(values, ddof=1) / math.sqrt(len(values)), abs=1e-9)
