"""How fast multiple-choice questions are scored, beside lm-evaluation-harness's own back end.

    python -m benchmarks.scoring [--items 8] [--rounds 5] [--models small base]

The peer is the harness's Hugging Face back end, eight rows at a time, on a model of transformers
with the same weights (extra `[bench]`). Both get the same token ids, which are
random; lengths are log-normal around medians near those of the real data sets in a vocabulary of
32,000, demonstrations as long as the first seven of OLMES's lists. Ratios carry over to real text,
seconds do not. Each is timed by the clock beside the other of the same round.

`overhead` is the processor's time of our scorer for ten thousand requests with a model that does
nothing. Record: benchmarks/results/scoring-harness.json.
"""

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import measure
from pike_mixing.arrays import Floats
from pipeline import settings
from pipeline.evaluation.log_likelihoods import Question, score_questions
from pipeline.model import hf_config
from pipeline.model.transformer import AttentionLayout, Transformer, initial_model

VOCABULARY = 32_128
MODELS = {
    "tiny": settings.Model(layers=2, width=64, heads=2, head_width=32),
    "small": settings.Model(layers=4, width=256, heads=4, head_width=64),
    "base": settings.Model(layers=12, width=768, heads=12, head_width=64),
}
BATCH_TOKENS, ROWS, LENGTH = 8192, 8, 4096
"""Tokens of a batch of ours, rows of the peer's, and the longest question."""
Answers = Callable[[Sequence[Question]], list[Floats]]


class Task(NamedTuple):
    """Lengths in tokens, medians of a question's parts."""

    candidates: int
    context: int
    candidate: int
    demonstrations: int
    """Of seven together; 0 for 0 shots."""


TASKS = {
    "HellaSwag 0-shot": Task(4, 100, 22, 0),
    "HellaSwag 7-shot": Task(4, 100, 22, 565),
    "PIQA 0-shot": Task(2, 16, 30, 0),
    "PIQA 7-shot": Task(2, 16, 30, 280),
    "ARC-Easy 0-shot": Task(4, 28, 6, 0),
    "ARC-Easy 7-shot": Task(4, 28, 6, 315),
    "CommonsenseQA 0-shot": Task(5, 20, 2, 0),
    "CommonsenseQA 7-shot": Task(5, 20, 2, 190),
    "letters 7-shot": Task(4, 80, 1, 400),
}


def main() -> None:
    options: dict[str, Any] = {"models": ["small"], "items": 8, "rounds": 5, "requests": 10_000}
    chosen = measure.arguments(__doc__, "scoring-harness", **options)
    found: dict[str, dict[str, Any]] = {}
    for name in chosen.models:
        model = initial_model(MODELS[name], VOCABULARY, seed=0).eval()
        scorers = {"harness": harness(model), "ours": partial(ours, model)}
        found[name] = {
            task: compared(scorers, drawn(lengths, chosen.items, VOCABULARY), chosen.rounds)
            for task, lengths in TASKS.items()
        }
        print(measure.table(name, {t: row["clock"] for t, row in found[name].items()}), flush=True)
        assert all(row["same_picks"] for row in found[name].values()), "other picks than the peer"
    spent = overhead(chosen.requests)
    print(f"overhead of {chosen.requests:,} requests: {spent:.2f} s of processor time")
    result = {
        **{name: getattr(chosen, name) for name in ("items", "rounds")},
        "versions": measure.versions("lm_eval", "transformers"),
        "vocabulary": VOCABULARY,
        "batch_tokens": BATCH_TOKENS,
        "peer": "harness",
        "peer_rows": ROWS,
        "models": {name: dataclasses.asdict(MODELS[name]) for name in found},
        "lengths": {name: task._asdict() for name, task in TASKS.items()},
        "tasks": found,
        "overhead_seconds_of_10000_requests": spent * 10_000 / chosen.requests,
    }
    measure.record(chosen, result)


def harness(model: Transformer) -> Answers:
    """lm-evaluation-harness's Hugging Face back end with the same weights."""
    import transformers
    from lm_eval.models.huggingface import HFLM
    from tokenizers import Tokenizer, models

    values = hf_config.persimmon_config(model.shape, model.vocabulary, LENGTH)
    copy = transformers.PersimmonForCausalLM(transformers.PersimmonConfig(**values)).eval()
    copy.load_state_dict(hf_config.persimmon_weights(model), strict=False)
    copy.tie_weights()
    # Nothing is written in text here, so that a tokenizer need only be there.
    words = Tokenizer(models.WordLevel({"</s>": 0}, unk_token="</s>"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>")
    back_end = HFLM(pretrained=copy, tokenizer=tokenizer, batch_size=ROWS)

    def answers(questions: Sequence[Question]) -> list[Floats]:
        requests = [
            (("", ""), list(question.context_C), list(candidate))
            for question in questions
            for candidate in question.candidates
        ]
        told = iter(back_end._loglikelihood_tokens(requests, disable_tqdm=True))
        return [np.array([next(told)[0] for _ in question.candidates]) for question in questions]

    return answers


def ours(model: Transformer, questions: Sequence[Question]) -> list[Floats]:
    return score_questions(model, questions, batch_tokens=BATCH_TOKENS)


def drawn(task: Task, items: int, vocabulary: int) -> list[Question]:
    """Questions of random tokens behind the same demonstrations."""
    random = np.random.default_rng(0)

    def tokens(median: int) -> list[int]:
        spread = 0.0 if median == 1 else random.normal(0, 0.3)
        size = max(1, round(median * float(np.exp(spread))))
        return random.integers(2, vocabulary, size).tolist()

    start = [1, *random.integers(2, vocabulary, task.demonstrations).tolist()]
    return [
        Question(
            [*start, *tokens(task.context)],
            [tokens(task.candidate) for _ in range(task.candidates)],
        )
        for _ in range(items)
    ]


def compared(
    scorers: dict[str, Answers], questions: Sequence[Question], rounds: int
) -> dict[str, Any]:
    """Seconds of the peer and of ours, and how far their answers are apart."""
    steps = {name: partial(answers, questions) for name, answers in scorers.items()}
    clock = measure.seconds_of(steps, rounds, "clock")
    ratio = measure.ratios(clock["harness"], clock["ours"])
    both = (answers(questions) for answers in scorers.values())
    pairs = list(zip(*both, strict=True))
    return {
        "clock": {
            "peer_seconds": statistics.median(clock["harness"]),
            "our_seconds": statistics.median(clock["ours"]),
            "times_as_fast": ratio["median"],
            "least": ratio["range"][0],
            "largest": ratio["range"][1],
        },
        "same_picks": all(a.argmax() == b.argmax() for a, b in pairs),
        "largest_difference_nats": max(float(np.abs(a - b).max()) for a, b in pairs),
    }


class Idle(nn.Module):
    """A model of few tokens that does nothing with them."""

    takes_layouts = True

    def __init__(self) -> None:
        super().__init__()
        self.vocabulary = 16
        self.output_weight = nn.Parameter(torch.randn(self.vocabulary, 1))
        self.device = self.output_weight.device

    def hidden_states(self, tokens_BxL: Tensor, sight: AttentionLayout) -> Tensor:
        return torch.zeros(*tokens_BxL.shape, 1)

    def prefix_keys_values(self, tokens_P: Tensor) -> list[Any]:
        return []


def overhead(requests: int) -> float:
    """Processor seconds outside the model: HellaSwag at seven shots, so many candidates."""
    idle: Any = Idle()
    questions = drawn(TASKS["HellaSwag 7-shot"], requests // 4, idle.vocabulary)
    return measure.timed(lambda: ours(idle, questions)).processor


if __name__ == "__main__":
    main()
