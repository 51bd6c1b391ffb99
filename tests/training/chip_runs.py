"""Trains runs on as many virtual chips as CPU_NUM_DEVICES says: python chip_runs.py WORK ANSWER.

WORK is a JSON list of arguments of `train`; ANSWER gets a JSON list of what each of them returned.
"""

import collections
import importlib
import json
import re
import sys
from pathlib import Path

import torch
from trained import loop_of

from pike_mixing.torch import chunked_loss
from pipeline.evaluation import gradient_similarities
from pipeline.evaluation.evaluate import evaluate_chosen_checkpoints

COLLECTIVE = re.compile(
    r" (all-reduce|all-gather|collective-permute|all-to-all|reduce-scatter)(?:-start)?\("
)


class Compilations:
    """Listens to a run's records: programs compiled up to each step."""

    def __init__(self):
        self.metrics = importlib.import_module("torch_xla.debug.metrics")
        self.by_step, self.counts_by_step = [], {}

    def listen(self, records):
        add_row = records.add_row

        def heard(table, **row):
            add_row(table, **row)
            self.add(table, row)

        records.add_row = heard

    def add(self, table, row):
        if table == "weights":
            self.counts_by_step.setdefault(row["step"], []).append(row["count"])
        if table == "steps":
            self.by_step.append(self.metrics.counter_value("UncachedCompile") or 0)


def train(
    run,
    corpora,
    reference=None,
    shard=False,
    chunk=None,
    programs=None,
    probe=None,
    evaluation=None,
):
    """Trains a run; what was compiled, what lies where, and what its programs exchange.

    Args:
        run: run.json.
        corpora: The folder of its corpora.
        reference: Folder of the run of its reference.
        shard: Whether weights are divided over the chips.
        chunk: Tokens whose logits are made at a time, in place of `chunked_loss.tokens_per_chunk`.
        programs: Folder in which XLA leaves its compiled programs as text.
        probe: Settings of a probe of the finished run.
        evaluation: Settings of its evaluation.
    """
    run, corpora, reference = Path(run), Path(corpora), reference and Path(reference)
    seen = set(Path(programs).glob("*")) if programs else set()
    if chunk:
        chunked_loss.tokens_per_chunk = lambda N, V: chunk
    with loop_of(run, corpora, reference=reference, device="xla", shard=shard) as loop:
        heard = Compilations()
        heard.listen(loop.records)
        loop.run()
    found = {"compiled": heard.by_step, "divided": divided(loop.model, loop.optimizer)}
    if programs:
        found["programs"] = [
            dict(collections.Counter(COLLECTIVE.findall(path.read_text(encoding="utf-8"))))
            for path in sorted(set(Path(programs).glob("*after_optimizations.txt")) - seen)
        ]
    if probe:
        gradient_similarities.probe_gradients(Path(probe), run.parent, corpora, device="xla")
    if evaluation:
        pieces = corpora.parent / "symbols.model"
        evaluate_chosen_checkpoints(Path(evaluation), run.parent, corpora, pieces, device="xla")
    return found


def divided(model, optimizer):
    """For each parameter, and each moment of it, how it lies on the chips."""
    spec = importlib.import_module("torch_xla")._XLAC._get_xla_sharding_spec
    return {
        name: {
            what: spec(held)
            for what, held in {
                "weight": weight.data,
                "gradient": weight.grad,
                **optimizer.state[weight],
            }.items()
            if torch.is_tensor(held) and held.shape == weight.shape
        }
        for name, weight in model.named_parameters()
    }


if __name__ == "__main__":
    work, answer = map(Path, sys.argv[1:])
    found = [train(**one) for one in json.loads(work.read_text(encoding="utf-8"))]
    answer.write_text(json.dumps(found), encoding="utf-8")
