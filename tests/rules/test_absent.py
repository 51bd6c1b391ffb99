import math

import numpy as np
from arrays import vector

from pike_mixing.numerics.absent import filled

NAN = math.nan


def test_a_gap_is_filled_by_the_last_value():
    assert filled(vector(1, NAN, 3), vector(7, 8, NAN)).tolist() == [1, 8, 3]


def test_a_domain_never_seen_gets_the_mean_of_the_known():
    # The mean of 1 and 8.
    assert filled(vector(1, NAN, NAN), vector(7, 8, NAN)).tolist() == [1, 8, 4.5]


def test_when_nothing_is_known_nothing_is_invented():
    assert np.isnan(filled(vector(NAN, NAN), vector(NAN, NAN))).all()
