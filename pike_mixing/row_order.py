"""An order of rows that is computed, not stored.

Shapes: N positions, O orders.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Ints

Uint64s = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Step between counters."""

BLOCK = 4096
"""Positions whose rows are computed at once; a batch then costs microseconds."""

_ROUNDS = 8


def mix_bits(value: Uint64s) -> Uint64s:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): the same on every platform."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


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
        self._half_bits_and_masks = _half_bits_and_masks(rows)
        self._blocks: dict[int, Ints] = {}

    def at(self, position_N: npt.NDArray[np.integer[Any]]) -> Ints:
        """Row at each position of the endless order; position p lies in epoch p // rows."""
        counter_N: Uint64s = np.asarray(position_N, np.uint64)
        epoch_N = counter_N // np.uint64(self.rows)
        place_N = counter_N % np.uint64(self.rows)
        key_RoundxN = mix_bits(self._keys[:, None] + epoch_N * GOLDEN)
        N = len(place_N)
        halves_3xN = np.broadcast_to(self._half_bits_and_masks[:, None], (3, N))
        return _permute_below_rows(
            place_N, key_RoundxN, np.broadcast_to(np.uint64(self.rows), N), halves_3xN
        )

    def take(self, position: int, count: int) -> Ints:
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


def first_epochs(orders: Sequence[Order]) -> list[Ints]:
    """The first epoch of each of several orders, computed together: each `at(arange(rows))`.

    For many short ones: an order of four costs as much by itself as one of a thousand.
    """
    if not orders:
        return []
    rows_O = np.array([order.rows for order in orders], np.int64)
    ends_O = np.cumsum(rows_O)
    which_N = np.repeat(np.arange(len(orders)), rows_O)
    place_N = np.arange(len(which_N)) - (ends_O - rows_O)[which_N]
    key_RoundxO = mix_bits(np.stack([order._keys for order in orders], axis=1))
    halves_3xO = np.array([order._half_bits_and_masks for order in orders]).T
    row_N = _permute_below_rows(
        place_N.astype(np.uint64),
        key_RoundxO[:, which_N],
        rows_O.astype(np.uint64)[which_N],
        halves_3xO[:, which_N],
    )
    return np.split(row_N, ends_O[:-1])


def _half_bits_and_masks(rows: int) -> Uint64s:
    """Bits of the lower half of the numbers below a power of two; masks of both halves."""
    bits = (rows - 1).bit_length()
    return np.array([bits // 2, (1 << bits // 2) - 1, (1 << (bits - bits // 2)) - 1], np.uint64)


def _permute_below_rows(
    place_N: Uint64s, key_RoundxN: Uint64s, rows_N: Uint64s, halves_3xN: Uint64s
) -> Ints:
    """Applies the network until the result is below `rows_N`."""
    row_N = _permute_bits(place_N, key_RoundxN, halves_3xN)
    outside = np.flatnonzero(row_N >= rows_N)
    while len(outside):
        again = row_N[outside], key_RoundxN[:, outside], halves_3xN[:, outside]
        row_N[outside] = _permute_bits(*again)
        outside = outside[row_N[outside] >= rows_N[outside]]
    return row_N.astype(np.int64)


def _permute_bits(value_N: Uint64s, key_RoundxN: Uint64s, halves_3xN: Uint64s) -> Uint64s:
    """One pass of the network: each half in turn is xored with a hash of the other."""
    bits_N, low_mask_N, high_mask_N = halves_3xN
    high_N, low_N = value_N >> bits_N, value_N & low_mask_N
    for number, key_N in enumerate(key_RoundxN):
        if number % 2:
            low_N = low_N ^ (mix_bits(high_N + key_N) & low_mask_N)
        else:
            high_N = high_N ^ (mix_bits(low_N + key_N) & high_mask_N)
    return (high_N << bits_N) | low_N
