"""What a training goes on from: plain values that say what they are of, and a digest.

A state names every setting that rows and weights depend on, and a training goes on with the same.
Free to change are the number of workers and what they draw ahead within `latency`, the data set's
`steps`, and where a step begins the number of processes and `micro_batch_rows`: no row depends on
them, sums over rows in their last bits alone. Of a domain's rows their number is compared.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pike_mixing.errors import InputError, refuse
from pike_mixing.interface import State

FORMAT = 2
"""Of states."""


def lossy_json_value(value: Any) -> Any:
    """The value as JSON holds it: of arrays and tensors their numbers, of tuples lists.

    Of what it cannot hold, the type's name.
    """

    def list_or_type_name(value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else str(type(value))

    return json.loads(json.dumps(value, default=list_or_type_name, skipkeys=True))


def state_with_digest(**content: Any) -> dict[str, Any]:
    """The state of this content, with its format and a digest of both."""
    state = content | {"format": FORMAT}
    return state | {"digest": _json_digest(state)}


def refuse_other_state(state: Any, must_equal: Mapping[str, Any]) -> None:
    """Refuses a state that is not of `state_with_digest`, or has other values than it must."""
    result = state.get("format") if isinstance(state, Mapping) else None
    if result != FORMAT:
        raise InputError(
            f"state.format: {result}, but this version of the library reads {FORMAT}: go on with "
            "the version that wrote the state, or begin anew"
        )
    if state.get("digest") != _json_digest({n: one for n, one in state.items() if n != "digest"}):
        raise InputError(
            "state.digest: the state is another than was written: go on from one that is whole"
        )
    values = _values_by_dotted_name(state)
    refuse(
        [
            f"state.{name}: {values.get(name, 'none')} in the state, but here it is {here}: go on "
            "as the state says"
            for name, here in _values_by_dotted_name(must_equal).items()
            if lossy_json_value(values.get(name)) != lossy_json_value(here)
        ]
    )


def _values_by_dotted_name(value: Any, name: str = "") -> dict[str, Any]:
    """The values within mappings, by dotted names."""
    if not isinstance(value, Mapping) or not value:
        return {name: value}
    parts = [
        _values_by_dotted_name(part, f"{name}.{key}".lstrip(".")) for key, part in value.items()
    ]
    return {n: v for part in parts for n, v in part.items()}


def _json_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(lossy_json_value(value), sort_keys=True).encode()).hexdigest()


def pack_state(state: State) -> dict[str, Any]:
    """Flat lists of numbers with their type and shape, which strict JSON holds bit for bit.

    What is no finite number, such as a loss that was not measured yet, is a text: "nan", "-inf".
    """
    return {
        name: {
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "values": [_number_or_text(value) for value in np.ravel(array).tolist()],
        }
        for name, array in state.items()
    }


def _number_or_text(value: float) -> float | str:
    if math.isfinite(value):
        return value
    # The sign of what is no number is a bit, too.
    return "-nan" if math.isnan(value) and math.copysign(1, value) < 0 else str(value)


def unpack_state(values: Mapping[str, Any]) -> State:
    """The arrays of `pack_state`."""
    return {
        name: np.array(
            [float(value) if isinstance(value, str) else value for value in of["values"]],
            dtype=of["dtype"],
        ).reshape(of["shape"])
        for name, of in values.items()
    }
