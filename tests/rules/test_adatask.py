import numpy as np
import pytest

from pike_mixing.interface import Signals
from pike_mixing.rules.adatask import AdaTask
from pike_mixing.settings import parse_settings


def coefficients(*counts, **settings):
    method = parse_settings(AdaTask, settings, "adatask")
    state = method.init(tuple("abc"[: len(counts)]), 0)
    signals = Signals(step=0, batch_rows=sum(counts), count_K=np.array(counts))
    return method.gradient_coefficients(state, signals).tolist()


def test_steps_of_domains_with_rows_are_averaged_and_the_authors_add_them_up():
    assert coefficients(3, 3, 2) == pytest.approx([1 / 3] * 3)
    assert coefficients(1, 0, 1) == [0.5, 0, 0.5]
    assert coefficients(3, 3, 2, scale="reference") == [1, 1, 1]
    assert coefficients(1, 0, 1, scale="reference") == [1, 0, 1]
