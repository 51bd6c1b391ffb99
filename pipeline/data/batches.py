"""Batches of exactly b_k rows of every domain, in an order that is computed, not stored.

Legend of shapes: K domains, B rows of a batch, L tokens of context, N positions.
The state of a domain is one integer, the number of rows that it has given so far.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Ints
from pike_mixing.errors import InputError, refuse
from pike_mixing.row_order import Order
from pipeline.data.shards import Corpus


class DomainRows:
    """Rows of several domains; the caller keeps one position per domain and chooses the counts.

    The order of a domain is a function of (seed, purpose, the domain's name, epoch) and of nothing
    else: neither the counts nor the other domains change it, so that methods see the same rows of
    a domain in the same order, and another purpose ("statistics") sees rows of its own.
    """

    def __init__(
        self,
        corpora: Mapping[str, Corpus],
        length: int,
        seed: int,
        purpose: str,
        *,
        max_epochs: float | None = None,
    ) -> None:
        """Opens the orders of all domains.

        Args:
            corpora: By domain, in the order of every K-sized array; each has a row at least.
            length: Tokens L of a row.
            seed: The run's.
            purpose: What the rows are for.
            max_epochs: Times that a domain may be read; absent: any number.

        Raises:
            InputError: domains of different tokenizers.
        """
        (first, one), *others = corpora.items()
        refuse(
            [
                f"domains {first!r} and {domain!r} were packed with different tokenizers: pack "
                "both with one"
                for domain, corpus in others
                if corpus.manifest["tokenizer"] != one.manifest["tokenizer"]
            ]
        )
        self.length = length
        self.domains = tuple(corpora)
        self._corpora = tuple(corpora.values())
        self._orders = [
            Order(corpus.row_count(length), {"seed": seed, "purpose": purpose, "domain": domain})
            for domain, corpus in corpora.items()
        ]
        # Rows of every domain: position // rows is the domain's epoch.
        self.rows_K = np.array([order.rows for order in self._orders], np.int64)
        self._last_K = None if max_epochs is None else np.floor(max_epochs * self.rows_K)
        self._max_epochs = max_epochs

    def epochs_by_domain(self, positions_K: npt.NDArray[np.integer[Any]]) -> dict[str, float]:
        """How many times each domain has been read, by domain."""
        return dict(zip(self.domains, (positions_K / self.rows_K).tolist(), strict=True))

    def read_tokens_at(
        self,
        counts_K: npt.NDArray[np.integer[Any]],
        positions_K: npt.NDArray[np.integer[Any]],
        row_range: range | None = None,
    ) -> Ints:
        """The next `counts_K[k]` rows of every domain k from its position on.

        Args:
            counts_K: Rows of each domain.
            positions_K: Rows of each domain that were given before.
            row_range: Those of the batch's rows, in ascending order, that are read; absent: all.

        Returns:
            tokens_Bx(L+1), grouped by domain in the domains' order. The caller's next positions are
            `positions_K + counts_K`.

        Raises:
            InputError: a domain would be read more often than `max_epochs` allows.
        """
        assert len(counts_K) == len(positions_K) == len(self._corpora)
        assert min(counts_K) >= 0
        assert min(positions_K) >= 0
        if self._last_K is not None:
            beyond_K = np.asarray(counts_K) + np.asarray(positions_K) > self._last_K
            if beyond_K.any():
                named = [repr(d) for d, over in zip(self.domains, beyond_K, strict=True) if over]
                raise InputError(
                    f"{', '.join(named)}: all rows have been read {self._max_epochs:g} times, as "
                    "often as training.max_epochs allows: give the source more text, train for "
                    "fewer steps, take a method that bounds repetition (unimax), or raise "
                    "max_epochs; each of these trains anew"
                )
        begin_K = np.cumsum([0, *counts_K])
        place_B = np.arange(begin_K[-1]) if row_range is None else np.asarray(row_range, np.int64)
        edge_K = np.searchsorted(place_B, begin_K).tolist()
        tokens_BxL1 = np.empty((len(place_B), self.length + 1), np.int64)
        for k, (corpus, order) in enumerate(zip(self._corpora, self._orders, strict=True)):
            own = slice(edge_K[k], edge_K[k + 1])
            row_R = order.take(int(positions_K[k]), int(counts_K[k]))
            corpus.read_rows_into(tokens_BxL1[own], row_R[place_B[own] - begin_K[k]])
        return tokens_BxL1
