import math

import pytest
import torch

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.evaluation import asking
from pipeline.evaluation.prompt_encoding import encoded
from pipeline.model.transformer import initialised
from pipeline.tasks.benchmark import load

CPU = torch.device("cpu")
NANO = settings.Model(2, 16, 2, 8)


@pytest.fixture(scope="session")
def tokenizer(tokenizers):
    return tokenizers["unigram, with line breaks"]


@pytest.fixture(scope="session")
def model(tokenizer):
    return initialised(NANO, tokenizer.vocabulary, 0)


def asked_of(model, benchmark, items):
    return asking.answer(model, benchmark, items, batch_tokens=2048, device=CPU)


@pytest.mark.parametrize("task", ["arc_easy", "hellaswag_hi"])
def test_every_token_costs_the_same_without_knowledge(benchmarks, tokenizer, model, asked, task):
    benchmark = load(benchmarks, asked(task, 2))
    items = encoded(benchmark, tokenizer, 10**6)
    blank = initialised(NANO, tokenizer.vocabulary, 0)
    torch.nn.init.zeros_(blank.embedding.weight)
    found = asked_of(blank, benchmark, items)
    for item, sums, alone in zip(items, found.sums, found.unconditional, strict=True):
        expected = [-len(c) * math.log(blank.vocabulary) for c in item.candidates]
        assert sums == pytest.approx(expected, rel=1e-5)
        assert alone == pytest.approx(expected, rel=1e-5)


def test_sums_are_those_of_the_model_read_one_by_one(benchmarks, tokenizer, model, asked):
    benchmark = load(benchmarks, asked("csqa", 2, items=3))
    items = encoded(benchmark, tokenizer, 10**6)
    found = asked_of(model, benchmark, items)
    for item, sums, alone in zip(items, found.sums, found.unconditional, strict=True):
        for context, values in ((item.context_C, sums), (item.unconditional_C, alone)):
            for candidate, value in zip(item.candidates, values, strict=True):
                tokens = torch.tensor([[*context, *candidate]])
                with torch.inference_mode():
                    logs = model(tokens[:, :-1]).log_softmax(-1)[0]
                told = logs.gather(1, tokens[0, 1:, None])[-len(candidate) :].sum()
                assert value == pytest.approx(float(told), abs=1e-4)


def test_rows_hold_what_every_normalisation_needs(benchmarks, tokenizer, model, asked):
    benchmark = load(benchmarks, asked("arc_easy", 7, "mcf"))
    items = encoded(benchmark, tokenizer, 10**6)
    found = asked_of(model, benchmark, items)
    rows = asking.choices(benchmark, items, found)
    assert [row[:6] for row in rows[:2]] == [
        ("arc_easy", 7, "mcf", "own_01", "own_01", 1),
        ("arc_easy", 7, "mcf", "own_02", "own_02", 2),
    ]
    for row, made in zip(rows, benchmark.rows, strict=True):
        *_, pick, sums, alone, tokens, characters, sizes, shots = row
        assert len(sums) == len(alone) == len(tokens) == len(made.options)
        assert characters == sizes == [1] * len(made.options)
        assert max(s / t for s, t in zip(sums, tokens, strict=True)) == sums[pick] / tokens[pick]
        assert shots == 7
    points = [pick == gold for *_, gold, pick, _, _, _, _, _, _ in rows]
    told = {row[3]: row for row in asking.accuracies(benchmark, found)}
    assert told["per_token"][:3] == ("arc_easy", 7, "mcf")
    assert told["per_token"][4] == pytest.approx(100 * sum(points) / 12)
    assert told["per_token"][6] == 12
    assert len(told) == 6


def test_a_model_that_diverged_is_named_with_the_task(benchmarks, tokenizer, asked):
    benchmark = load(benchmarks, asked("piqa"))
    items = encoded(benchmark, tokenizer, 10**6)
    broken = initialised(NANO, tokenizer.vocabulary, 0)
    torch.nn.init.constant_(broken.embedding.weight, math.nan)
    with pytest.raises(InputError, match=r"^piqa, 0-shot, cf: question 0.*diverged"):
        asked_of(broken, benchmark, items)
