"""From prompts to tokens: where a context ends and a candidate begins.

The whole string is encoded and then cut, since pieces near a cut can depend on both of its sides.

Shapes: C tokens of a context.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pike_mixing.errors import InputError
from pipeline.data.tokenizer import Tokenizer
from pipeline.tasks.prepared_task import PreparedTask
from pipeline.tasks.task import Prompt, join_prompt

Tokens = tuple[int, ...]

ITEMS_AT_ONCE = 256
"""Texts of so many items are encoded in one call."""


@dataclass(frozen=True)
class EncodedItem:
    """One question in tokens."""

    id: str
    cluster: str
    gold: int
    context_C: Tokens
    """The document start if asked for, demonstrations, question."""
    candidates: tuple[Tokens, ...]
    """Tokens of each candidate, its leading space included."""
    unconditional_C: Tokens
    """What stands before a candidate that is scored without the question."""
    characters: Tokens
    """Length of each candidate without its leading space."""
    bytes: Tokens
    """Its UTF-8 bytes without the leading space."""
    shots: int
    """Demonstrations that stand in the context: fewer than asked for where they did not fit."""


def encode_questions_with_fitting_shots(
    task: PreparedTask, tokenizer: Tokenizer, length: int
) -> list[EncodedItem]:
    """Every question of a task in tokens, for a model that reads `length` tokens at once.

    A candidate's last token is not read.
    """
    spec, prompts, solved = task.spec, task.prompts_without_demonstrations, task.demonstration_texts
    start: Tokens = (tokenizer.eos,) if spec.document_start else ()
    unconditional = {
        text: (*start, *tokens.tolist()) if text else (tokenizer.eos,)
        for text in {prompt.unconditional for prompt in prompts}
        for tokens in tokenizer.encode([text])
    }
    result: dict[int, EncodedItem] = {}
    waiting = list(range(len(prompts)))
    for dropped in range(len(solved) + 1):
        too_long = []
        for first in range(0, len(waiting), ITEMS_AT_ONCE):
            numbers = waiting[first : first + ITEMS_AT_ONCE]
            some = [prompts[n] for n in numbers]
            names = [f"{spec.label}, item {task.rows[n].id}" for n in numbers]
            cuts = _encode_prompts(some, solved[dropped:], tokenizer, names)
            for n, (context, candidates) in zip(numbers, cuts, strict=True):
                if len(start) + len(context) + max(map(len, candidates)) - 1 > length:
                    too_long.append(n)
                    continue
                row, texts = task.rows[n], [text[1:] for text in prompts[n].candidates]
                result[n] = EncodedItem(
                    id=row.id,
                    cluster=row.cluster,
                    gold=row.gold,
                    context_C=start + context,
                    candidates=candidates,
                    unconditional_C=unconditional[prompts[n].unconditional],
                    characters=tuple(map(len, texts)),
                    bytes=tuple(len(text.encode()) for text in texts),
                    shots=len(solved) - dropped,
                )
        waiting = too_long
        if not waiting or (spec.overflow == "refuse" and solved):
            break
    if waiting:
        raise _too_long_error(task, waiting, length)
    return [result[n] for n in range(len(prompts))]


def _encode_prompts(
    prompts: Sequence[Prompt], solved: Sequence[str], tokenizer: Tokenizer, names: Sequence[str]
) -> list[tuple[Tokens, tuple[Tokens, ...]]]:
    contexts = [join_prompt(solved, prompt.context) for prompt in prompts]
    wholes = [
        context + candidate
        for context, prompt in zip(contexts, prompts, strict=True)
        for candidate in prompt.candidates
    ]
    tokens = (tuple(text.tolist()) for text in tokenizer.encode(contexts + wholes))
    before = [next(tokens) for _ in contexts]
    cuts = []
    for context, prompt, name in zip(before, prompts, names, strict=True):
        candidates = []
        for text in prompt.candidates:
            whole = next(tokens)
            if whole[: len(context)] != context:
                raise InputError(
                    f"{name}: the context does not end between two tokens before {text!r:.60}: "
                    "take a tokenizer whose pieces have no space inside, or leave the row out"
                )
            if len(whole) == len(context):
                raise InputError(
                    f"{name}: the candidate {text!r} has no token: the tokenizer drops it, or the "
                    "data set is damaged; leave the row out"
                )
            candidates.append(whole[len(context) :])
        cuts.append((context, tuple(candidates)))
    return cuts


def _too_long_error(task: PreparedTask, too_long_indices: Sequence[int], length: int) -> InputError:
    spec = task.spec
    first = task.rows[too_long_indices[0]].id
    advice = "train with a longer context, or leave the rows out"
    if spec.overflow == "refuse" and spec.shots:
        advice = "lower shots, or set overflow: drop"
    return InputError(
        f"{spec.label}: {len(too_long_indices)} prompts do not fit into the {length} tokens that "
        f"the model reads at once (item {first} is the first): {advice}"
    )
