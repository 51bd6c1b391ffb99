"""Documents to token shards: whole documents, an end-of-sentence token after each, no padding.

Legend of shapes: N documents of a batch, T tokens of all of them, V pieces of the vocabulary.
"""

import contextlib
import functools
import hashlib
import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pike_mixing.errors import InputError
from pipeline.data import describe, document_filters
from pipeline.data import document_store as store
from pipeline.data.corpus_settings import (
    ENOUGH_DOCUMENTS,
    Hygiene,
    Packing,
    is_held_out_from_training,
    is_search_among_held_out,
    normalise_text,
)
from pipeline.data.document_filters import has_evaluation_item
from pipeline.data.shards import (
    DOCUMENT,
    FORMAT,
    SPLITS,
    SplitWriter,
    data_fingerprint,
    token_dtype,
)
from pipeline.data.tokenizer import Tokenizer
from pipeline.runtime import atomic_files, environment, made_from
from pipeline.runtime.progress import Progress
from pipeline.runtime.validate_settings import validate

log = logging.getLogger("pike")

UNTOUCHED = Hygiene()
BLANK = "\N{LOWER ONE EIGHTH BLOCK}".encode()
"""What stands for a blank in pieces of SentencePiece."""
LEAST_TOKENS = 16
"""A split of fewer tokens is a mistake."""
LARGEST_SHARE = 0.02
"""A document of a larger share of the tokens for validation is told: errors are over documents."""


class DocumentBatch(NamedTuple):
    """A row group of a file of documents, which is encoded at once."""

    path: Path
    group: int


class EncodedBatch(NamedTuple):
    """A batch's documents, in their order."""

    tokens_T: npt.NDArray[Any]
    """Ids with an end behind each document, in the corpus's dtype."""
    document_N: npt.NDArray[Any]
    """Of `shards.DOCUMENT`."""
    characters_N: npt.NDArray[np.int64]
    blanks: int
    """How often U+2581 stands in them, which SentencePiece reads as a blank."""
    read_bytes: int
    """UTF-8 bytes that were read, those of documents left out included."""
    skipped: Counter[str]
    """Documents left out, by reason."""


def list_batches(files: list[Path]) -> list[DocumentBatch]:
    """All batches of files of documents, in order."""
    result = []
    for path in files:
        with store.open_documents(path) as file:
            result += [DocumentBatch(path, group) for group in range(file.num_row_groups)]
    return result


def encode_batch_with_duplicates(
    batch: DocumentBatch, tokenizer: Tokenizer, hygiene: Hygiene
) -> EncodedBatch:
    """Encodes the documents of a batch, each whole, after hygiene but for `drop_duplicates`."""
    with store.open_documents(batch.path) as file:
        table = file.read_row_group(batch.group, columns=["text"], use_threads=False)
    # As bytes: neither SentencePiece nor SHA-256 wants Python's texts.
    column = table.column("text").combine_chunks()
    contents: list[bytes] = pc.cast(column, pa.binary()).to_pylist()
    read, skipped = sum(map(len, contents)), Counter[str]()
    if hygiene != UNTOUCHED:
        cleaned = (_clean_text(content, hygiene, skipped) for content in contents)
        contents = [content for content in cleaned if content is not None]
    pieces = tokenizer.encode(contents)
    end = np.array([tokenizer.eos], np.int32)
    stream = np.concatenate([part for ids in pieces for part in (ids, end)] or [end[:0]])
    hashes = b"".join(hashlib.sha256(content).digest()[:8] for content in contents)
    document_N = np.empty(len(contents), DOCUMENT)
    document_N["tokens"] = [len(ids) + 1 for ids in pieces]
    document_N["bytes"] = [len(content) for content in contents]
    document_N["hash"] = np.frombuffer(hashes, ">u8")
    return EncodedBatch(
        tokens_T=stream.astype(token_dtype(tokenizer.vocabulary)),
        document_N=document_N,
        characters_N=np.array([len(content.decode()) for content in contents], np.int64),
        blanks=sum(content.count(BLANK) for content in contents),
        read_bytes=read,
        skipped=skipped,
    )


def _clean_text(content: bytes, hygiene: Hygiene, skipped: Counter[str]) -> bytes | None:
    """The text as it is to be encoded; None when it is to be left out."""
    text = normalise_text(content.decode(), hygiene.normalisation)
    if len(text.strip()) < max(hygiene.min_characters, 1):
        skipped["short"] += 1
        return None
    if hygiene.decontaminate is not None and has_evaluation_item(text, hygiene.decontaminate):
        skipped["contaminated"] += 1
        return None
    return text.encode()


def pack_corpus(
    settings_file: Path, documents: Path, tokenizer: Path, out: Path, *, workers: int | None = None
) -> None:
    """Encodes a source's documents into the corpus `out`.

    The corpus is a function of the settings, the documents and the tokenizer; in how many threads
    it is made changes no byte. It appears whole or not at all.

    Args:
        settings_file: JSON of the fields of `Packing`.
        documents: Folder that `download` wrote; its name is the source's and the domain's.
        tokenizer: The `.model` file.
        out: Folder to be made.
        workers: Threads that encode; absent: as many as there are processors.

    Raises:
        InputError: wrong settings, damaged documents, too little text, a tokenizer that does not
            know the text, or a full disk.
    """
    values = atomic_files.read_json_mapping(settings_file)
    chosen = validate(Packing, values, "packing")
    unwanted = chosen.hygiene.decontaminate
    items = document_filters.evaluation_item_files(unwanted) if unwanted else []
    # Items that `pike fetch` wrote are known by their manifest. The corpus is renamed beside
    # itself: paths relative to it stay right.
    manifests = [path.parent / atomic_files.MANIFEST for path in items]
    inputs = [documents / atomic_files.MANIFEST, tokenizer, *(m for m in manifests if m.is_file())]
    given = [path for path in items if path.parent / atomic_files.MANIFEST not in inputs]
    taken = made_from.InputSnapshot("pack", [__name__], inputs=inputs, given=given)
    if taken.restore_manifest_if_unchanged(out / atomic_files.MANIFEST, values):
        return
    source = store.read_documents_manifest(documents, verify=True)
    encoder = Tokenizer(tokenizer)
    megabytes = max(1, round(source["bytes"] / 1e6))
    all_inputs = [documents, settings_file, *inputs, *items]
    with (
        atomic_files.atomic_write(out, "pack", all_inputs) as partial,
        Progress(f"pack {documents.name}", total=megabytes, unit="MB") as progress,
        contextlib.ExitStack() as opened,
    ):
        partial.mkdir()
        sizes = {"vocabulary": encoder.vocabulary, "shard_tokens": chosen.shard_tokens}
        splits = {n: opened.enter_context(SplitWriter(partial, n, **sizes)) for n in SPLITS}
        packer = _CorpusPacker(chosen, documents, sorted(source["files"]), encoder, splits)
        packer.pack(workers or environment.affinity_cpu_count(), progress)
        split_facts = {
            name: split.close_and_return_facts(encoder.unknown) for name, split in splits.items()
        }
        _refuse_unusable_corpus(chosen, documents, split_facts)
        if chosen.hygiene != UNTOUCHED:
            told = [f"{count:,} {reason}" for reason, count in sorted(packer.skipped.items())]
            log.info("%s: left out: %s", documents.name, ", ".join(told) or "none")
        doubts = (
            _validation_warning(chosen, documents, split_facts, packer.has_own_validation),
            _u2581_read_as_blank_warning(documents.name, encoder, packer.blanks),
        )
        result = {
            **_corpus_facts(documents.name, source, encoder, splits, split_facts),
            **_facts_changed_by_hygiene(chosen.hygiene, packer.skipped),
            "warnings": [doubt for doubt in doubts if doubt],
        }
        for warning in result["warnings"]:
            log.warning("%s", warning)
        (partial / "README.md").write_text(describe.corpus_card_text(result), encoding="utf-8")
        taken.write_manifest(
            partial / atomic_files.MANIFEST,
            settings=values,
            files=sorted(partial.iterdir()),
            facts=result,
            known_sha256={
                partial / shard["file"]: shard["sha256"]
                for facts in split_facts.values()
                for shard in facts["shards"]
            },
        )


class _CorpusPacker:
    """A corpus in the making."""

    def __init__(
        self,
        settings: Packing,
        folder: Path,
        files: list[str],
        tokenizer: Tokenizer,
        splits: dict[str, SplitWriter],
    ) -> None:
        self._settings = settings
        # Validation text first: of equal documents the first is kept.
        files = sorted(files, key=store.is_validation_documents_file, reverse=True)
        self.has_own_validation = store.is_validation_documents_file(files[0])
        self._files = [folder / name for name in files]
        self._tokenizer, self._splits = tokenizer, splits
        self._limit = math.inf if settings.tokens is None else settings.tokens
        self.skipped = Counter[str]()
        """Documents left out, by reason."""
        self.blanks = 0
        self._seen: set[int] = set()

    def pack(self, workers: int, progress: Progress) -> None:
        """Encodes all batches and appends them in order."""
        hygiene = self._settings.hygiene
        if hygiene.decontaminate is not None:
            # Read once, before several threads ask for them.
            document_filters.evaluation_ngram_hashes(hygiene.decontaminate)
        encode = functools.partial(
            encode_batch_with_duplicates, tokenizer=self._tokenizer, hygiene=hygiene
        )
        reading = list_batches(self._files)
        for read, batch in zip(reading, _encode_in_threads(encode, reading, workers), strict=True):
            self._add_batch(batch, store.is_validation_documents_file(read.path.name))
            progress.add(batch.read_bytes / 1e6, tokens=f"{self._splits['train'].tokens:,}")

    def _add_batch(self, batch: EncodedBatch, is_from_validation_file: bool) -> None:
        train, hash_N = self._splits["train"], batch.document_N["hash"]
        if self.has_own_validation:
            share, held_out_N = 1.0, np.full(len(hash_N), is_from_validation_file)
        else:
            share = self._settings.validation_share
            held_out_N = is_held_out_from_training(hash_N, share)
        search_N = held_out_N & is_search_among_held_out(hash_N, share)
        new_N = np.ones(len(hash_N), bool)
        if self._settings.hygiene.drop_duplicates:
            for number, hashed in enumerate(hash_N.tolist()):
                new_N[number] = hashed not in self._seen
                self._seen.add(hashed)
        # A document is taken while those before it are fewer than the limit.
        lengths_N = np.where(held_out_N | ~new_N, 0, batch.document_N["tokens"].astype(np.int64))
        within_N = train.tokens + np.cumsum(lengths_N) - lengths_N < self._limit
        chosen = {
            "train": ~held_out_N & new_N & within_N,
            "validation": held_out_N & ~search_N & new_N,
            "search": search_N & new_N,
        }
        for name, chosen_N in chosen.items():
            tokens_T = batch.tokens_T[np.repeat(chosen_N, batch.document_N["tokens"])]
            characters = int(batch.characters_N[chosen_N].sum())
            self._splits[name].add(tokens_T, batch.document_N[chosen_N], characters)
        self.skipped.update(batch.skipped)
        self.blanks += batch.blanks
        if not new_N.all():
            self.skipped["duplicate"] += int((~new_N & (held_out_N | within_N)).sum())


def _encode_in_threads(
    encode: Callable[[DocumentBatch], EncodedBatch],
    batches: Iterable[DocumentBatch],
    workers: int,
) -> Iterator[EncodedBatch]:
    """`encode` of each batch, in order, so many at once: encoding happens outside Python's lock."""
    waiting: deque[Future[EncodedBatch]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for batch in batches:
            waiting.append(pool.submit(encode, batch))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _refuse_unusable_corpus(
    settings: Packing, source: Path, split_facts: dict[str, dict[str, Any]]
) -> None:
    """Stops at a corpus that nobody can want."""
    domain = source.name
    documents = sum(split["documents"] for split in split_facts.values())
    tokens = sum(split["tokens"] for split in split_facts.values())
    # A search that finds its split empty says so.
    for name, split in ((name, split_facts[name]) for name in ("train", "validation")):
        if split["tokens"] < LEAST_TOKENS:
            raise InputError(
                f"domain {domain!r}: {split['documents']:,} of {documents:,} documents, "
                f"{split['tokens']:,} of {tokens:,} tokens are for {name}: "
                f"{store.remedy_for_few_documents(source)}, or change packing.validation_share "
                f"({settings.validation_share}), or the validation text that the source names"
            )
    unknown = sum(split["unknown_tokens"] for split in split_facts.values())
    if unknown > settings.unknown_share_limit * tokens:
        raise InputError(
            f"domain {domain!r}: {unknown / tokens:.1%} of {tokens:,} tokens are unknown to the "
            "tokenizer, more than packing.unknown_share_limit "
            f"({settings.unknown_share_limit:.1%}): take a tokenizer made for this text, or raise "
            "the limit"
        )


def _validation_warning(
    settings: Packing,
    source: Path,
    split_facts: dict[str, dict[str, Any]],
    has_own_validation: bool,
) -> str | None:
    """What is odd about the validation text, and no mistake."""
    validation = split_facts["validation"]
    tokens = sum(split["tokens"] for split in split_facts.values())
    share, largest = validation["tokens"] / tokens, validation["largest_share"]
    is_few, is_uneven = validation["documents"] < ENOUGH_DOCUMENTS, largest > LARGEST_SHARE
    is_small = not has_own_validation and share <= settings.validation_share / 2
    if not (is_few or is_uneven or is_small):
        return None
    remedy = "give more validation text"
    if not has_own_validation:
        more = store.remedy_for_few_documents(source)
        remedy = f"{more}, or set a larger packing.validation_share ({settings.validation_share})"
    counted = f"{validation['documents']:,} documents "
    counted += f"({'too few: ' if is_few else ''}{ENOUGH_DOCUMENTS} are enough), "
    if is_uneven:
        counted += (
            f"{'and' if is_few else 'but'} the largest has {largest:.1%} of their tokens "
            f"(limit {LARGEST_SHARE:.0%}), "
        )
        remedy = f"{store.remedy_for_unequal_documents(source)}, {remedy}"
    return (
        f"domain {source.name!r}: little text is for validation: {counted}"
        f"{validation['tokens']:,} of {tokens:,} tokens ({share:.1%}), so that losses are "
        f"uncertain: {remedy}"
    )


def _u2581_read_as_blank_warning(domain: str, tokenizer: Tokenizer, u2581_count: int) -> str | None:
    """That the tokenizer reads a character of the text as another."""
    named, blank = tokenizer.encode([f"a{BLANK.decode()}b", "a b"])
    if not u2581_count or named.tolist() != blank.tolist():
        return None
    return (
        f"domain {domain!r}: U+2581 (\N{LOWER ONE EIGHTH BLOCK}), which SentencePiece reads "
        f"as a blank, stands {u2581_count:,} times in the text: it cannot be told from a blank "
        "any more, nor does it count as unknown; write another character there if it matters"
    )


def _corpus_facts(
    domain: str,
    source: dict[str, Any],
    tokenizer: Tokenizer,
    splits: dict[str, SplitWriter],
    split_facts: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """The corpus manifest beside what every manifest holds."""
    dtype, validation = token_dtype(tokenizer.vocabulary).name, split_facts["validation"]
    floor = source["entropy_nats_per_character"]
    if floor is not None:
        # The entropy of the text shared out over its tokens: nothing is lost or gained between the
        # two, but where unknown tokens hide characters.
        known = not validation["unknown_tokens"]
        floor = float(floor * validation["characters"] / validation["tokens"]) if known else None
    return {
        "format": FORMAT,
        "source": domain,
        "tokenizer": tokenizer.manifest_facts(),
        "dtype": dtype,
        "splits": split_facts,
        "uniform_nats": math.log(tokenizer.vocabulary),
        "unigram_nats": unigram_nats(splits["train"].counts_V, splits["validation"].counts_V),
        "floor_nats": floor,
        **{name: source[name] for name in ("skipped", "revision", "licence")},
        "fingerprint": data_fingerprint(dtype, split_facts),
    }


def _facts_changed_by_hygiene(hygiene: Hygiene, dropped: Counter[str]) -> dict[str, Any]:
    """What hygiene adds to the corpus manifest and replaces in it; nothing where there was none."""
    if hygiene == UNTOUCHED:
        return {}
    # The floor is that of the text as it was made.
    return {"hygiene": {"dropped": dict(sorted(dropped.items()))}, "floor_nats": None}


def unigram_nats(train_V: npt.NDArray[np.int64], validation_V: npt.NDArray[np.int64]) -> float:
    """Cross-entropy of the validation tokens under the training tokens' frequencies.

    One is added to every count, so that a token never seen in training costs ln(N + V) nats
    and not infinitely many.
    """
    frequency_V = (train_V + 1) / (train_V.sum() + len(train_V))
    return float(-(validation_V @ np.log(frequency_V)) / validation_V.sum())
