"""A method's state as plain values, which JSON holds exactly."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pike_mixing.interface import State


def packed(state: State) -> dict[str, Any]:
    """Lists of numbers with their type and shape; float64 survives JSON bit for bit."""
    return {
        name: {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.tolist()}
        for name, array in state.items()
    }


def unpacked(values: Mapping[str, Any]) -> State:
    """The arrays of `packed`."""
    return {
        name: np.array(of["values"], dtype=of["dtype"]).reshape(of["shape"])
        for name, of in values.items()
    }
