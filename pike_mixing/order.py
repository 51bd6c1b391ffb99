"""An order of rows that is computed, not stored.

Shapes: N positions.
"""

import hashlib
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from pike_mixing.numerics.splitmix import GOLDEN, Uint64s, mix

BLOCK = 4096
"""Positions whose rows are computed at once; a batch then costs microseconds."""

Int64s = npt.NDArray[np.int64]

_ROUNDS = 8


class Order:
    """The endless shuffled order of n rows: epoch after epoch, each a permutation of its own.

    A Feistel network over the smallest power of two that holds n permutes the numbers below that
    power; cycle walking (apply it again until the result is below n) leaves a permutation of
    0..n-1. Any position is reached at once, so that to resume is to know one integer. Only
    unsigned 64-bit integer arithmetic is used: the order is the same on every platform and with
    every version of NumPy, whose own generators promise no such thing (NEP 19).
    """

    def __init__(self, rows: int, key: object) -> None:
        """Order of `rows` rows under a JSON-able key."""
        assert rows >= 1
        self.rows = rows
        text = json.dumps(key, sort_keys=True, separators=(",", ":"), allow_nan=False)
        seeds = hashlib.shake_256(text.encode()).digest(8 * _ROUNDS)
        self._keys = np.frombuffer(seeds, "<u8").astype(np.uint64)
        bits = (rows - 1).bit_length()
        self._low = np.uint64(bits // 2)
        self._low_mask = np.uint64((1 << bits // 2) - 1)
        self._high_mask = np.uint64((1 << (bits - bits // 2)) - 1)
        self._blocks: dict[int, Int64s] = {}

    def at(self, position_N: npt.NDArray[np.integer[Any]]) -> Int64s:
        """Row at each position of the endless order; position p lies in epoch p // rows."""
        counter_N: Uint64s = np.asarray(position_N, np.uint64)
        epoch_N = counter_N // np.uint64(self.rows)
        place_N = counter_N % np.uint64(self.rows)
        key_RoundxN = mix(self._keys[:, None] + epoch_N * GOLDEN)
        row_N = self._permute(place_N, key_RoundxN)
        outside = np.flatnonzero(row_N >= self.rows)
        while len(outside):
            row_N[outside] = self._permute(row_N[outside], key_RoundxN[:, outside])
            outside = outside[row_N[outside] >= self.rows]
        return row_N.astype(np.int64)

    def take(self, position: int, count: int) -> Int64s:
        """Rows at positions `position` to `position + count - 1`, from blocks computed ahead."""
        first, last = position // BLOCK, (position + max(count, 1) - 1) // BLOCK
        self._blocks = {b: r for b, r in self._blocks.items() if first <= b <= last}
        for block in range(first, last + 1):
            if block not in self._blocks:
                self._blocks[block] = self.at(np.arange(block * BLOCK, (block + 1) * BLOCK))
        offset = position - first * BLOCK
        if first == last:
            return self._blocks[first][offset : offset + count]
        rows = np.concatenate([self._blocks[block] for block in range(first, last + 1)])
        return rows[offset : offset + count]

    def _permute(self, value_N: Uint64s, key_RoundxN: Uint64s) -> Uint64s:
        """One pass of the network: each half in turn is xored with a hash of the other."""
        high_N, low_N = value_N >> self._low, value_N & self._low_mask
        for number, key_N in enumerate(key_RoundxN):
            if number % 2:
                low_N = low_N ^ (mix(high_N + key_N) & self._low_mask)
            else:
                high_N = high_N ^ (mix(low_N + key_N) & self._high_mask)
        return (high_N << self._low) | low_N
