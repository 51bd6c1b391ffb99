"""Multiple choice from held-out documents: which continuation is the true one?

A task of this project's own, for models too small for the usual ones. An item is a stretch of a
validation document as context, the tokens that follow it, and as many other stretches of exactly
that length, from the same document (hard: the topic gives nothing away) or from others (easy).
Precedents: suffix identification (Sun et al. 2021), ChapterBreak (Sun et al. 2022).

No candidate, true or false, occurs verbatim in the training text, so that having learnt text by
heart neither helps nor harms. Few tokens occur anywhere: of few-shot items what does not occur is a
candidate together with the tokens of context before it. Solved items are the first that the domain
gives, the same for all questions. Everything is a function of texts and settings: documents come in
the order of their hashes, places within them in a keyed order.

Shapes: I items, N = distractors + 1 candidates, C tokens of context, W tokens of a candidate,
S places in a document where a candidate may start.
"""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Ints
from pike_mixing.row_order import Order, first_epochs
from pipeline.data.ngrams import Hashes, occurrence_mask, window_hashes
from pipeline.data.shards import Corpus
from pipeline.evaluation.prompt_encoding import EncodedItem
from pipeline.runtime import atomic_files
from pipeline.tasks.evaluation_settings import Choice, FewShot

FEWEST_DOCUMENTS = 4
MOST_PER_DOCUMENT = 16
MOST_TOKENS_READ = 4096
"""Only so much of a document's beginning is used, or twice what an item needs where that is more:
books are no better than chapters here."""
POOL = 2
"""Documents looked at, as a multiple of the items wanted: some give none."""
FEWEST_WORD_STARTS = 0.05
"""Where fewer of a domain's tokens begin a word, as in languages of mere symbols, words are no
guide and candidates are cut anywhere."""


@dataclass(frozen=True)
class DomainItems:
    names: list[str]
    """{document}-{place of the true continuation}: which item it is, whatever else is asked."""
    documents: list[str]
    """Hash of each item's document, 16 hex digits: the items' clusters."""
    context_IxC: Ints
    candidate_IxNxW: Ints
    gold_I: Ints
    """Index of the true continuation."""
    digest: str
    """SHA-256 over all of it: two evaluations with equal digests asked the same."""
    shots: int
    solved_T: tuple[int, ...]
    """The tokens of as many solved items, one behind another."""

    def encoded_items(self, *, unconditional_token: int) -> list[EncodedItem]:
        """The items as they are asked; candidates alone stand behind the token."""
        columns = zip(
            *(self.names, self.documents, self.gold_I.tolist()),
            *(self.context_IxC.tolist(), self.candidate_IxNxW.tolist()),
            strict=True,
        )
        return [
            EncodedItem(
                id=name,
                cluster=document,
                gold=gold,
                context_C=(*self.solved_T, *context),
                candidates=tuple(candidates),
                unconditional_C=(unconditional_token,),
                characters=(),
                bytes=(),
                shots=self.shots,
            )
            for name, document, gold, context, candidates in columns
        ]

    def manifest_facts(self) -> dict[str, Any]:
        return {
            **({"shots": self.shots} if self.shots else {}),
            "items": len(self.names),
            "documents": len(set(self.documents)),
            "chance": 100 / self.candidate_IxNxW.shape[1],
            "sha256": self.digest,
        }

    def document_minimum_problem(self, choice: Choice) -> str | None:
        """Why items of too few documents make no task, or None. A task is never padded."""
        result = len(set(self.documents))
        if result >= FEWEST_DOCUMENTS:
            return None
        return (
            f"items could be made from {result} validation documents, {FEWEST_DOCUMENTS} are the "
            f"fewest: each needs {choice.min_document_tokens} tokens with text that does not occur "
            "in the training split"
        )


@dataclass(frozen=True)
class _Passage:
    """The usable part of a document."""

    key: str
    token_T: Ints
    start_S: Ints
    """Places where a candidate may start."""
    hash_S: Hashes
    """Hash of the candidate at each of them."""

    def with_starts(self, keep_S: npt.NDArray[np.bool_]) -> "_Passage":
        """The same with some of its places."""
        return _Passage(self.key, self.token_T, self.start_S[keep_S], self.hash_S[keep_S])


@dataclass(frozen=True)
class _ItemDraft:
    document: str
    gold: int
    """Place of the true continuation in it."""
    context_C: Ints
    candidates: list[Ints]
    """The true continuation, then the others."""


def build_items(
    held_out: Corpus, train: Corpus, choice: Choice, word_start_V: npt.NDArray[np.bool_]
) -> DomainItems:
    """Makes at most `choice.items` items of which no candidate occurs in the training split.

    Documents give one each before any gives a second.
    """
    shots = choice.shots if isinstance(choice, FewShot) else 0
    wanted = choice.items + shots
    passages = _choose_passages(held_out, train, choice, POOL * wanted, word_start_V)
    able = [p for p in passages if len(p.start_S)]
    orders = first_epochs([_keyed_order(len(p.start_S), p.key) for p in able])
    of_each = [
        _draft_items(passage, order_S, passages, choice)
        for passage, order_S in zip(able, orders, strict=True)
    ]
    result: list[_ItemDraft] = []
    while of_each and len(result) < wanted:
        # Those that have given one as often as the others, until there are enough.
        next_items = ((document, next(document, None)) for document in of_each)
        turn = [*itertools.islice((pair for pair in next_items if pair[1]), wanted)]
        of_each = [document for document, _ in turn]
        result += [item for _, item in turn if item]
    solved = [int(t) for i in result[:shots] for t in (*i.context_C, *i.candidates[0])]
    return _shuffle_candidates_and_pack(result[shots:wanted], choice, shots, tuple(solved))


def _choose_passages(
    held_out: Corpus,
    train: Corpus,
    choice: Choice,
    at_most: int,
    word_start_V: npt.NDArray[np.bool_],
) -> list[_Passage]:
    """Documents long enough, in the order of their hashes; some may be left without a start."""
    documents = held_out.document_records()
    end_D = np.cumsum(documents["tokens"], dtype=np.int64)
    text_D = documents["tokens"].astype(np.int64) - 1
    long_D = np.flatnonzero(text_D >= choice.min_document_tokens)
    # np.unique sorts by hash and keeps the first of equal documents.
    hash_P, first_P = np.unique(documents["hash"][long_D], return_index=True)
    pool_P = long_D[first_P][:at_most]
    most = max(MOST_TOKENS_READ, 2 * choice.min_document_tokens)
    token_PxT = []
    for document in pool_P:
        start = int(end_D[document] - text_D[document] - 1)
        token_PxT.append(held_out.read_tokens(start, start + min(int(text_D[document]), most)))
    words = bool(token_PxT) and word_start_V[np.concatenate(token_PxT)].mean() >= FEWEST_WORD_STARTS
    result = []
    for key, token_T in zip(hash_P, token_PxT, strict=False):
        hash_S = window_hashes(token_T, choice.candidate)
        may_S = word_start_V[token_T[: len(hash_S)]] if words else np.ones(len(hash_S), bool)
        result.append(_Passage(f"{key:016x}", token_T, np.flatnonzero(may_S), hash_S[may_S]))
    return _drop_seen_starts_within_each_passage(result, train, choice)


def _drop_seen_starts_within_each_passage(
    passages: Sequence[_Passage], train: Corpus, choice: Choice
) -> list[_Passage]:
    """Every passage, with those of its starts that the training text does not have, if any."""
    if not passages:
        return []
    before = choice.context if isinstance(choice, FewShot) else 0
    width = before + choice.candidate
    # Places without so many tokens before them are left out.
    passages = [p.with_starts(p.start_S >= before) for p in passages]
    hashes = [window_hashes(p.token_T, width)[p.start_S - before] for p in passages]
    seen = occurrence_mask(np.concatenate(hashes), train, width)
    sizes = np.cumsum([len(hash_S) for hash_S in hashes])[:-1]
    return [
        p.with_starts(~seen_S) for p, seen_S in zip(passages, np.split(seen, sizes), strict=True)
    ]


def _draft_items(
    passage: _Passage, order_S: Ints, passages: Sequence[_Passage], choice: Choice
) -> Iterator[_ItemDraft]:
    """Items of one document whose contexts and true continuations do not overlap."""
    taken: list[tuple[int, int]] = []
    for turn, index in enumerate(order_S):
        if len(taken) == MOST_PER_DOCUMENT:
            return
        gold = int(passage.start_S[index])
        begin, end = gold - choice.context, gold + choice.candidate
        if begin < 0 or any(begin < e and b < end for b, e in taken):
            continue
        if choice.distractors_from == "same":
            # The places that come next: another item of the document begins elsewhere.
            distractors = _find_distractors_in_same_document(
                passage, index, np.roll(order_S, -turn), choice
            )
        else:
            distractors = _find_distractors_in_other_documents(passage, index, passages, choice)
        if distractors is not None:
            taken.append((begin, end))
            context_C, true_W = passage.token_T[begin:gold], passage.token_T[gold:end]
            yield _ItemDraft(passage.key, gold, context_C, [true_W, *distractors])


def _find_distractors_in_same_document(
    passage: _Passage, gold_start_index: int, order_S: Ints, choice: Choice
) -> list[Ints] | None:
    """Stretches of the document outside the item, not overlapping one another; None: too few."""
    width, start_S = choice.candidate, passage.start_S
    start = start_S[gold_start_index]
    free_S = (start_S + width <= start - choice.context) | (start_S >= start + width)
    hashes = {int(passage.hash_S[gold_start_index])}
    chosen: list[int] = []
    for index in order_S[free_S[order_S]]:
        place, value = int(start_S[index]), int(passage.hash_S[index])
        if value in hashes or any(abs(place - other) < width for other in chosen):
            continue
        hashes.add(value)
        chosen.append(place)
        if len(chosen) == choice.distractors:
            return [passage.token_T[place : place + width] for place in chosen]
    return None


def _find_distractors_in_other_documents(
    passage: _Passage, gold_start_index: int, passages: Sequence[_Passage], choice: Choice
) -> list[Ints] | None:
    """One stretch from each of several other documents; None: too few."""
    hashes = {int(passage.hash_S[gold_start_index])}
    chosen: list[Ints] = []
    gold = int(passage.start_S[gold_start_index])
    order = _keyed_order(len(passages), passage.key, gold)
    for number in order.at(np.arange(len(passages))):
        other = passages[number]
        if other is passage or not len(other.start_S):
            continue
        key = (passage.key, int(gold_start_index), other.key)
        order_S = _keyed_order(len(other.start_S), *key)
        (index,) = order_S.at(np.zeros(1, np.int64))
        value, place = int(other.hash_S[index]), int(other.start_S[index])
        if value in hashes:
            continue
        hashes.add(value)
        chosen.append(other.token_T[place : place + choice.candidate])
        if len(chosen) == choice.distractors:
            return chosen
    return None


def _keyed_order(count: int, *key: object) -> Order:
    """An order of the numbers below `count` that the key alone decides."""
    return Order(count, ["choice", *key])


def _shuffle_candidates_and_pack(
    asked_items: Sequence[_ItemDraft], choice: Choice, solved_count: int, solved_T: tuple[int, ...]
) -> DomainItems:
    N = choice.distractors + 1
    context_IxC = np.empty((len(asked_items), choice.context), np.int64)
    candidate_IxNxW = np.empty((len(asked_items), N, choice.candidate), np.int64)
    gold_I = np.empty(len(asked_items), np.int64)
    keys = [(item.document, item.gold, "order") for item in asked_items]
    orders = first_epochs([_keyed_order(N, *key) for key in keys])
    for number, (item, order) in enumerate(zip(asked_items, orders, strict=True)):
        context_IxC[number] = item.context_C
        candidate_IxNxW[number] = np.stack(item.candidates)[order]
        gold_I[number] = int(np.flatnonzero(order == 0)[0])
    identity = hashlib.sha256()
    for array in (context_IxC, candidate_IxNxW, gold_I):
        identity.update(np.ascontiguousarray(array, "<i8").tobytes())
    digest = identity.hexdigest()
    return DomainItems(
        names=[f"{item.document}-{item.gold}" for item in asked_items],
        documents=[item.document for item in asked_items],
        context_IxC=context_IxC,
        candidate_IxNxW=candidate_IxNxW,
        gold_I=gold_I,
        digest=atomic_files.json_digest([digest, solved_T]) if solved_count else digest,
        shots=solved_count,
        solved_T=solved_T,
    )
