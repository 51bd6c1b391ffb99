import numpy as np
import pytest
from scipy import stats

from pike_mixing.errors import InputError
from pike_mixing.finders import prediction_scores


def test_scores_by_hand():
    # Ranks 1, 2, 3, 4 and 2, 1, 3, 4: 1 - 6 (1 + 1) / (4 * 15) = 0.8. The first is predicted best
    # and costs 2 - 1; the mean is 3. Slope: sum (x - 2.5) y / 5 with y = 2, 1, 4, 5.
    predicted, actual = np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 4, 5])
    result = prediction_scores.score_predictions(predicted, actual, resamples=200)
    assert result["spearman"]["value"] == pytest.approx(0.8)
    assert (result["regret"]["value"], result["worth"]["value"]) == (1, 1)
    assert result["regret_of_chance"] == 2
    assert result["slope"]["value"] == pytest.approx((-1.5 * 2 - 0.5 * 1 + 0.5 * 4 + 1.5 * 5) / 5)
    assert result["spearman"]["low"] <= 0.8 <= result["spearman"]["high"]
    assert result["runs"] == 4


def test_ranks_and_correlations_are_scipys():
    random = np.random.default_rng(0)
    one_SxN, other_SxN = random.integers(0, 6, (2, 8, 20)).astype(float)
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(one_SxN, other_SxN, strict=True)]
    ours = prediction_scores.correlations(
        prediction_scores.ranks(one_SxN), prediction_scores.ranks(other_SxN)
    )
    np.testing.assert_allclose(ours, expected)


def test_the_interval_covers_the_correlation_of_the_population():
    # Of bivariate normal numbers with correlation 0.8, Spearman's is 6 asin(0.4) / pi = 0.786.
    random, held = np.random.default_rng(1), 0
    for seed in range(60):
        pair = random.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 60)
        interval = prediction_scores.score_predictions(*pair.T, resamples=300, seed=seed)[
            "spearman"
        ]
        held += interval["low"] <= 6 * np.arcsin(0.4) / np.pi <= interval["high"]
    assert held >= 51


def test_equal_predictions_share_the_choice():
    predicted, actual = np.array([1.0, 1, 2]), np.array([1.0, 3, 0])
    # The first two tie: 2 - 0.
    assert prediction_scores.regret_of_choice(predicted[None], actual[None]).tolist() == [2]


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(InputError, match="2 runs are too few"):
        prediction_scores.score_predictions(np.arange(2.0), np.arange(2.0))
    with pytest.raises(InputError, match="are equal: nothing to judge"):
        prediction_scores.score_predictions(np.ones(4), np.arange(4.0))
