"""Arrays that tests compare."""

import numpy as np


def assert_close(found, expected, rtol=1e-7, atol=1e-7):
    """Equal shapes, and numbers that differ by rounding alone; NaN is equal to NaN."""
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
