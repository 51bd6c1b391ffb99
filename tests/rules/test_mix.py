import numpy as np

from pike_mixing.interface import Signals
from pike_mixing.rules.mix import Mix


def test_every_batch_holds_equal_parts():
    state = Mix().init(("en", "hi", "de"), 0)
    # 256 / 3 = 85 remainder 1; plain rounding would give 255 rows.
    assert Mix().allocate(state, 0, 256).tolist() == [86, 85, 85]
    assert Mix().allocate(state, 1, 256).tolist() == [86, 85, 85]
    assert Mix().weights(state, 7).tolist() == [1 / 3] * 3


def test_nothing_is_measured_and_nothing_changes():
    method = Mix()
    assert method.needs().statistics is None
    assert not method.needs().losses
    assert not method.needs().gramian
    state = method.init(("en", "hi"), 0)
    assert method.observe(state, Signals(step=0, batch_rows=4)) is state
    assert method.loss_weights(state, Signals(step=0, batch_rows=4)) is None
    assert method.combine(state, np.eye(2)) is None
