import pytest

from pike_mixing.numerics.simplex import keys_for_shuffling, shuffled_others

NAMES = ("code", "prose", "tables", "web")


def test_each_domain_visits_all_others_once():
    for step in range(20):
        for i, order in enumerate(shuffled_others(keys_for_shuffling(NAMES, 0), step)):
            assert sorted([i, *order]) == [0, 1, 2, 3]


@pytest.mark.parametrize(("seed", "steps"), [(0, range(1, 60)), (1, range(60))])
def test_other_steps_and_seeds_give_other_orders(seed, steps):
    first = [shuffled_others(keys_for_shuffling(NAMES, seed), step)[0] for step in steps]
    # All six orders of three others come up.
    assert len({tuple(order) for order in first}) == 6


def test_the_order_goes_by_name_and_not_by_place():
    there, back = (
        shuffled_others(keys_for_shuffling(NAMES, 5), 9),
        shuffled_others(keys_for_shuffling(NAMES[::-1], 5), 9),
    )
    assert [[3 - j for j in order] for order in back[::-1]] == there
