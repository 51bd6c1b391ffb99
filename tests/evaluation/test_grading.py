import math

import numpy as np
import pytest

from pike_mixing.errors import InputError
from pipeline.evaluation import grading
from pipeline.evaluation.prompt_encoding import Item, encoded
from pipeline.tasks.benchmark import load


def item(gold, texts, tokens, cluster="c", name="i"):
    """An item whose candidates have so many tokens."""
    return Item(
        id=name,
        cluster=cluster,
        gold=gold,
        context_C=(1,),
        candidates=tuple((7,) * n for n in tokens),
        unconditional_C=(1,),
        characters=tuple(map(len, texts)),
        bytes=tuple(len(text.encode()) for text in texts),
        shots=0,
    )


def accuracies(items, sums, alone):
    found = grading.grade(items, [np.array(v) for v in sums], [np.array(v) for v in alone])
    return {name: value for name, (value, _) in found.accuracy.items()}


def test_every_normalisation_by_hand():
    # Candidates of 1, 1 and 4 tokens, of 1, 2 and 4 characters, of 1, 4 and 4 bytes.
    texts, tokens = ["a", "éé", "cccc"], [1, 1, 4]
    sums, alone = [-3.0, -3.5, -8.0], [-1.0, -3.2, -7.5]
    asked = [item(gold, texts, tokens) for gold in range(3)]
    found = [accuracies([one], [sums], [alone]) for one in asked]
    right = {name: [value[name] for value in found].index(100) for name in grading.METRICS}
    assert right == {
        "per_token": 2,  # -3, -3.5, -2
        "sum": 0,
        "per_character": 1,  # -3, -1.75, -2
        "per_byte": 1,  # -3, -0.875, -2
        "per_character_olmes": 1,  # -1.5, -1.167, -1.6
        "unconditional": 1,  # -2, -0.3, -0.5
    }
    assert all(sum(value[name] for value in found) == 100 for name in grading.METRICS)


def test_candidates_that_share_the_best_score_share_the_point():
    same = [[-2.0, -2.0, -4.0]]
    for gold, expected in ((0, 50.0), (1, 50.0), (2, 0.0)):
        asked = [item(gold, ["aa", "bb", "cc"], [1, 1, 1])]
        assert accuracies(asked, same, [[0.0, 0.0, 0.0]])["sum"] == expected


def test_the_space_in_front_counts_for_olmes_alone():
    # 1 and 3 characters, 2 and 4 with the space: -2 against -1.9 or -1 against -1.425.
    asked = [item(0, ["a", "bcd"], [1, 1])]
    found = accuracies(asked, [[-2.0, -5.7]], [[0.0, 0.0]])
    assert found["per_character"] == 0
    assert found["per_character_olmes"] == 100


def test_items_may_have_different_numbers_of_options():
    items = [item(2, "abc", [1] * 3), item(4, "abcde", [1] * 5), item(0, "ab", [1] * 2)]
    sums = [[-3, -2, -1], [-5, -4, -3, -2, -1], [-2, -1]]
    found = grading.grade(
        items, [np.array(s, float) for s in sums], [np.zeros(len(s)) for s in sums]
    )
    assert found.pick_I.tolist() == [2, 4, 1]
    assert found.accuracy["per_token"][0] == pytest.approx(200 / 3)


def test_the_error_is_clustered():
    # Clusters a (both right), b (right), c (wrong): mean 75 %, residuals 0.5, 0.25, -0.75.
    items = [item(0, "ab", [1, 1], cluster) for cluster in ("a", "a", "b")]
    items.append(item(1, "ab", [1, 1], "c"))
    sums = [np.array([-1.0, -2.0])] * 4
    value, stderr = grading.grade(items, sums, [np.zeros(2)] * 4).accuracy["sum"]
    assert value == 75.0
    squares = 0.5**2 + 0.25**2 + 0.75**2
    assert stderr == pytest.approx(100 * math.sqrt(3 / 2 * squares) / 4)


@pytest.mark.parametrize("bad", [math.nan, -math.inf, math.inf])
def test_what_is_no_number_names_the_item(bad):
    items = [item(0, "ab", [1, 1], name="first"), item(0, "ab", [1, 1], name="second")]
    fine = np.array([-1.0, -2.0])
    for sums, alone in (([fine, [bad, -1.0]], [fine, fine]), ([fine, fine], [fine, [bad, -1.0]])):
        with pytest.raises(InputError, match="item second: a log-likelihood is not a finite"):
            grading.grade(items, list(map(np.array, sums)), list(map(np.array, alone)))


def test_known_answerers_get_what_they_deserve(benchmarks, tokenizers, asked):
    """An oracle has every point, its opposite none, one that knows nothing exactly chance."""
    tokenizer = tokenizers["unigram, without line breaks"]
    for task in ("arc_easy", "csqa", "hellaswag", "piqa", "hellaswag_hi"):
        benchmark = load(benchmarks, asked(task))
        items = encoded(benchmark, tokenizer, 10**6)
        nothing = [np.zeros(len(i.candidates)) for i in items]
        oracle = [np.where(np.arange(len(i.candidates)) == i.gold, -1e-3, -1e3) for i in items]
        for metric, (value, _) in grading.grade(items, oracle, nothing).accuracy.items():
            assert value == 100, metric
        opposite = [-values - 1e4 for values in oracle]
        assert grading.grade(items, opposite, nothing).accuracy["sum"][0] == 0
        # Every token costs the same.
        uniform = [-np.array([5.0 * len(c) for c in i.candidates]) for i in items]
        found = grading.grade(items, uniform, uniform).accuracy
        assert found["per_token"][0] == pytest.approx(benchmark.chance)
        assert found["unconditional"][0] == pytest.approx(benchmark.chance)
