"""How fast multiple-choice questions are scored, beside what an evaluation harness does.

    python -m benchmarks.scoring [--items 8] [--rounds 5] [--models small,base] [--threads 1]
                                 [--peer naive|harness]

The peer `harness` is lm-evaluation-harness's Hugging Face back end itself, on a model of
transformers with the same weights (it needs `make setup EXTRAS=lm-eval,bench`). The peer
`naive` stands for the arithmetic of lm-evaluation-harness's Hugging Face back end, whether
that is installed or not: every candidate behind its whole context, demonstrations included, is a
row of its own; rows go eight at a time, the longest first, padded on the right; logits of every
position, their log-softmax in float32 as a second such tensor, and a sum over the candidate.
Candidates of one token behind the same context share a row, as they do there. Both scorers use
the same weights and the same token ids.

Token ids are random; lengths are log-normal around medians near those of the real data sets in a
vocabulary of 32,000, demonstrations as long as the first seven of OLMES's lists. Ratios carry
over to real text, seconds do not. In each round both scorers answer all questions, in an order
that turns; medians over rounds are reported, and the least and largest ratio of a round. On a
busy machine the processor's time says more than the clock's.

`overhead` is the processor's time of our scorer for ten thousand requests with a model that does
nothing. benchmarks/results/scoring-PEER.json says on which machine.

Shapes: B rows, L tokens, V vocabulary.
"""

import argparse
import dataclasses
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import machine
from pipeline import settings
from pipeline.evaluation.scoring import Question, score
from pipeline.model.transformer import AttentionLayout, Transformer, initialised
from pipeline.statistics.clustered import Floats

ROOT = Path(__file__).resolve().parents[1]
VOCABULARY = 32_128
MODELS = {
    "tiny": settings.Model(layers=2, width=64, heads=2, head_width=32),
    "small": settings.Model(layers=4, width=256, heads=4, head_width=64),
    "base": settings.Model(layers=12, width=768, heads=12, head_width=64),
}
CPU = torch.device("cpu")
BATCH_TOKENS = 8192
ROWS = 8
"""Of a naive batch."""


class Scorer(NamedTuple):
    """One of the two that are compared."""

    name: str
    answers: Callable[[Sequence[Question]], list[Floats]]
    embedding: nn.Module
    """What every token goes through that it reads."""


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
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="small")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peer", choices=["naive", "harness"], default="naive")
    parser.add_argument("--out", type=Path, help="default: benchmarks/results/scoring-PEER.json")
    chosen = parser.parse_args()
    out = chosen.out or ROOT / "benchmarks" / "results" / f"scoring-{chosen.peer}.json"
    torch.set_num_threads(chosen.threads)
    before = os.getloadavg()[0]
    sizes: dict[str, dict[str, Any]] = {}
    for name in chosen.models.split(","):
        model = initialised(MODELS[name], VOCABULARY, seed=0).eval()
        scorers = _peer(chosen.peer, model), Scorer("ours", partial(ours, model), model.embedding)
        sizes[name] = {}
        for task in chosen.tasks.split(","):
            questions = drawn(TASKS[task], chosen.items, VOCABULARY)
            sizes[name][task] = compared(scorers, questions, chosen.rounds)
        print(table(name, sizes[name]), flush=True)
    spent = overhead(10_000)
    print(f"overhead of 10,000 requests: {spent:.2f} s of processor time")
    result = {
        "items": chosen.items,
        "rounds": chosen.rounds,
        "vocabulary": VOCABULARY,
        "batch_tokens": BATCH_TOKENS,
        "peer": chosen.peer,
        "peer_rows": ROWS,
        "models": {name: dataclasses.asdict(MODELS[name]) for name in sizes},
        "lengths": {name: task._asdict() for name, task in TASKS.items()},
        "tasks": sizes,
        "overhead_seconds_of_10000_requests": spent,
        "machine": machine.described(before),
        "date": time.strftime("%Y-%m-%d"),
    }
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _peer(name: str, model: Transformer) -> Scorer:
    """The harness is imported where it is asked for alone: it need not be installed."""
    if name == "naive":
        return Scorer("naive", partial(naive, model), model.embedding)
    scorer: Scorer = importlib.import_module("benchmarks.backend").scorer(model)
    return scorer


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


def naive(model: Transformer, questions: Sequence[Question]) -> list[Floats]:
    """What a harness does: the sum of log p of each candidate's tokens."""
    rows: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for number, question in enumerate(questions):
        for place, candidate in enumerate(question.candidates):
            read = (*question.context_C, *candidate[:-1])
            # Candidates of one token read the same row; others only by chance.
            rows.setdefault(read, []).append((number, place))
    ordered = sorted(rows, key=lambda read: (-len(read), read))
    found = [np.empty(len(question.candidates)) for question in questions]
    with torch.inference_mode():
        for first in range(0, len(ordered), ROWS):
            batch = ordered[first : first + ROWS]
            tokens_BxL = np.zeros((len(batch), len(batch[0])), np.int64)
            for row, read in enumerate(batch):
                tokens_BxL[row, : len(read)] = read
            log_p_BxLxV = model(torch.from_numpy(tokens_BxL)).float().log_softmax(dim=-1)
            for row, read in enumerate(batch):
                for number, place in rows[read]:
                    target = torch.tensor(list(questions[number].candidates[place]))
                    log_p_WxV = log_p_BxLxV[row, len(read) - len(target) : len(read)]
                    found[number][place] = log_p_WxV.gather(1, target[:, None]).sum().item()
    return found


def ours(model: Transformer, questions: Sequence[Question]) -> list[Floats]:
    """The evaluation's own scorer."""
    return score(model, questions, batch_tokens=BATCH_TOKENS, device=CPU)


def compared(
    scorers: tuple[Scorer, Scorer], questions: Sequence[Question], rounds: int
) -> dict[str, Any]:
    """Seconds of a peer and of ours, and how far their answers are apart."""
    clock: dict[str, list[float]] = {scorer.name: [] for scorer in scorers}
    processor_time: dict[str, list[float]] = {scorer.name: [] for scorer in scorers}
    answers: dict[str, list[Floats]] = {}
    read = {scorer.name: read_tokens(scorer, questions) for scorer in scorers}
    for number in range(rounds):
        for scorer in scorers[:: 1 if number % 2 else -1]:
            start = time.perf_counter(), time.process_time()
            answers[scorer.name] = scorer.answers(questions)
            clock[scorer.name].append(time.perf_counter() - start[0])
            processor_time[scorer.name].append(time.process_time() - start[1])
    pairs = list(zip(*(answers[scorer.name] for scorer in scorers), strict=True))
    lengths = [np.array([len(c) for c in question.candidates]) for question in questions]
    return {
        "clock": _ratio(clock),
        "processor": _ratio(processor_time),
        "tokens_read": read,
        "same_picks": all(a.argmax() == b.argmax() for a, b in pairs),
        "same_picks_per_token": all(
            (a / n).argmax() == (b / n).argmax() for (a, b), n in zip(pairs, lengths, strict=True)
        ),
        "largest_difference_nats": max(float(np.abs(a - b).max()) for a, b in pairs),
    }


def read_tokens(scorer: Scorer, questions: Sequence[Question]) -> int:
    """Tokens, padding included, that a scorer puts through its model; a warm-up besides."""
    read: list[int] = []
    hook = scorer.embedding.register_forward_hook(lambda *given: read.append(given[1][0].numel()))
    scorer.answers(questions)
    hook.remove()
    return sum(read)


def _ratio(seconds: dict[str, list[float]]) -> dict[str, float]:
    peer, own = seconds.values()
    ratios = [a / b for a, b in zip(peer, own, strict=True)]
    return {
        "peer_seconds": statistics.median(peer),
        "our_seconds": statistics.median(own),
        "times_as_fast": statistics.median(ratios),
        "least": min(ratios),
        "largest": max(ratios),
    }


class Idle(nn.Module):
    """A model of few tokens that does nothing with them."""

    def __init__(self) -> None:
        super().__init__()
        self.vocabulary = 16
        self.embedding = nn.Embedding(self.vocabulary, 1)

    def hidden(self, tokens_BxL: Tensor, sight: AttentionLayout) -> Tensor:
        """One zero per token."""
        return torch.zeros(*tokens_BxL.shape, 1)

    def prefill_cache(self, tokens_P: Tensor) -> None:
        """Nothing is kept."""


def overhead(requests: int) -> float:
    """Processor seconds outside the model: HellaSwag at seven shots, so many candidates."""
    idle: Any = Idle()
    questions = drawn(TASKS["HellaSwag 7-shot"], requests // 4, idle.vocabulary)
    start = time.process_time()
    score(idle, questions, batch_tokens=BATCH_TOKENS, device=CPU)
    return time.process_time() - start


def table(model: str, found: dict[str, dict[str, Any]]) -> str:
    """The result as text."""
    head = ("peer s", "ours s", "ratio", "least-most", "processor", "tokens read", "picks", "nats")
    lines = [f"{model:<22}" + "".join(f"{name:>16}" for name in head)]
    for task, row in found.items():
        clock, (peer, own) = row["clock"], row["tokens_read"].values()
        cells = [
            f"{clock['peer_seconds']:.3f}",
            f"{clock['our_seconds']:.3f}",
            f"{clock['times_as_fast']:.1f}",
            f"{clock['least']:.1f}-{clock['largest']:.1f}",
            f"{row['processor']['times_as_fast']:.1f}",
            f"{peer:,} > {own:,}",
            "same" if row["same_picks"] and row["same_picks_per_token"] else "DIFFERENT",
            f"{row['largest_difference_nats']:.0e}",
        ]
        lines.append(f"{task:<22}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
