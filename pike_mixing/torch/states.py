"""What a training goes on from: plain values that say what they are of, and a digest of each.

A state names every setting that rows and weights depend on, and a training goes on with the same.
Free to change are the number of workers and what they draw ahead within `latency`, the data set's
`steps`, and where a step begins the number of processes and `micro_batch`: no row depends on them,
sums over rows in their last bits alone. Of a domain's rows their number is compared.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pike_mixing.errors import InputError
from pike_mixing.interface import State

FORMAT = 2
"""Of states."""


def as_json(value: Any) -> Any:
    """The value as JSON holds it; of what it cannot hold, the type's name."""

    def other(value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else str(type(value))

    return json.loads(json.dumps(value, default=other, skipkeys=True))


def seal(**content: Any) -> dict[str, Any]:
    """The state of this content: with its format, a digest of each value, and one of these."""
    state = content | {"format": FORMAT}
    digests = {name: _digest([name, value]) for name, value in _values(state).items()}
    return state | {"digests": digests, "digest": _digest(digests)}


def refuse_unfit(state: Any, same: Mapping[str, Any]) -> None:
    """Makes sure that a state is one that `seal` gave, and has the values that it must have.

    Raises:
        InputError: it is not; each value is named, with the reason.
    """
    result = state.get("format") if isinstance(state, Mapping) else None
    if result != FORMAT:
        raise InputError(
            f"state.format: {result}, but this version of the library reads {FORMAT}: go on with "
            "the version that wrote the state, or begin anew"
        )
    values = _values({n: value for n, value in state.items() if n not in ("digests", "digest")})
    written = _values(state.get("digests")) | {"digest": state.get("digest")}
    now = {n: _digest([n, value]) for n, value in values.items()}
    now["digest"] = _digest(state.get("digests"))
    wrong = {
        name: "is another than was written" if name in now else "is missing"
        for name in {**written, **now}
        if written.get(name) != now.get(name)
    }
    for name, here in _values(same).items():
        if name not in wrong and as_json(values.get(name)) != as_json(here):
            wrong[name] = f"{values.get(name, 'none')} in the state, but here it is {here}"
    if wrong:
        told = [f"state.{name}: {reason}" for name, reason in wrong.items()]
        raise InputError("\n".join([*told, "go on as the state says, or from one that is whole"]))


def _values(value: Any, name: str = "") -> dict[str, Any]:
    """The values within mappings, by dotted names."""
    if not isinstance(value, Mapping) or not value:
        return {name: value}
    parts = [_values(part, f"{name}.{key}".lstrip(".")) for key, part in value.items()]
    return {n: v for part in parts for n, v in part.items()}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(as_json(value), sort_keys=True).encode()).hexdigest()


def pack(state: State) -> dict[str, Any]:
    """Flat lists of numbers with their type and shape, which strict JSON holds bit for bit.

    What is no finite number, such as a loss that was not measured yet, is a text: "nan", "-inf".
    """
    return {
        name: {
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "values": [_number(value) for value in np.ravel(array).tolist()],
        }
        for name, array in state.items()
    }


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    # The sign of what is no number is a bit, too.
    return "-nan" if math.isnan(value) and math.copysign(1, value) < 0 else str(value)


def unpack(values: Mapping[str, Any]) -> State:
    """The arrays of `pack`."""
    return {
        name: np.array(
            [float(value) if isinstance(value, str) else value for value in of["values"]],
            dtype=of["dtype"],
        ).reshape(of["shape"])
        for name, of in values.items()
    }


def plain(value: Any) -> Any:
    """A state as JSON would bring it back: of arrays and tensors their numbers, of tuples lists.

    States that were saved by other ways than JSON hold such. What a domain's own data set gave is
    left as it is.
    """
    if isinstance(value, Mapping):
        return {n: part if n == "dataset" else plain(part) for n, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value
