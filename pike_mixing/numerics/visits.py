"""In which order a surgeon visits the other domains: random, a function of (seed, step, names).

Not of the domains' order in the list, so that the list's order changes no result.
"""

import hashlib

import numpy as np

from pike_mixing.arrays import Ints


def keys(domains: tuple[str, ...], seed: int) -> Ints:
    """One int64 for each domain that stands for its name and the seed in `orders`."""
    texts = [f"visits {seed} {domain}".encode() for domain in domains]
    digests = [hashlib.sha256(text).digest() for text in texts]
    return np.array([int.from_bytes(d[:7], "big") for d in digests], dtype=np.int64)


def orders(key_P: Ints, step: int) -> list[list[int]]:
    """For each of P domains the indices of the P - 1 others in the order of this step's visits."""
    key = key_P.tolist()
    domains = range(len(key))

    def draw(i: int, j: int) -> bytes:
        return hashlib.sha256(f"{key[i]} {key[j]} {step}".encode()).digest()

    return [sorted((j for j in domains if j != i), key=lambda j: draw(i, j)) for i in domains]
