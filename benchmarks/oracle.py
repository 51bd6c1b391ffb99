"""Our downstream tasks beside lm-evaluation-harness, item by item.

    python -m benchmarks.oracle [--out docs/lm-eval.md]

Every task's stand-in is asked with 0 and 7 demonstrations in three formulations, three times:

    ours    pipeline.tasks, pipeline.evaluation: what `pike evaluate` does
    pike    the harness, with our model through `pike lm-eval`'s adapter
    hf      the harness with its Hugging Face back end, on a model of transformers that has the
            same weights

The harness makes its own prompts: its templates stand here, read the fetched records as they are
stored, and know nothing of pipeline.tasks.formats; HellaSwag is cleaned by the harness's own
function. It cuts, orders, pads and counts by itself, and gives `acc`, `acc_norm`, `acc_bytes` and
`acc_mutual_info`; the normalisations that it has not (by tokens, with the space in front, behind
"Answer:") are made here of the log-likelihoods that it logged.
"""

import argparse
import importlib.metadata
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lm_eval
import numpy as np
import torch
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from benchmarks import standins, twin
from benchmarks.harness_tasks import NATIVE, definitions
from pipeline.data.tokenizer import Tokenizer
from pipeline.evaluation import asking, grading
from pipeline.evaluation.harness import HarnessModel
from pipeline.evaluation.prompt_encoding import Item, encoded
from pipeline.model import checkpoint
from pipeline.statistics.clustered import Floats
from pipeline.tasks import benchmark as fetched
from pipeline.tasks import registry
from pipeline.tasks.benchmark import Benchmark

ROOT = Path(__file__).resolve().parents[1]
LENGTH = 4096
SHOTS = (0, 7)
FORMULATIONS = ("cf", "mcf", "hyb")


def main() -> None:
    """Asks, compares and writes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "lm-eval.md")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cells = compared(Path(folder), registry.TASKS, SHOTS)
    chosen.out.write_text(document(cells), encoding="utf-8")
    wrong = [cell.name for cell in cells if not cell.agrees]
    print(f"{len(cells)} ways to ask, {len(wrong)} with other accuracies: {', '.join(wrong)}")
    sys.exit(bool(wrong))


@dataclass(frozen=True)
class Told:
    """What one side says of one way to ask."""

    accuracy: dict[str, float]
    """In percent, by normalisation."""
    picks: dict[str, list[int]]
    """Of each item."""
    sums: list[Floats]
    """Nats of each item's candidates."""


@dataclass(frozen=True)
class Cell:
    """One way to ask a task, by all sides."""

    name: str
    items: int
    sides: dict[str, Told]

    @property
    def agrees(self) -> bool:
        """Whether all accuracies are the same."""
        ours = self.sides["ours"].accuracy
        return all(
            abs(told.accuracy[metric] - value) < 1e-9
            for told in self.sides.values()
            for metric, value in ours.items()
        )

    def other_picks(self, side: str) -> int:
        """Items and normalisations in which a side picks another candidate than we do."""
        ours, theirs = self.sides["ours"].picks, self.sides[side].picks
        return sum(
            a != b
            for metric in grading.METRICS
            for a, b in zip(ours[metric], theirs[metric], strict=True)
        )

    def difference(self, side: str) -> float:
        """Largest difference of a log-likelihood from ours, in nats."""
        pairs = zip(self.sides["ours"].sums, self.sides[side].sums, strict=True)
        return max(float(np.abs(a - b).max()) for a, b in pairs)


def compared(folder: Path, tasks: Sequence[str], shots: Sequence[int]) -> list[Cell]:
    """Asks everything of all sides.

    Args:
        folder: An empty one for data, tokenizer and checkpoint.
        tasks: Names of tasks.
        shots: Demonstrations.
    """
    place = standins.fetched(folder / "benchmarks")
    tokenizer = standins.tokenizers(folder)["unigram, with line breaks"]
    benchmarks = [
        fetched.load(place, standins.asked(task, count, formulation))
        for task in tasks
        for count in shots
        for formulation in FORMULATIONS
    ]
    step = standins.checkpointed(folder / "checkpoints" / "step0", tokenizer)
    ours = [_ours(step, one, tokenizer) for one in benchmarks]
    pike = HarnessModel(
        checkpoint=str(step), tokenizer=str(tokenizer.path), length=LENGTH, device="cpu"
    )
    model = twin.persimmon(checkpoint.load_model(step), length=LENGTH, eos=tokenizer.eos)
    hf = HFLM(pretrained=model, tokenizer=twin.Pieces(tokenizer), add_bos_token=True, batch_size=8)
    sides = {
        "pike": _harness(pike, benchmarks, tokenizer),
        "hf": _harness(hf, benchmarks, tokenizer),
    }
    return [
        Cell(one.asked.name, len(one.rows), {"ours": ours[n]} | {s: t[n] for s, t in sides.items()})
        for n, one in enumerate(benchmarks)
    ]


def _ours(step: Path, one: Benchmark, tokenizer: Tokenizer) -> Told:
    items = encoded(one, tokenizer, LENGTH)
    model = checkpoint.load_model(step)
    answers = asking.answer(model, one, items, batch_tokens=8192, device=torch.device("cpu"))
    counted = [_lengths_of(item) for item in items]
    return Told(
        {metric: value for metric, (value, _) in answers.grades.accuracy.items()},
        _picks(answers.sums, answers.unconditional, counted),
        answers.sums,
    )


def _lengths_of(item: Item) -> dict[str, Sequence[int]]:
    tokens = [len(candidate) for candidate in item.candidates]
    return {"tokens": tokens, "characters": item.characters, "bytes": item.bytes}


def _picks(
    sums: Sequence[Floats], alone: Sequence[Floats], lengths: Sequence[Mapping[str, Sequence[int]]]
) -> dict[str, list[int]]:
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


def _harness(lm: LM, benchmarks: Sequence[Benchmark], tokenizer: Tokenizer) -> list[Told]:
    """All benchmarks through the harness; beside each its candidates without the question."""
    tasks = [ConfigurableTask(config=c) for one in benchmarks for c in definitions(one)]
    # Its index of fifteen thousand tasks takes half a minute and is not needed.
    none = TaskManager(include_defaults=False)
    found = lm_eval.simple_evaluate(lm, tasks=tasks, task_manager=none, bootstrap_iters=0)
    return [_told(one, found, tokenizer) for one in benchmarks]


def _told(one: Benchmark, found: Mapping[str, Any], tokenizer: Tokenizer) -> Told:
    """What the harness says of one benchmark."""
    name = one.asked.name
    samples = sorted(found["samples"][name], key=lambda sample: sample["doc_id"])
    bare = sorted(found["samples"][f"{name}, alone"], key=lambda sample: sample["doc_id"])
    gold = [int(sample["target"]) for sample in samples]
    candidates = [
        _arguments(sample)[: len(_arguments(other))]
        for sample, other in zip(samples, bare, strict=True)
    ]
    sums, alone = [], []
    for sample, other, given in zip(samples, bare, candidates, strict=True):
        values = np.array([value for value, _ in sample["filtered_resps"]])
        without = np.array([value for value, _ in other["filtered_resps"]])
        # With acc_mutual_info the harness asks for the candidates behind nothing too.
        assert len(values) in (len(given), 2 * len(given))
        assert np.allclose(values[len(given) :], without[: len(values) - len(given)], atol=1e-4)
        sums.append(values[: len(given)])
        alone.append(without)
    picks = _picks(sums, alone, [_counted(given, tokenizer) for given in candidates])
    accuracy = {
        metric: 100 * float(np.mean([a == b for a, b in zip(picked, gold, strict=True)]))
        for metric, picked in picks.items()
    }
    native = {ours: 100 * found["results"][name][f"{its},none"] for ours, its in NATIVE.items()}
    if "acc_mutual_info,none" in found["results"][name]:
        native["unconditional"] = 100 * found["results"][name]["acc_mutual_info,none"]
    return Told(accuracy | native, picks, sums)


def _arguments(sample: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [tuple(given[:2]) for given in sample["arguments"]]


def _counted(given: Sequence[tuple[str, str]], tokenizer: Tokenizer) -> dict[str, list[int]]:
    """Lengths of the continuations that the harness asked about, without the space in front."""
    before = [len(tokenizer.encode([context])[0]) for context, _ in given]
    whole = [len(tokenizer.encode([context + text])[0]) for context, text in given]
    return {
        "tokens": [b - a for a, b in zip(before, whole, strict=True)],
        "characters": [len(text) - 1 for _, text in given],
        "bytes": [len(text.encode()) - 1 for _, text in given],
    }


HEAD = """# Beside lm-evaluation-harness

Made by `python -m benchmarks.oracle` with lm_eval {lm_eval}, transformers {transformers} and
torch {torch}; `tests/evaluation/test_oracle.py` holds it.

Every task's stand-in (rows of our own writing in the data sets' schemas) is asked by a small model
with random weights: by our own evaluation (*ours*), by the harness through our adapter (*pike*),
and by the harness with its Hugging Face back end (*hf*) on a model of transformers that has the
same weights (Persimmon, whose architecture is ours once its biases are zero). The harness makes
its prompts by templates of its own from the records as they were fetched, cuts them into tokens by
its own code and grades by its own metrics: `sum` is its `acc`, `per_character` its `acc_norm`,
`per_byte` its `acc_bytes`, and `unconditional` its `acc_mutual_info` where nothing stands before
the candidate (HellaSwag, `cf`). What it has no metric for is computed from the log-likelihoods in
its log. Which rows are the translations' demonstrations is told to it, and that the document start
stands in front of every prompt (`add_bos_token`).

Cells are accuracies in percent: one number where ours, pike and hf are equal, otherwise all three.
*Other picks* counts items, under any of the six normalisations, for which the harness picks another
candidate than we do. The last columns are the largest difference of a candidate's log-likelihood
from ours, in nats.

"""


def document(cells: Sequence[Cell]) -> str:
    """The comparison as a page."""
    versions = {name: importlib.metadata.version(name) for name in ("lm_eval", "transformers")}
    head = HEAD.format(**versions, torch=torch.__version__.partition("+")[0])
    titles = ["asked", "items", *grading.METRICS, "other picks", "nats, pike", "nats, hf"]
    lines = [f"| {' | '.join(titles)} |", "| --- |" + " ---: |" * (len(titles) - 1)]
    for cell in cells:
        values = [
            [f"{told.accuracy[metric]:.1f}" for told in cell.sides.values()]
            for metric in grading.METRICS
        ]
        row = [cell.name, str(cell.items)]
        row += [said[0] if len(set(said)) == 1 else " / ".join(said) for said in values]
        row.append(str(cell.other_picks("pike") + cell.other_picks("hf")))
        row += [f"{cell.difference(side):.0e}" for side in ("pike", "hf")]
        lines.append(f"| {' | '.join(row)} |")
    agree = sum(cell.agrees for cell in cells)
    return f"{head}{chr(10).join(lines)}\n\nEqual in all accuracies: {agree} of {len(cells)}.\n"


if __name__ == "__main__":
    main()
