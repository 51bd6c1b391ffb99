import re

import duckdb
import pytest

from pike_mixing.errors import InputError
from pipeline.results import power, views


def test_items_by_hand():
    # (1.959964 + 0.841621)^2 = 7.84888.
    assert power.unpaired_items(0.01, 0.5, 0.8, 0.05) == 39245
    # (0.619795 + 0.266009)^2 = 0.784650.
    assert power.paired_items(0.01, 0.1, 0.8, 0.05) == 7847
    # Twice the difference takes a quarter of the items.
    assert power.unpaired_items(0.02, 0.5, 0.8, 0.05) == 9812


def test_seeds_by_hand():
    # 9 seeds: (2.306 + 0.889) / 3 > 1; 10 seeds: (2.262 + 0.883) / 3.162 < 1.
    assert power.paired_seeds(1.0, 1.0, 0.8, 0.05) == 10
    assert power.paired_seeds(1.0, 0.0, 0.8, 0.05) == 2
    with pytest.raises(InputError, match="more than 10,000 seeds"):
        power.paired_seeds(0.001, 1.0, 0.8, 0.05)


def test_promised_power_is_reached():
    # The test's own power at 785 paired items, D = 5, q = 0.2: by the binomial, summed by hand.
    numpy = pytest.importorskip("numpy")
    paired = pytest.importorskip("pipeline.statistics.paired")
    items = power.paired_items(0.05, 0.2, 0.8, 0.05)
    draw = paired.stream("power")
    counts = draw.multinomial(items, [0.125, 0.075, 0.8], 600)
    found = numpy.mean([paired.mcnemar(int(a), int(b)) < 0.05 for a, b, _ in counts])
    assert 0.73 < found < 0.86


def test_answers_in_words_without_a_database():
    text = power.power(1.0, discordance=10.0, seed_sd=1.0)
    assert "paired     7,847 items" in text
    assert "unpaired   39,245 items" in text
    assert "seeds      10 of each method" in text
    assert "seeds      unknown" in power.power(1.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"given": 0.0}, "--difference is 0: it must lie between 0 and 100"),
        ({"given": 1.0, "accuracy": 100.0}, "--accuracy is 100"),
        ({"given": 1.0, "power": 0.2}, "--power is 0.2"),
        ({"given": 30.0}, "the discordance is 20%"),
        ({"given": 1.0, "seed_sd": -1.0}, "--seed-sd is -1"),
    ],
)
def test_numbers_out_of_range_are_refused(values, message):
    with pytest.raises(InputError, match=re.escape(message)):
        power.power(**values)


@pytest.fixture
def known(tmp_path):
    """A database of two comparisons on one task: discordance 10 and 30, spread 3 and 4."""
    path = tmp_path / "pike.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute(views.schema())
    connection.execute("create view method_accuracies as select 'mix' as method, 't' as task, "
                       "'pmi' as metric, 40.0 as value")  # fmt: skip
    connection.execute("insert into experiment values ('e', 'mix', null, '{}')")
    for method, discordance, spread in (("pike", 10.0, 3.0), ("random", 30.0, 4.0)):
        connection.execute(
            "insert into accuracy_tests (task, metric, method, against, discordance, seed_sd, "
            "design_effect, examples, documents) values ('t', 'pmi', ?, 'mix', ?, ?, 2.0, 120, 30)",
            [method, discordance, spread],
        )
    # Another score than the task's own does not count.
    connection.execute(
        "insert into accuracy_tests (task, formulation, metric, against, discordance) "
        "values ('t', 'pmi', 'raw', 'mix', 90.0)"
    )
    connection.execute("update accuracy_tests set formulation = 'pmi'")
    connection.close()
    return path


def test_a_task_of_the_database_says_what_is_not_given(known):
    text = power.power(2.0, task="t", database=known)
    items = 2 * power.paired_items(0.02, 0.2, 0.8, 0.05)
    assert f"paired     {items:,} items" in text
    assert "accuracy of 40.0%" in text
    assert "means of 2 comparisons on t, 120 items of 30 documents" in text
    # sqrt((9 + 16) / 2).
    assert "3.54 points" in text


def test_an_unknown_task_is_refused_with_those_that_are_there(known):
    with pytest.raises(InputError, match="compares no methods on it that differ; it has t"):
        power.power(2.0, task="u", database=known)


def test_a_database_without_tests_is_refused(tmp_path):
    duckdb.connect(str(tmp_path / "old.duckdb")).close()
    with pytest.raises(InputError, match="holds no tests of accuracies: make it anew"):
        power.power(2.0, task="t", database=tmp_path / "old.duckdb")
