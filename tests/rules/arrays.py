"""Arrays that tests compare."""

import numpy as np


def vector(*values):
    return np.array(values, dtype=np.float64)


def matrix(*rows):
    return np.array(rows, dtype=np.float64)


def assert_close(found, expected, rtol=1e-7, atol=1e-7):
    """Equal shapes, and numbers that differ by rounding alone; NaN is equal to NaN."""
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
