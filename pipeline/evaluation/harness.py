"""lm-evaluation-harness: a checkpoint of ours as its model `pike` (extra `[lm-eval]`).

    pike lm-eval --model pike --model_args checkpoint=DIR,tokenizer=FILE --tasks hellaswag

The harness's own command finds no models of other packages, so `pike lm-eval` makes ours known to
it and hands everything on. The tasks, prompts and metrics are the harness's; tokens, batches and
likelihoods are those of our own evaluation, and what the harness would cut is an error here.
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lm_eval.models  # noqa: F401  (the harness leaves its own models out once ours is known)
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.data.tokenizer import Tokenizer
from pipeline.evaluation.prompt_encoding import Tokens
from pipeline.evaluation.scoring import Question, score
from pipeline.model import checkpoint as checkpoints
from pipeline.runtime import atomic_files, devices
from pipeline.runtime.validation import validate

log = logging.getLogger("pike")


def run(arguments: Sequence[str]) -> None:
    """The harness's command line, which knows our model.

    Args:
        arguments: As `lm_eval` takes them.
    """
    before, sys.argv = sys.argv, ["lm-eval", *arguments]
    try:
        cli_evaluate()
    finally:
        sys.argv = before


@register_model("pike")
class HarnessModel(LM):  # type: ignore[misc]
    """A checkpoint, asked through the harness's interface."""

    def __init__(
        self,
        *,
        checkpoint: str = "",
        tokenizer: str = "",
        length: int | None = None,
        document_start: bool = True,
        batch_tokens: int = 8192,
        device: str | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        **others: Any,
    ) -> None:
        """Loads it.

        Args:
            checkpoint: A folder `checkpoints/step{n}` of a run.
            tokenizer: The SentencePiece model that it was trained with.
            length: Tokens that it reads at once; None: those of the run's training rows.
            document_start: Whether the end-of-document token stands in front of every context, as
                between packed documents; it always does where a context is empty.
            batch_tokens: Tokens per forward pass; changes speed and memory, not results.
            device: auto, cpu or cuda.
            batch_size: The harness's; without effect, since batches are made by tokens.
            max_batch_size: Likewise.
            others: None; the harness hands on whatever a user writes.

        Raises:
            InputError: an argument is missing or unknown, or checkpoint and tokenizer are not
                there or do not belong together.
        """
        super().__init__()
        if others or not (checkpoint and tokenizer):
            wrong = f"{', '.join(others)} unknown" if others else "checkpoint or tokenizer missing"
            raise InputError(
                f"--model_args: {wrong}; write checkpoint=DIR,tokenizer=FILE and, if need be, "
                "length=N, document_start=false, batch_tokens=N"
            )
        if batch_size not in (None, 1, "1", "auto"):
            log.info("batches are made by tokens (batch_tokens), --batch_size is without effect")
        folder = Path(checkpoint)
        self.tokens = Tokenizer(Path(tokenizer))
        self._device = devices.pick(device or "auto", any_shape=True)
        model = checkpoints.load_model(folder)
        model.refuse_other_tokenizer(self.tokens.vocabulary, Path(tokenizer), folder)
        self.model = model.to(self._device)
        self.length = length or _trained_length(folder)
        self.start: Tokens = (self.tokens.eos,) if document_start else ()
        self.batch_tokens = batch_tokens
        self.weights_sha256 = checkpoints.weights_sha256(folder)

    def loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Nats of log p(continuation | context), and whether greedy decoding would give it.

        Raises:
            InputError: a context that does not end between two tokens, a continuation of no
                tokens, a request that is longer than the model reads, or a likelihood that is no
                finite number.
        """
        return self._scored(list(self._encoded(requests)))

    def loglikelihood_rolling(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Nats of log p(text), read in the harness's windows of the model's length.

        Windows do not overlap in what they score; the last one is filled up with what stands
        before. The document start stands before the first token; the end is not scored.
        """
        windows = [self._windows(request.args[0]) for request in requests]
        result = iter(self._scored([window for text in windows for window in text]))
        return [float(sum(next(result)[0] for _ in text)) for text in windows]

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """Refuses: these models score texts.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"{requests[0].task_name} asks for generated text, which `pike` does not give: choose "
            "tasks of the output types multiple_choice, loglikelihood or loglikelihood_rolling"
        )

    def get_model_info(self) -> dict[str, Any]:
        """What the harness writes into its results about the model."""
        return {
            "weights_sha256": self.weights_sha256,
            "tokenizer_sha256": self.tokens.sha256,
            "document_start": list(self.start),
            "max_length": self.length,
        }

    def _scored(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> list[tuple[float, bool]]:
        """Value of each continuation behind its context; equal contexts are read once."""
        behind: dict[Tokens, list[int]] = {}
        for number, (context, _) in enumerate(pairs):
            behind.setdefault(context, []).append(number)
        questions = [Question(c, [pairs[n][1] for n in told]) for c, told in behind.items()]
        scores = score(self.model, questions, batch_tokens=self.batch_tokens, device=self._device)
        result = {
            number: (float(value), bool(greedy))
            for told, one in zip(behind.values(), scores, strict=True)
            for number, value, greedy in zip(told, one.sums, one.greedy, strict=True)
        }
        return [result[number] for number in range(len(pairs))]

    def _encoded(self, requests: Sequence[Instance]) -> Iterator[tuple[Tokens, Tokens]]:
        """Context and continuation of each request in tokens."""
        texts = [_moved(*request.args) for request in requests]
        contexts = list(dict.fromkeys(context for context, _ in texts))
        alone = dict(zip(contexts, map(_tuple, self.tokens.encode(contexts)), strict=True))
        wholes = map(_tuple, self.tokens.encode(["".join(pair) for pair in texts]))
        for request, (context, continuation), whole in zip(requests, texts, wholes, strict=True):
            name, before = f"{request.task_name}, item {request.doc_id}", alone[context]
            if whole[: len(before)] != before:
                raise InputError(
                    f"{name}: the context does not end between two tokens before "
                    f"{continuation!r:.60}: this tokenizer cannot score the task's continuations"
                )
            if len(whole) == len(before):
                raise InputError(f"{name}: the continuation {continuation!r} has no token")
            start = self.start if before else (self.tokens.eos,)
            if (read := len(start) + len(whole) - 1) > self.length:
                raise InputError(
                    f"{name}: {read} tokens do not fit into the {self.length} that the model reads "
                    "at once: lower --num_fewshot"
                )
            yield start + before, whole[len(before) :]

    def _windows(self, text: str) -> list[tuple[Tokens, Tokens]]:
        """What is read and what is scored behind it, window by window."""
        tokens = self.tokens.encode([text])[0].tolist()
        pairs = get_rolling_token_windows(
            tokens, prefix_token=self.tokens.eos, max_seq_len=self.length, context_len=1
        )
        windows = map(make_disjoint_window, pairs)
        return [(tuple(context), tuple(scored)) for context, scored in windows]


def _moved(context: str, continuation: str) -> tuple[str, str]:
    """Blanks at the context's end belong to the continuation, as the harness has it."""
    kept = context.rstrip()
    return kept, context[len(kept) :] + continuation


def _tuple(tokens: Any) -> Tokens:
    return tuple(tokens.tolist())


def _trained_length(folder: Path) -> int:
    """Tokens of a training row, from the run around a checkpoint."""
    path = folder.parent.parent / "run.json"
    if not path.is_file():
        raise InputError(
            f"{path} does not exist, so that nothing says how many tokens {folder} reads at once: "
            "add length=N to --model_args"
        )
    return validate(settings.Run, atomic_files.read_json(path), str(path)).training.length
