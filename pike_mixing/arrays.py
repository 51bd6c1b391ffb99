"""The arrays of the interface: float64 for numbers, int64 for counts; NaN for not measured."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
