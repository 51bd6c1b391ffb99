import re

import numpy as np
import pytest

from pike_mixing.errors import InputError
from pipeline.results import power


def test_seeds_at_the_limits():
    assert power.paired_seeds(1.0, 0.0, 0.8, 0.05) == 3
    with pytest.raises(InputError, match="more than 10,000 seeds"):
        power.paired_seeds(0.001, 1.0, 0.8, 0.05)


@pytest.mark.slow
def test_promised_power_is_reached():
    # The test's own power at 785 paired items, D = 5, q = 0.2: by the binomial, summed by hand.
    stats = pytest.importorskip("scipy.stats")
    items = power.paired_items(0.05, 0.2, 0.8, 0.05)
    counts = np.random.default_rng(1).multinomial(items, [0.125, 0.075, 0.8], 600)
    found = np.mean([stats.binomtest(a, a + b).pvalue < 0.05 for a, b, _ in counts])
    assert 0.73 < found < 0.86


def test_answers_in_words_without_a_database():
    text = power.power(1.0, discordance=10.0, seed_sd=1.0)
    # (0.619795 + 0.266009)^2 = 0.784650 and (1.959964 + 0.841621)^2 = 7.84888.
    assert "paired     7,847 items" in text
    assert "unpaired   39,245 items" in text
    # The noncentral t: 0.748 at 9 seeds, 0.803 at 10.
    assert "seeds      10 of each method" in text
    # Twice the difference takes a quarter of the items.
    assert "unpaired   9,812 items" in power.power(2.0)
    assert "seeds      unknown" in power.power(1.0)
    items = 2 * power.paired_items(0.02, 0.2, 0.8, 0.05)
    assert f"paired     {items:,} items" in power.power(2.0, design_effect=2.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"given": 0.0}, "--difference is 0: it must lie between 1e-06 and 100"),
        ({"given": 1.0, "accuracy": 100.0}, "--accuracy is 100"),
        ({"given": 1.0, "power": 0.2}, "--power is 0.2"),
        ({"given": 1.0, "level": 0.0}, "--level is 0: it must lie between 0"),
        ({"given": 30.0}, "the discordance is 20%"),
        ({"given": 1.0, "seed_sd": -1.0}, "--seed-sd is -1"),
        ({"given": 1.0, "design_effect": 0.5}, "--design-effect is 0.5: it must be at least 1"),
    ],
)
def test_numbers_out_of_range_are_refused(values, message):
    with pytest.raises(InputError, match=re.escape(message)):
        power.power(**values)
