import itertools
from collections import Counter

from pike_mixing.rules.one_random import Random


def drawn(seed, steps, domains=("en", "hi", "de")):
    method = Random()
    state = method.init(domains, seed)
    return [int(method.allocate(state, step, 256).argmax()) for step in range(steps)]


def test_a_batch_holds_one_domain_alone():
    method = Random()
    state = method.init(("en", "hi", "de"), 0)
    for step in range(20):
        assert sorted(method.allocate(state, step, 256).tolist()) == [0, 0, 256]


def test_the_draw_is_a_function_of_seed_and_step():
    assert drawn(0, 50) == drawn(0, 50)
    assert drawn(0, 50) != drawn(1, 50)


def test_the_draws_stay_the_same_from_version_to_version():
    assert drawn(0, 12) == [2, 2, 1, 1, 1, 0, 0, 2, 1, 1, 0, 1]


def test_all_domains_are_drawn_equally_often():
    # 3,000 draws of 3: each 1,000 with a standard deviation of sqrt(3000 * 1/3 * 2/3) = 26.
    counts = Counter(drawn(5, 3000))
    assert all(abs(n - 1000) < 4 * 26 for n in counts.values())


def test_draws_of_neighbouring_steps_are_independent():
    # 9 pairs, 3,000 draws: each 333 with a standard deviation of 17.
    draws = drawn(6, 3001)
    pairs = Counter(itertools.pairwise(draws))
    assert len(pairs) == 9
    assert all(abs(n - 333) < 5 * 17 for n in pairs.values())
