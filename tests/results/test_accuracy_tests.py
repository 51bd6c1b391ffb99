"""Answerers of known behaviour, from fabricated scores to the table of tests."""

import itertools

import pytest
from played import insert

from pike_mixing.comparison import p_values
from pipeline.results import accuracy_tests
from pipeline.results.measured_results import MeasuredResults

# Four items of two documents: candidates, the true one, and how many tokens each candidate shares
# with the context.
ITEMS = [
    ("i0", "d0", 4, 0, [3, 1, 0, 2]),
    ("i1", "d0", 4, 2, [5, 1, 2, 0]),
    ("i2", "d1", 2, 1, [0, 4]),
    ("i3", "d1", 5, 3, [1, 0, 2, 2, 2]),
]


def oracle(candidates, gold, shared):
    return [0.0 if c == gold else -9.0 for c in range(candidates)]


def uniform(candidates, gold, shared):
    return [-1.5] * candidates


def constant(candidates, gold, shared):
    return [-float(c) for c in range(candidates)]


def copying(candidates, gold, shared):
    return [float(n) for n in shared]


def answered(connection, method, answerer, seed=0, *, task="t", items=ITEMS, metrics=("raw",)):
    """One run's scores of its last checkpoint, and of one before it on which all is wrong."""
    name = f"s/m/{method}/seed{seed}"
    connection.execute(
        "insert or ignore into runs (run, scenario, model, method, seed, steps, tokens) "
        "values (?, 's', 'm', ?, ?, 10, 1000)",
        [name, method, seed],
    )
    asked = {"run": name, "task": task, "shots": 0, "formulation": "cf"}
    for metric, step in itertools.product(metrics, (5, 10)):
        insert(connection, "accuracies", asked | {"step": step, "metric": metric})
    for item, document, candidates, gold, shared in items:
        for step, scores in (
            (5, [-1.0 * (c == gold) for c in range(candidates)]),
            (10, answerer(candidates, gold, shared)),
        ):
            own = {"step": step, "item": item, "document": document, "gold": gold}
            own |= {"sum_log_likelihood": scores, "unconditional": [0.0] * candidates}
            insert(connection, "choices", asked | own)


def rows_of(connection, columns, where="true"):
    accuracy_tests.fill_accuracy_tests(MeasuredResults(connection))
    sql = f"select {columns} from accuracy_tests where {where} order by all"
    return connection.execute(sql).fetchall()


def last_points(connection, place=0):
    """By metric the points of the last checkpoint in one group."""
    measured = MeasuredResults(connection)
    curves = measured.outcomes(measured.answered_tasks[place]).by_name
    return {name: curve.value_RxN[-1].tolist() for name, curve in curves.items()}


@pytest.mark.parametrize(
    ("answerer", "expected"),
    [
        (oracle, [1, 1, 1, 1]),
        # Chance: 1 / candidates.
        (uniform, [1 / 4, 1 / 4, 1 / 2, 1 / 5]),
        # Always the first.
        (constant, [1, 0, 0, 0]),
        # The most shared tokens: right, wrong, right, and one of three that share two.
        (copying, [1, 0, 1, 1 / 3]),
    ],
)
def test_points_of_known_answerers_by_hand(empty, answerer, expected):
    answered(empty, "mix", answerer)
    measured = MeasuredResults(empty)
    assert measured.answered_tasks == [("s", "m", "t", 0, "cf")]
    checkpoints, curves = measured.outcomes(measured.answered_tasks[0])
    assert [one.step for one in checkpoints] == [5, 10]
    assert curves["raw"].value_RxN[-1] == pytest.approx(expected)
    assert curves["raw"].document_N.tolist() == ["d0", "d0", "d1", "d1"]


def test_differences_between_known_answerers(empty):
    for method, answerer in (("mix", uniform), ("oracle", oracle), ("copying", copying)):
        answered(empty, method, answerer)
    found = rows_of(empty, "method, against, difference, seeds, examples, documents", "task = 't'")
    # Points of the uniform one: 1.2 of 4; of the copying one: 7/3.
    assert found == [
        ("copying", "mix", pytest.approx(100 * (7 / 3 - 1.2) / 4), 1, 4, 2),
        ("oracle", "mix", pytest.approx(100 * (4 - 1.2) / 4), 1, 4, 2),
    ]


def test_a_method_that_answers_alike_differs_by_nothing(empty):
    answered(empty, "mix", constant)
    answered(empty, "same", constant)
    columns = "difference, stderr, low, high, p, p_holm, discordance"
    assert rows_of(empty, columns, "task = 't'") == [(0, 0, 0, 0, 1, 1, 0)]


def test_scores_are_normalised_as_the_metric_says(empty):
    # Without its context the true candidate is likelier still: only PMI sees what the context adds.
    answered(empty, "mix", oracle, metrics=("raw", "pmi", "answer_only", "overlap"))
    found = last_points(empty)
    # No model has a part in `overlap`.
    assert sorted(found) == ["answer_only", "pmi", "raw"]
    assert found["answer_only"] == pytest.approx([1 / 4, 1 / 4, 1 / 2, 1 / 5])
    assert found["pmi"] == pytest.approx([1, 1, 1, 1])


def test_shots_and_formulation_of_the_items_tell_them_apart(empty):
    answered(empty, "mix", constant)
    for table in ("accuracies", "choices"):
        empty.execute(f"update {table} set shots = 7")
    answered(empty, "mix", oracle)
    shots = [task.shots for task in MeasuredResults(empty).answered_tasks]
    points = [last_points(empty, place)["raw"] for place in range(2)]
    assert dict(zip(shots, points, strict=True)) == {0: [1] * 4, 7: [1, 0, 0, 0]}


def test_only_items_that_both_answered_count(empty):
    answered(empty, "mix", uniform)
    answered(empty, "pike", oracle, items=ITEMS[:3])
    # The same name with another true answer is another item.
    other = [("i3", "d1", 5, 4, [])]
    answered(empty, "random", oracle, items=[*ITEMS[:2], *other])
    found = rows_of(empty, "method, examples, documents", "task = 't'")
    assert found == [("pike", 3, 2), ("random", 2, 1)]


def test_seeds_are_paired_and_the_mean_over_tasks_is_tested(empty):
    for seed, task in itertools.product((0, 1), ("t", "u")):
        answered(empty, "mix", constant, seed, task=task)
        better = oracle if seed or task == "t" else constant
        answered(empty, "pike", better, seed, task=task)
    answered(empty, "pike", oracle, 2)
    columns = "task, difference, seeds, examples, p is not null"
    # By seed: t 75 and 75, u 0 and 75. Two documents are too few for a verdict over seeds.
    assert rows_of(empty, columns) == [
        ("mean", pytest.approx(56.25), 2, 8, False),
        ("t", pytest.approx(75), 2, 4, False),
        ("u", pytest.approx(37.5), 2, 4, False),
    ]
    (spread,) = empty.execute("select seed_sd from accuracy_tests where task = 'u'").fetchone()
    assert spread == pytest.approx(75 / 2**0.5)


def test_tasks_with_other_seeds_have_no_common_mean(empty):
    for method, seed in itertools.product(("mix", "pike"), (0, 1)):
        answered(empty, method, constant, seed, task="t")
    for method in ("mix", "pike"):
        answered(empty, method, constant, 0, task="u")
    assert rows_of(empty, "task, seeds") == [("t", 2), ("u", 1)]


def many(wrong):
    """Forty documents of one item of two candidates, wrong on those of the given numbers."""
    return [(f"i{n:02}", f"d{n:02}", 2, 0, [float(n not in wrong), 0.5]) for n in range(40)]


@pytest.mark.slow
def test_one_seed_is_tested_by_mcnemar_and_corrected_for_the_family(empty):
    answered(empty, "mix", copying, items=many(range(9)))
    answered(empty, "pike", copying, items=many([20]))
    answered(empty, "random", copying, items=many(range(10)))
    rows = rows_of(empty, "method, task, p, p_holm, low, high, stderr")
    found = {row[:2]: row[2:] for row in rows}
    # Of ten items that one alone gets right, one against nine: 2 (1 + 10) / 2^10.
    p, _, low, high, error = found["pike", "t"]
    assert (p, found["random", "t"][0]) == pytest.approx((22 / 1024, 1))
    # The family: two methods by one task and its mean.
    assert len(found) == 4
    assert [row[3] for row in rows] == pytest.approx(
        p_values.holm_adjusted([row[2] for row in rows])
    )
    # (9 - 1) / 40 = 20 points, and 2 errors to each side or about so.
    assert (low, high) == pytest.approx((20 - 1.96 * error, 20 + 1.96 * error), abs=2.6)


def test_the_mean_of_one_seed_is_not_tested_over_few_documents(empty):
    # Two tasks of three documents that one method alone gets right: nothing varies, and Student's t
    # would be sure of it. Each task's own test is exact: three coins.
    items = [(f"i{n}", f"d{n}", 2, 0, [1.0, 0.0]) for n in range(3)]
    for task in ("t", "u"):
        answered(empty, "mix", lambda candidates, gold, shared: [0.0, 1.0], task=task, items=items)
        answered(empty, "pike", copying, task=task, items=items)
    found = rows_of(empty, "task, difference, round(p, 12)")
    assert found == [("mean", 100, None), ("t", 100, 0.25), ("u", 100, 0.25)]


@pytest.mark.slow
def test_rows_of_one_seed_take_no_power_from_a_verdict(empty):
    # In each of three seeds other documents are right. Three methods of one seed are beside.
    for seed in range(3):
        for method, wrong in (("mix", range(seed, 18 + seed)), ("pike", range(seed, 4 + seed))):
            answered(empty, method, copying, seed, items=many(wrong))
    for method in ("glam", "random", "famo"):
        answered(empty, method, copying, items=many(range(9)))
    rows = rows_of(empty, "seeds, p, p_holm")
    for seeds, tests in ((3, 2), (1, 6)):
        # Each method on a task and on the mean over this task alone.
        p_M, holm_M = zip(*(row[1:] for row in rows if row[0] == seeds), strict=True)
        assert len(p_M) == tests
        assert holm_M == pytest.approx(p_values.holm_adjusted(p_M))
