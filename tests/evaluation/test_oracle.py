"""Our downstream tasks beside lm-evaluation-harness, item by item.

Every task's stand-in is asked with 0 and 7 demonstrations in three formulations, twice:

    ours    pipeline.tasks, pipeline.evaluation: what `pike evaluate` does
    hf      the harness with its Hugging Face back end, on a model of transformers that has the
            same weights

The harness makes its own prompts (harness_tasks.py), cuts, orders, pads and counts by itself, and
gives `acc`, `acc_norm`, `acc_bytes` and `acc_mutual_info`; the normalisations that it has not (by
tokens, with the space in front, behind "Answer:") are made here of the log-likelihoods that it
logged.
"""

from typing import NamedTuple

import numpy as np
import pytest
from fetched import ask

from pipeline import settings
from pipeline.evaluation import answers
from pipeline.evaluation.questions import task_questions
from pipeline.model.transformer import initial_model
from pipeline.tasks import task_definitions
from pipeline.tasks.prepared_task import prepare_task

pytest.importorskip("lm_eval")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import lm_eval
from harness_tasks import NATIVE, definitions
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from twin import persimmon, pieces

LENGTH = 4096


class Told(NamedTuple):
    """What one side says of one way to ask."""

    accuracy: dict[str, float]
    """In percent, by normalisation."""
    picks: dict[str, list[int]]
    """Of each item."""
    sums: list[np.ndarray]
    """Nats of each item's candidates."""


def picked(sums, alone, lengths):
    """The first candidate of the highest score, under each normalisation."""
    told = list(zip(sums, alone, lengths, strict=True))
    scores = {
        "sum": [s for s, _, _ in told],
        "per_token": [s / np.array(n["tokens"]) for s, _, n in told],
        "per_character": [s / np.array(n["characters"]) for s, _, n in told],
        "per_character_olmes": [s / (np.array(n["characters"]) + 1) for s, _, n in told],
        "per_byte": [s / np.array(n["bytes"]) for s, _, n in told],
        "unconditional": [s - a for s, a, _ in told],
    }
    return {metric: [int(score.argmax()) for score in found] for metric, found in scores.items()}


def by_us(model, one, tokenizer):
    asked = task_questions(one, tokenizer, LENGTH)
    told = answers.ask_model(model, asked, batch_tokens=8192)
    lengths = [
        {
            "tokens": [len(candidate) for candidate in item.candidates],
            "characters": item.characters,
            "bytes": item.bytes,
        }
        for item in asked.items
    ]
    accuracy = {metric: value for metric, (value, _) in told.accuracy.items()}
    return Told(accuracy, picked(told.sums, told.alone, lengths), told.sums)


def by_harness(lm, asked, tokenizer, folder):
    """All of them through the harness; beside each its candidates without the question."""
    tasks = [ConfigurableTask(config=c) for one in asked for c in definitions(one, folder)]
    # Its index of fifteen thousand tasks takes half a minute and is not needed.
    none = TaskManager(include_defaults=False)
    found = lm_eval.simple_evaluate(lm, tasks=tasks, task_manager=none, bootstrap_iters=0)
    return [told_of(found, one.spec.label, tokenizer) for one in asked]


def told_of(found, name, tokenizer):
    """What the harness says of one way to ask."""
    samples, bare = (
        sorted(found["samples"][task], key=lambda sample: sample["doc_id"])
        for task in (name, f"{name}, alone")
    )
    sums, alone, lengths = [], [], []
    for sample, other in zip(samples, bare, strict=True):
        values, without = (
            np.array([value for value, _ in each["filtered_resps"]]) for each in (sample, other)
        )
        # With acc_mutual_info the harness asks for the candidates behind nothing too.
        count = len(without)
        assert len(values) in (count, 2 * count)
        np.testing.assert_allclose(values[count:], without[: len(values) - count], atol=1e-4)
        sums.append(values[:count])
        alone.append(without)
        lengths.append(counted([given[:2] for given in sample["arguments"]][:count], tokenizer))
    picks = picked(sums, alone, lengths)
    gold = np.array([int(sample["target"]) for sample in samples])
    accuracy = {metric: 100 * np.mean(np.array(those) == gold) for metric, those in picks.items()}
    native = {**NATIVE, "unconditional": "acc_mutual_info"}
    results = found["results"][name]
    said = {
        m: 100 * results[f"{its},none"] for m, its in native.items() if f"{its},none" in results
    }
    assert said.keys() >= NATIVE.keys()
    return Told(accuracy | said, picks, sums)


def counted(given, tokenizer):
    """Lengths of the continuations that the harness asked about, without the space in front."""
    before = [len(tokenizer.encode([context])[0]) for context, _ in given]
    whole = [len(tokenizer.encode([context + text])[0]) for context, text in given]
    return {
        "tokens": [b - a for a, b in zip(before, whole, strict=True)],
        "characters": [len(text) - 1 for _, text in given],
        "bytes": [len(text.encode()) - 1 for _, text in given],
    }


@pytest.mark.slow
def test_the_harness_gives_our_accuracies_on_every_task(benchmarks, tokenizers):
    tokenizer = tokenizers["unigram, with line breaks"]
    shape = settings.Model(2, 32, 4, 8)
    model = initial_model(shape, shape.padded_vocabulary(tokenizer.vocabulary), seed=0).eval()
    ways = [
        prepare_task(benchmarks, ask(task, shots, formulation))
        for task in task_definitions.TASKS
        for shots in (0, 7)
        for formulation in ("cf", "mcf", "hyb")
    ]
    assert len(ways) == 7 * 2 * 3
    twin, tokens = persimmon(model, length=LENGTH), pieces(tokenizer)
    back_end = HFLM(pretrained=twin, tokenizer=tokens, add_bos_token=True, batch_size=8)
    for one, theirs in zip(ways, by_harness(back_end, ways, tokenizer, benchmarks), strict=True):
        ours = by_us(model, one, tokenizer)
        assert theirs.accuracy == pytest.approx(ours.accuracy, abs=1e-9), one.spec.label
        assert theirs.picks == ours.picks, one.spec.label
        for a, b in zip(theirs.sums, ours.sums, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4, rtol=0)
