"""Seeded artificial languages whose entropy is known exactly: no model's loss can go below it.

Legend of shapes: N documents made at once, T symbols of a document, C contexts, V symbols,
S successors of a context.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from pike_mixing.row_order import GOLDEN, Uint64s, mix_bits
from pike_mixing.setting_limits import Limits, NonNegativeInt, PositiveInt, Share
from pipeline.data.source_interface import Document, Source
from pipeline.runtime import atomic_files

TABLE_SYMBOLS = 2**24
"""Largest number of (context, symbol) pairs of a language: its tables then take 128 MiB."""
_TOGETHER = 1024
# A probability is compared as an integer of so many bits, exactly and on every platform alike.
_PROBABILITY_BITS = 53


@dataclass(frozen=True)
class SyntheticSource(Source):
    """A Markov language over V symbols.

    The last `order` symbols determine S equally likely successors; with probability `noise` the
    next symbol is drawn from all V instead. Symbol j is written as `chr(alphabet + j)`. Before its
    first symbol a document has a fixed context (`order` times symbol 0), so that every symbol, the
    first ones included, has the same conditional entropy. Document i is a function of the language
    and i alone, by counter-based hashing: raising `documents` changes none that were there.
    """

    order: Annotated[int, Limits(at_least=0, at_most=6)]
    """How many symbols the next one depends on: 0 to 6."""
    symbols: Annotated[int, Limits(at_least=2)]
    """Size of the alphabet, V."""
    successors: PositiveInt
    """Equally likely next symbols of each context, s."""
    noise: Share
    """Probability of a symbol drawn uniformly from the whole alphabet, eps."""
    alphabet: PositiveInt
    """Code point of symbol 0; disjoint alphabets make disjoint tokens. 19968 (U+4E00) begins
    20,000 characters that tokenizers leave as they are."""
    documents: PositiveInt
    """How many documents."""
    length: PositiveInt
    """Symbols in each document."""
    seed: NonNegativeInt
    """Seed of the language and of its documents."""
    family: NonNegativeInt | None = None
    """Seed of a grammar that languages of one family share; absent: a language by itself."""
    overlap: Share = 0.0
    """Share of contexts whose successors are the family's. Languages of one family have the same
    such contexts, so that two of them agree on the smaller of their shares."""
    bytes: PositiveInt | None = None
    """Stop at the document that reaches so many UTF-8 bytes; absent: make them all."""
    licence: str = "CC0-1.0"
    """Licence of the documents, for the record."""
    kind: Literal["synthetic"] = "synthetic"

    def problems(self) -> list[str]:
        """Symbols that there are not, a family without overlap, and documents that are all one."""
        if bool(self.overlap) != (self.family is not None):
            return ["overlap: give both overlap and family, or neither"]
        if self.successors > self.symbols:
            return [f"successors: must lie between 1 and symbols ({self.symbols})"]
        if self.successors == 1 and not self.noise:
            return ["noise: must be above 0 with 1 successor: else all documents are the same"]
        if self.symbols ** (self.order + 1) > TABLE_SYMBOLS:
            return [f"symbols: {self.symbols} are too many for order {self.order}"]
        if _has_plain_characters(self.alphabet, self.symbols):
            return []
        return [
            f"alphabet: of the {self.symbols} code points from {self.alphabet} on some are blank, "
            "unassigned or changed by Unicode normalisation: 19968 has 20,000 good ones"
        ]

    @property
    def entropy_nats_per_character(self) -> float:
        """Entropy of a symbol given those before it, in nats.

        A successor has probability (1-eps)/s + eps/V, each of the V-s others eps/V. V = 40, s = 2,
        eps = 0.1: 2 of 0.4525 and 38 of 0.0025, so 1.287.
        """
        rare = self.noise / self.symbols
        likely = (1 - self.noise) / self.successors + rare
        others = self.symbols - self.successors
        surprise = others * rare * math.log(rare) if rare and others else 0.0
        return -(self.successors * likely * math.log(likely) + surprise)

    def read(
        self, skipped: Counter[str], downloaded_files: list[dict[str, Any]]
    ) -> Iterator[Document]:
        """All documents in the order of their numbers; none is left out."""
        successor_CxS = self.successor_table()
        for first in range(0, self.documents, _TOGETHER):
            number_N = np.arange(first, min(first + _TOGETHER, self.documents))
            symbol_NxT = self.draw_symbols(number_N, successor_CxS)
            for number, symbol_T in zip(number_N, symbol_NxT, strict=True):
                text = "".join(map(chr, (symbol_T + self.alphabet).tolist()))
                yield Document(f"{number:08d}", text)

    def revision_facts(self, documents_sha256: str, /) -> dict[str, Any]:
        """The revision: the version of the generator and the identity of the language."""
        alone = {"kind": self.kind, "family": None, "overlap": 0.0}
        values = {n: v for n, v in asdict(self).items() if alone.get(n, self) != v}
        language = atomic_files.json_digest(values)[:16]
        return {"revision": f"synthetic-1 settings {language} documents {documents_sha256}"}

    def successor_table(self) -> npt.NDArray[np.int64]:
        """Successors of each context; context c of order 2 is (c // V, c % V), the latest last.

        For a given older symbol, successor j of symbol x is Q[(P[x] + d_j) mod V] with hashed
        permutations P and Q and distinct offsets d: the successors of a context are distinct, and
        every symbol follows equally many others, so that no symbol dies out. The contexts that a
        family shares have the successors that the family's own language would give them; there a
        symbol can follow fewer others. The entropy is the same: it asks how many successors a
        context has, and not which.
        """
        own_CxS = self._draw_successors(self.seed)
        if self.family is None:
            return own_CxS
        drawn_C = _hash_counters("shared", self.family, np.arange(len(own_CxS), dtype=np.uint64))
        shared_C = _upper_53_bits(drawn_C) < np.uint64(round(self.overlap * 2**_PROBABILITY_BITS))
        return np.where(shared_C[:, None], self._draw_successors(self.family), own_CxS)

    def _draw_successors(self, seed: int) -> npt.NDArray[np.int64]:
        older = self.symbols ** max(self.order - 1, 0)
        hashed = _hash_counters("table", seed, np.arange(3 * older * self.symbols, dtype=np.uint64))
        rank = np.argsort(hashed.reshape(3, older, self.symbols), axis=-1, kind="stable")
        place_OxV, symbol_OxV, offset_OxS = rank[0], rank[1], rank[2, :, : self.successors]
        last = self.symbols if self.order else 1
        shifted = (place_OxV[:, :last, None] + offset_OxS[:, None, :]) % self.symbols
        successor_OxVxS = np.take_along_axis(symbol_OxV[:, None, :], shifted, axis=-1)
        return successor_OxVxS.reshape(older * last, self.successors).astype(np.int64)

    def draw_symbols(
        self, document_N: npt.NDArray[np.int64], successor_CxS: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """The symbols of documents by number: int64 [N, T]."""
        contexts = len(successor_CxS)
        noisy = np.uint64(round(self.noise * 2**_PROBABILITY_BITS))
        key_N = _hash_counters("documents", self.seed, document_N.astype(np.uint64))
        context_N = np.zeros(len(document_N), np.int64)
        symbol_NxT = np.empty((len(document_N), self.length), np.int64)
        counter_2T = np.arange(2 * self.length, dtype=np.uint64) * GOLDEN
        for t in range(self.length):
            coin_N = _upper_53_bits(mix_bits(key_N + counter_2T[2 * t]))
            draw_N = mix_bits(key_N + counter_2T[2 * t + 1])
            any_N = _uniform_below(draw_N, self.symbols)
            likely_N = successor_CxS[context_N, _uniform_below(draw_N, self.successors)]
            symbol_NxT[:, t] = np.where(coin_N < noisy, any_N, likely_N)
            context_N = (context_N * self.symbols + symbol_NxT[:, t]) % contexts
        return symbol_NxT


def _has_plain_characters(first_code_point: int, count: int) -> bool:
    """Whether each character stands for itself in every tokenizer: letters that NFKC keeps."""
    return 0 < first_code_point <= first_code_point + count <= 0x110000 and all(
        unicodedata.category(c)[0] in "LNS"
        and unicodedata.normalize("NFKC", c) == c
        and c != "\u2581"
        for c in map(chr, range(first_code_point, first_code_point + count))
    )


def _hash_counters(purpose: str, seed: int, counter: Uint64s) -> Uint64s:
    key = int(atomic_files.json_digest([purpose, seed])[:16], 16)
    return mix_bits(mix_bits(counter * GOLDEN + np.uint64(key)))


def _upper_53_bits(hash_N: Uint64s) -> Uint64s:
    """The upper `_PROBABILITY_BITS` bits, for comparison with a probability."""
    return hash_N >> np.uint64(64 - _PROBABILITY_BITS)


def _uniform_below(hash_N: Uint64s, bound: int) -> npt.NDArray[np.int64]:
    """Uniform numbers below `bound` from the upper 32 bits; the bias is below bound / 2**32."""
    return (((hash_N >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)
