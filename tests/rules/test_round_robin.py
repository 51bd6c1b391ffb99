from pike_mixing.rules.round_robin import RoundRobin


def test_domains_take_turns_in_their_order():
    method = RoundRobin()
    state = method.init(("en", "hi", "de"), 0)
    given = [method.allocate(state, step, 256).tolist() for step in range(4)]
    assert given == [[256, 0, 0], [0, 256, 0], [0, 0, 256], [256, 0, 0]]


def test_the_turn_is_a_function_of_the_step_alone():
    method = RoundRobin()
    state = method.init(("en", "hi", "de"), 0)
    assert method.weights(state, 3_000_001).tolist() == [0.0, 1.0, 0.0]
    assert method.weights(state, 3_000_001).tolist() == [0.0, 1.0, 0.0]
