"""Documents to token shards: whole documents, an end-of-sentence token after each, no padding.

Legend of shapes: V pieces of the vocabulary.
"""

import functools
import logging
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from pike_mixing.errors import InputError
from pike_mixing.limits import Limits, PositiveInt, Share
from pike_mixing.settings import parse
from pipeline import errors
from pipeline.data import documents as store
from pipeline.data import encoding, filters, worker_pool
from pipeline.data.corpus_manifest import FORMAT, SPLITS, data_fingerprint
from pipeline.data.encoding import UNTOUCHED
from pipeline.data.filters import Hygiene, Seen
from pipeline.data.shards import token_dtype
from pipeline.data.split_writer import SplitWriter
from pipeline.data.splits import are_validation
from pipeline.data.tokenizer import Tokenizer
from pipeline.runtime import atomic_files, code_fingerprint, cpus
from pipeline.runtime.progress import Progress

log = logging.getLogger("pike")

COMMIT_BATCHES = 16
"""Batches (of 4 MiB of text) after which what was written is made to survive a kill."""
LEAST_TOKENS = 16
"""A split of fewer tokens is a mistake."""


@dataclass(frozen=True)
class Packing:
    """How documents become a corpus."""

    validation_share: Annotated[float, Limits(above=0, below=1)]
    """Share of documents kept for validation, chosen by the hash of their text."""
    shard_tokens: PositiveInt = 2**26
    """Tokens in a shard file."""
    tokens: PositiveInt | None = None
    """Stop the training split at the document that reaches so many tokens; absent: take all."""
    hygiene: Hygiene = field(default_factory=Hygiene)
    """What is left out or changed before documents are encoded."""
    unknown_share_limit: Share = 0.05
    """Share of unknown tokens above which the tokenizer is taken not to fit the text."""


def pack(
    settings_file: Path, documents: Path, tokenizer: Path, out: Path, *, workers: int | None = None
) -> None:
    """Encodes a source's documents into the corpus `out`.

    The corpus is a function of the settings, the documents and the tokenizer; in how many threads
    it is made, and whether the work was interrupted, changes no byte. What was written before a
    kill is not written again.

    Args:
        settings_file: JSON of the fields of `Packing`.
        documents: Folder that `download` wrote; its name is the source's and the domain's.
        tokenizer: The `.model` file.
        out: Folder to be made.
        workers: Threads that encode; absent: as many as there are processors.

    Raises:
        InputError: wrong settings, damaged documents, too little text, a tokenizer that does not
            know the text, a full disk, or another process that is making the same corpus.
    """
    values = atomic_files.read_mapping(settings_file)
    chosen = parse(Packing, values, "packing")
    source = store.manifest(documents, verify=True)
    encoder = Tokenizer(tokenizer)
    unwanted = chosen.hygiene.decontaminate
    inputs = [documents / atomic_files.MANIFEST, tokenizer]
    inputs += filters.paths(unwanted) if unwanted else []
    identity = {
        "settings": values,
        "inputs": [atomic_files.sha256(path) for path in inputs],
        "code": code_fingerprint.of(__name__),
    }
    with (
        atomic_files.resumable_folder(
            out,
            "pack",
            identity,
            [documents, settings_file, *inputs],
            forget=(InputError, OSError),
        ) as partial,
        Progress(f"pack {documents.name}", total=_megabytes(source), unit="MB") as progress,
    ):
        listed = [documents / name for name in sorted(source["files"])]
        work = _Work(chosen, listed, encoder, partial)
        splits = work.run(workers or cpus.available_cpus(), progress)
        facts = {name: split.close(encoder.unknown) for name, split in splits.items()}
        _refuse(chosen, documents, facts)
        atomic_files.write_manifest(
            partial / atomic_files.MANIFEST,
            stage="pack",
            settings=values,
            # The folder is renamed beside itself: paths relative to it stay right.
            inputs=inputs,
            files=[f for f in sorted(partial.iterdir()) if f.suffix in (".bin", ".npy")],
            modules=[__name__],
            facts={
                **_facts(documents.name, source, encoder, splits, facts),
                **work.cleaned(),
            },
            known={
                partial / s["file"]: s["sha256"] for part in facts.values() for s in part["shards"]
            },
        )


class _Work:
    """A corpus in the making."""

    def __init__(
        self, chosen: Packing, listed: list[Path], tokenizer: Tokenizer, out: Path
    ) -> None:
        self._chosen, self._tokenizer, self._out = chosen, tokenizer, out
        self._limit = math.inf if chosen.tokens is None else chosen.tokens
        self._listed = listed
        path = out / atomic_files.WORK / "state.json"
        begin: dict[str, Any] = {"batches": 0, "read": 0, "splits": {}, "skipped": {}, "items": {}}
        state: dict[str, Any] = atomic_files.read_json(path) if path.exists() else begin
        self._done: int = state["batches"]
        self._read: int = state["read"]
        self._skipped = Counter[str](state["skipped"])
        self._items = Counter({int(item): n for item, n in state["items"].items()})
        self._seen = Seen()
        self._splits = {
            name: SplitWriter(
                out,
                name,
                vocabulary=tokenizer.vocabulary,
                shard_tokens=chosen.shard_tokens,
                state=state["splits"].get(name),
            )
            for name in SPLITS
        }
        if chosen.hygiene.drop_duplicates:
            for split in self._splits.values():
                self._seen.new(split.hashes())

    def run(self, workers: int, progress: Progress) -> dict[str, SplitWriter]:
        """Encodes the batches that are left and appends them in order."""
        if self._chosen.hygiene.decontaminate is not None:
            # Read once, before several threads ask for them.
            filters.items(self._chosen.hygiene.decontaminate)
        left = encoding.batches(self._listed)[self._done :]
        call = functools.partial(
            encoding.encode, encoder=self._tokenizer, hygiene=self._chosen.hygiene
        )
        progress.add(self._read / 1e6)
        try:
            for batch in worker_pool.in_order(call, left, workers):
                self._add(batch)
                progress.add(batch.read_bytes / 1e6, tokens=f"{self._splits['train'].tokens:,}")
                if self._done % COMMIT_BATCHES == 0:
                    self._commit()
        except BaseException:
            for split in self._splits.values():
                split.abandon()
            raise
        return self._splits

    def _add(self, batch: encoding.Encoded) -> None:
        train = self._splits["train"]
        validation_N = are_validation(batch.hash_N, self._chosen.validation_share)
        new_N = np.ones(len(batch.hash_N), bool)
        if self._chosen.hygiene.drop_duplicates:
            new_N = self._seen.new(batch.hash_N)
        # A document is taken while those before it are fewer than the limit.
        lengths_N = np.where(validation_N | ~new_N, 0, batch.tokens_N)
        within_N = train.tokens + np.cumsum(lengths_N) - lengths_N < self._limit
        train.add(batch, ~validation_N & new_N & within_N)
        self._splits["validation"].add(batch, validation_N & new_N)
        self._skipped.update(batch.skipped)
        self._items.update(batch.items)
        if not new_N.all():
            self._skipped["duplicate"] += int((~new_N & (validation_N | within_N)).sum())
        self._done += 1
        self._read += batch.read_bytes

    def cleaned(self) -> dict[str, Any]:
        """What the manifest says of hygiene, where there was any."""
        chosen = self._chosen.hygiene
        if chosen == UNTOUCHED:
            return {}
        found: dict[str, Any] = {"dropped": dict(sorted(self._skipped.items()))}
        told = [f"{count:,} {reason}" for reason, count in found["dropped"].items()]
        log.info("%s: left out: %s", self._listed[0].parent.name, ", ".join(told) or "none")
        if chosen.decontaminate is not None:
            found["contamination"] = filters.items(chosen.decontaminate).report(self._items)
        # The floor is that of the text as it was made.
        return {"hygiene": found, "floor_nats": None}

    def _commit(self) -> None:
        """Makes what was written so far survive a kill."""
        splits = {name: split.state() for name, split in self._splits.items()}
        state = {"batches": self._done, "read": self._read, "splits": splits}
        state |= {"skipped": self._skipped, "items": self._items}
        with errors.explain_disk_errors(self._out):
            atomic_files.write_json(self._out / atomic_files.WORK / "state.json", state)


def _megabytes(source: dict[str, Any]) -> int:
    return max(1, round(source["bytes"] / 1e6))


def _refuse(chosen: Packing, source: Path, facts: dict[str, dict[str, Any]]) -> None:
    """Stops at a corpus that nobody can want."""
    domain = source.name
    documents = sum(split["documents"] for split in facts.values())
    tokens = sum(split["tokens"] for split in facts.values())
    for name, split in facts.items():
        if split["tokens"] < LEAST_TOKENS:
            raise InputError(
                f"domain {domain!r}: {split['documents']:,} of {documents:,} documents, "
                f"{split['tokens']:,} of {tokens:,} tokens are for {name}: "
                f"{store.more(source)}, or change packing.validation_share "
                f"({chosen.validation_share})"
            )
    unknown = sum(split["unknown_tokens"] for split in facts.values())
    if unknown > chosen.unknown_share_limit * tokens:
        raise InputError(
            f"domain {domain!r}: {unknown / tokens:.1%} of {tokens:,} tokens are unknown to the "
            f"tokenizer, more than packing.unknown_share_limit ({chosen.unknown_share_limit:.1%}): "
            "take a tokenizer made for this text, or raise the limit"
        )


def _facts(
    domain: str,
    source: dict[str, Any],
    tokenizer: Tokenizer,
    splits: dict[str, SplitWriter],
    facts: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """The corpus manifest beside what every manifest holds."""
    dtype = token_dtype(tokenizer.vocabulary).name
    return {
        "format": FORMAT,
        "source": domain,
        "tokenizer": tokenizer.facts(),
        "dtype": dtype,
        "splits": facts,
        "uniform_nats": math.log(tokenizer.vocabulary),
        "unigram_nats": unigram_nats(splits["train"].counts_V, splits["validation"].counts_V),
        "floor_nats": _floor(source["entropy_nats_per_character"], facts["validation"]),
        "skipped": source["skipped"],
        "revision": source["revision"],
        "licence": source["licence"],
        "fingerprint": data_fingerprint(dtype, {n: split["shards"] for n, split in facts.items()}),
    }


def unigram_nats(train_V: npt.NDArray[np.int64], validation_V: npt.NDArray[np.int64]) -> float:
    """Cross-entropy of the validation tokens under the training tokens' frequencies.

    One is added to every count, so that a token never seen in training costs ln(N + V) nats
    and not infinitely many.
    """
    frequency_V = (train_V + 1) / (train_V.sum() + len(train_V))
    return float(-(validation_V @ np.log(frequency_V)) / validation_V.sum())


def _floor(entropy: float | None, validation: dict[str, Any]) -> float | None:
    """Entropy of the validation text shared out over its tokens, in nats a token.

    It holds since tokens determine the text: nothing is lost or gained between the two. Where
    unknown tokens hide characters it does not, and there is no floor.
    """
    if entropy is None or validation["unknown_tokens"]:
        return None
    return float(entropy * validation["characters"] / validation["tokens"])
