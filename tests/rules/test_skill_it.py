import math

import pytest
from arrays import assert_close, vector

from pike_mixing.errors import InputError
from pike_mixing.interface import Signals
from pike_mixing.rules.skill_it import SkillIt

LN2 = math.log(2)
GRAPH = {"en": {"en": 1, "hi": 0.5}, "hi": {"hi": 1, "en": 0}}


def seen(loss_K, step=0):
    return Signals(step=step, batch_rows=4, validation_loss_K=loss_K)


def test_weights_grow_with_the_loss():
    method = SkillIt(eta=LN2)
    state = method.observe(method.init(("en", "hi"), 0), seen(vector(3, 1)))
    # 2^3 : 2^1.
    assert_close(method.weights(state, 1), vector(0.8, 0.2))


def test_losses_enter_in_nats_as_they_are():
    method = SkillIt(eta=LN2)
    state = method.observe(method.init(("en", "hi"), 0), seen(vector(6, 2)))
    # Twice the losses square the odds: 2^6 : 2^2.
    assert_close(method.weights(state, 1), vector(16, 1) / 17)


def test_updates_begin_anew_and_do_not_compound():
    method = SkillIt(eta=LN2, window=1)
    state = method.init(("en", "hi"), 0)
    for _ in range(5):
        state = method.observe(state, seen(vector(3, 1)))
    assert_close(method.weights(state, 1), vector(0.8, 0.2))


def test_the_last_losses_are_summed():
    method = SkillIt(eta=LN2, window=2)
    state = method.init(("en", "hi"), 0)
    for loss_K in (vector(9, 0), vector(1, 0), vector(0, 3)):
        state = method.observe(state, seen(loss_K))
    # 2^(1 + 0) : 2^(0 + 3).
    assert_close(method.weights(state, 1), vector(0.2, 0.8))
    assert state["losses_WxK"].tolist() == [[1, 0], [0, 3]]


def test_a_domain_is_weighed_by_what_it_teaches():
    method = SkillIt(eta=LN2, graph=GRAPH)
    state = method.init(("en", "hi"), 0)
    # As if all losses were 1 nat: 2^1.5 : 2^1.
    assert_close(method.weights(state, 0), vector(2**0.5, 1) / (2**0.5 + 1))
    state = method.observe(state, seen(vector(1, 4)))
    # 2^(1 + 0.5 * 4) : 2^4.
    assert_close(method.weights(state, 1), vector(1, 2) / 3)


def test_an_edge_of_one_to_another_domain_counts_half():
    graph = {"en": {"en": 1, "hi": 1}, "hi": {"en": 0.9, "hi": 1}}
    state = SkillIt(graph=graph).init(("en", "hi"), 0)
    assert state["graph_KxK"].tolist() == [[1, 0.5], [0.9, 1]]


def test_the_graph_is_read_by_name_not_by_place():
    state = SkillIt(graph=GRAPH).init(("hi", "en"), 0)
    assert state["graph_KxK"].tolist() == [[1, 0], [0.5, 1]]


def test_a_domain_without_a_loss_counts_with_its_last():
    method = SkillIt(eta=LN2, window=1)
    state = method.observe(method.init(("en", "hi"), 0), seen(vector(3, 1)))
    state = method.observe(state, seen(vector(math.nan, 3)))
    assert_close(method.weights(state, 1), vector(0.5, 0.5))


def test_the_first_evaluation_comes_after_a_round():
    need = SkillIt(every=4).needs().validation
    assert [step for step in range(10) if need.due(step)] == [4, 8]


def test_a_graph_of_other_domains_is_refused():
    with pytest.raises(InputError, match="graph: domain 'de' has no row"):
        SkillIt(graph=GRAPH).init(("en", "hi", "de"), 0)
    with pytest.raises(InputError, match=r"graph\.en: domain 'hi' has no entry"):
        SkillIt(graph={"en": {"en": 1}, "hi": {"en": 1, "hi": 1}}).init(("en", "hi"), 0)
    with pytest.raises(InputError, match="graph: at least one entry must be positive"):
        SkillIt(graph={"en": {"en": 0}}).init(("en",), 0)
