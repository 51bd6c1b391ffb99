"""Which windows of tokens or words occur verbatim somewhere else, by a rolling hash.

Shapes: T tokens, N windows asked about.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.data.shards import Corpus

Hashes = npt.NDArray[np.uint64]

CHUNK_TOKENS = 2**18
_BASE = 0x9E3779B97F4A7C15
_WORD = 2**64


def window_hashes(token_T: npt.NDArray[Any], width: int) -> Hashes:
    """Hash of each window of `width` tokens: sum_j token_j base^(width - 1 - j) mod 2^64.

    Two windows of lengths m and n give their join's hash as h_m base^n + h_n, so that the powers
    of two in `width` suffice: 16 tokens take four passes over the array.
    """
    if len(token_T) < width:
        return np.empty(0, np.uint64)
    power, power_width = token_T.astype(np.uint64), 1
    # Windows of no token have the hash 0.
    whole, whole_width = np.zeros(len(token_T) + 1, np.uint64), 0
    while True:
        if width & power_width:
            whole = _join_window_hashes(whole, whole_width, power, power_width)
            whole_width += power_width
        if whole_width == width:
            return whole
        power = _join_window_hashes(power, power_width, power, power_width)
        power_width *= 2


def occurrence_mask(hash_N: Hashes, corpus: Corpus, width: int) -> npt.NDArray[np.bool_]:
    """Whether a window with each of the hashes occurs in the corpus: bool [N].

    One pass over the stream in pieces, with memory for the hashes asked about and one piece. A
    table of their leading bits sorts out nearly all windows before any search.
    """
    known, place_N = np.unique(hash_N, return_inverse=True)
    result = np.zeros(len(known), bool)
    bits = min(max(len(known) * 16, 2**10).bit_length(), 26)
    shift = np.uint64(64 - bits)
    possible = np.zeros(2**bits, bool)
    possible[known >> shift] = True
    for start in range(0, corpus.tokens, CHUNK_TOKENS) if len(known) else ():
        stop = min(start + CHUNK_TOKENS + width - 1, corpus.tokens)
        hash_T = window_hashes(corpus.read_tokens(start, stop), width)
        likely_T = hash_T[possible[hash_T >> shift]]
        at = np.minimum(np.searchsorted(known, likely_T), len(known) - 1)
        result[at[known[at] == likely_T]] = True
    return result[place_N]


def _join_window_hashes(left: Hashes, left_width: int, right: Hashes, right_width: int) -> Hashes:
    """Hashes of the windows that are a left one and, behind it, a right one."""
    count = min(len(left), len(right) - left_width)
    shifted = left[:count] * np.uint64(pow(_BASE, right_width, _WORD))
    return shifted + right[left_width : left_width + count]
