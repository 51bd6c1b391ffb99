import math

import pytest
from arrays import assert_close, observed, seen, vector

from pike_mixing.errors import InputError
from pike_mixing.rules.skill_it import SkillIt

LN2 = math.log(2)
GRAPH = {"en": {"en": 1, "hi": 0.5}, "hi": {"hi": 1, "en": 0}}


def after(method, *losses):
    return observed(method, *(seen(validation_loss_K=vector(*loss)) for loss in losses))


@pytest.mark.parametrize(
    ("window", "losses", "odds"),
    [
        (3, [(3, 1)], (8, 2)),
        # Nats as they are: twice the losses square the odds.
        (3, [(6, 2)], (64, 4)),
        # Updates begin anew and do not compound.
        (1, [(3, 1)] * 5, (8, 2)),
        # The last two are summed.
        (2, [(9, 0), (1, 0), (0, 3)], (2, 8)),
        # A domain without a loss counts with its last.
        (1, [(3, 1), (math.nan, 3)], (8, 8)),
    ],
)
def test_weights_are_powers_of_the_last_losses(window, losses, odds):
    state = after(SkillIt(eta=LN2, window=window), *losses)
    assert_close(state["weights_K"], vector(*odds) / sum(odds))


def test_a_domain_is_weighed_by_what_it_teaches():
    method = SkillIt(eta=LN2, graph=GRAPH)
    # Read by name, not by place.
    assert method.init(("hi", "en"), 0)["graph_KxK"].tolist() == [[1, 0], [0.5, 1]]
    state = method.init(("en", "hi"), 0)
    # As if all losses were 1 nat: 2^1.5 : 2^1.
    assert_close(method.weights(state, 0), vector(2**0.5, 1) / (2**0.5 + 1))
    state = after(method, (1, 4))
    # 2^(1 + 0.5 * 4) : 2^4.
    assert_close(method.weights(state, 1), vector(1, 2) / 3)


@pytest.mark.parametrize(
    ("hi_to_en", "en_to_hi", "expected"),
    [
        (0, 1, [[1, 0.5], [0, 1]]),
        (1, 1, [[1, 0.5], [0.5, 1]]),
        # An edge of 1 counts half beside measured edges, too; these count as given.
        (0.3, 1, [[1, 0.5], [0.3, 1]]),
        (0.99, 1.5, [[1, 1.5], [0.99, 1]]),
    ],
)
def test_every_edge_of_one_to_another_domain_counts_half(hi_to_en, en_to_hi, expected):
    graph = {"en": {"en": 1, "hi": en_to_hi}, "hi": {"en": hi_to_en, "hi": 1}}
    state = SkillIt(graph=graph).init(("en", "hi"), 0)
    assert state["graph_KxK"].tolist() == expected


def test_the_first_evaluation_comes_after_a_round():
    need = SkillIt(every=4).needs().validation
    assert [step for step in range(10) if need.is_due(step)] == [4, 8]


def test_a_graph_of_other_domains_is_refused():
    with pytest.raises(InputError, match="graph: domain 'de' has no row"):
        SkillIt(graph=GRAPH).init(("en", "hi", "de"), 0)
    with pytest.raises(InputError, match=r"graph\.en: domain 'hi' has no entry"):
        SkillIt(graph={"en": {"en": 1}, "hi": {"en": 1, "hi": 1}}).init(("en", "hi"), 0)
    with pytest.raises(InputError, match="graph: at least one entry must be positive"):
        SkillIt(graph={"en": {"en": 0}}).init(("en",), 0)
