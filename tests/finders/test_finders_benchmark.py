"""The benchmark of finders: its scores, and that the page is what the records say."""

import numpy as np
import pytest

from benchmarks import finder_scores, finders, finders_page
from pike_mixing.finders.interface import Proxy, Swarm


def test_the_page_is_written_from_the_records(tmp_path, monkeypatch):
    page = finders_page.PAGE
    monkeypatch.setattr(finders_page, "PAGE", tmp_path / "finders.md")
    finders_page.main()
    assert (tmp_path / "finders.md").read_text() == page.read_text()


def test_scores_of_draws_by_hand():
    # Ranks 1, 2, 3 as measured, and 1, 3, 2: correlations 1 and 1/2. The second draw's choice, the
    # first run, is the best one too. Of a run at random the regret is (0 + 1 + 5) / 3 = 2.
    actual_TxN = np.array([[1.0, 2.0, 6.0]])
    draws = [np.array([[0.0, 1.0, 2.0]]), np.array([[0.0, 2.0, 1.0]]), np.array([[2.0, 0.0, 1.0]])]
    values, drawn = finder_scores.judged(draws[:2], actual_TxN, 50)
    assert values[0, 0] == pytest.approx(0.75)
    assert values[1, 0] == 0
    assert drawn.shape == (50, 3, 1)
    # The third chooses the second run: 1 / 2.
    values, _ = finder_scores.judged(draws[2:], actual_TxN, 5)
    assert values[1, 0] == pytest.approx(0.5)


def test_predictors_are_of_each_loss_and_of_their_mean():
    # Losses 1 + 2 w_a and 3 - w_a.
    weights = np.random.default_rng(0).dirichlet(np.ones(2), 12)
    runs = [Proxy(str(n), w, np.array([1 + 2 * w[0], 3 - w[0]])) for n, w in enumerate(weights)]
    fitted = finders.predictors("linear", {}, Swarm(("a", "b"), runs, ("x", "y")))
    mixture = np.array([[0.5, 0.5]])
    assert [p.losses(mixture).item() for p in fitted] == pytest.approx([2, 2.5, 2.25])
    assert [p.optimum().tolist() for p in fitted] == [[0, 1], [1, 0], [0, 1]]


def test_repeatability_by_hand_with_an_interval():
    # Of one target: half of the sum of differences is 0.1, 0.3 and 0.2, their mean 0.2.
    draws = [np.array([[0.5, 0.5]]), np.array([[0.4, 0.6]]), np.array([[0.2, 0.8]])]
    found = finder_scores.repeatability(draws, 200)
    value, low, high = found["distance"]
    assert value == pytest.approx(0.2)
    assert 0.1 - 1e-9 <= low < value < high <= 0.3 + 1e-9
    assert (found["missed"], found["of"]) == (0, 3)
    # Nothing was found of the third draw: one distance is left.
    found = finder_scores.repeatability([*draws[:2], np.full((1, 2), np.nan)], 20)
    assert found["distance"][0] == pytest.approx(0.1)
    assert found["missed"] == 1
    assert finder_scores.repeatability(draws[:1], 20)["distance"] is None


def test_intervals_of_a_correlation_and_of_a_deviation_by_hand():
    # z of 0.5 is 0.5493, its error sqrt(1.125 / 9) = 0.3536: tanh(-0.1436) and tanh(1.2423).
    assert finder_scores.of_correlation(0.5, 12) == pytest.approx([0.5, -0.1427, 0.8462], abs=1e-4)
    # Variances 2 and 8 of two groups of two: sqrt(5), of two degrees: chi-squared 7.378 and 0.0506.
    values = np.array([[0.0, 2.0], [0.0, 4.0]])
    expected = [5**0.5, (5 * 2 / 7.3778) ** 0.5, (5 * 2 / 0.050636) ** 0.5]
    assert finder_scores.of_deviation(values) == pytest.approx(expected, rel=1e-3)
