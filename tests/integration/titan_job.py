"""Trains a tiny Llama in torchtitan's Trainer by several rules, and saves what came of each.

It is run by titan_on_cpu.py, under torchrun; the folder for results is TITAN_OUT.
"""

import copy
import dataclasses
import os
import runpy
from pathlib import Path

import torch
import torch.distributed as dist
import ways
from torchtitan.config import ConfigManager
from torchtitan.models.llama3 import Transformer

from pike_mixing import method_registry
from pike_mixing.torch import MixedDataset, Mixing, parallel
from pike_mixing.torch.losses import losses_of_logits
from pike_mixing.torchtitan import mixing_trainer

EXAMPLE = Path(__file__).parents[2] / "examples" / "trainers" / "torchtitan_train.py"
STEPS = 14
METHODS = {
    "pike": {"zeta1": 0.1, "zeta2": 0.01, "every": 3, "first": 0, "rows": 3},
    **{name: ways.METHODS[name] for name in ("famo", "ado")},
}


def whole(model):
    return {
        n: parallel.full_tensor(t.detach()).clone()
        for n, t in model.state_dict().items()
        if t.is_floating_point()
    }


def norm(model):
    """Of the gradient, which AdamW does not tell from a multiple of it."""
    parts = [parallel.full_tensor(p.grad) for p in model.parameters()]
    return float(torch.nn.utils.get_total_norm(parts))


def train(config, name, example):
    made = mixing_trainer(
        method_registry.build_method(name, METHODS[name], "test"), example["domains"]
    )
    trainer = made(config)
    first, seen, rates, norms = whole(trainer.model_parts[0]), [], [], []

    def before_update(*_):
        rates.append(trainer.lr_schedulers.schedulers[0].get_last_lr()[0])
        norms.append(norm(trainer.model_parts[0]))

    trainer.optimizers.register_step_pre_hook(before_update)
    end = trainer.mixing.end_step

    def end_step():
        end()
        seen.append(numbers(trainer.mixing))

    trainer.mixing.end_step = end_step
    trainer.train()
    result = {"first": first, "last": whole(trainer.model_parts[0]), "seen": seen}
    result |= {"rates": rates, "norms": norms}
    trainer.close()
    return result


def delivered(config, example):
    """What the option counts, where three of four labels of a domain are masked."""

    def masked(tokenizer, job_config):
        def cut(row):
            inputs, labels = row
            return inputs, labels.where(torch.arange(len(labels)) % 4 == 0, -100)

        rows = example["domains"](tokenizer, job_config)
        return rows | {"alone": [cut(row) for row in rows["alone"]]}

    config.training.steps = 70
    trainer = mixing_trainer("mix", masked, delivered=True)(config)
    trainer.train()
    report = trainer.mixing.delivered.report()
    trainer.close()
    kinds = [found.kind for found in report.findings]
    return {"rows": report.rows_K.tolist(), "tokens": report.tokens_K.tolist(), "kinds": kinds}


def losses(model, batch):
    inputs, labels = batch
    return losses_of_logits(model(inputs["input"]), labels, shifted=False)


def plain(config, name, example, trained):
    """The same training in a loop of each process's own."""
    model = Transformer(example["TINY"])
    with torch.no_grad():
        model.init_weights()
    model.load_state_dict(trained["first"], strict=False)
    same = {"betas": (0.9, 0.95), "weight_decay": 0.1, "eps": config.optimizer.eps}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False, **same)
    rows = example["domains"](None, config)
    places = {"seed": config.debug.seed, "place": (0, 1)}
    dataset = MixedDataset(rows, 8, micro_batch_rows=2, steps=STEPS, **places)
    method, group = (
        method_registry.build_method(name, METHODS[name], "test"),
        dist.new_subgroups(1)[0],
    )
    mixing, seen, norms = Mixing(method, dataset, model, losses, group=group), [], []
    for batch in mixing.data_loader():
        mixing.loss(model, batch).backward()
        if mixing.is_step_complete:
            norms.append(norm(model))
            optimizer.param_groups[0]["lr"] = trained["rates"][mixing.step]
            optimizer.step()
            optimizer.zero_grad()
            mixing.end_step()
            seen.append(numbers(mixing))
    return {"last": whole(model), "seen": seen, "norms": norms}


def numbers(mixing):
    made = mixing.metrics()
    return [made[f"mixing/{what}/{d}"] for what in ways.WHAT for d in mixing.dataset.domains]


def main():
    example = runpy.run_path(str(EXAMPLE))
    example["register_tiny"]()
    config = ConfigManager().parse_args()
    out = Path(os.environ["TITAN_OUT"])
    results = {name: train(copy.deepcopy(config), name, example) for name in METHODS}
    for name in METHODS:
        results[f"plain {name}"] = plain(config, name, example, results[name])
    # Stopped after 7 steps, and gone on with by a new Trainer.
    for steps in (7, STEPS):
        again = copy.deepcopy(config)
        again.training.steps = steps
        again.job = dataclasses.replace(config.job, dump_folder=str(out / "stopped"))
        again.checkpoint.enable, again.checkpoint.interval = True, 100
        results[f"pike-{steps}"] = train(again, "pike", example)
    results["delivered"] = delivered(copy.deepcopy(config), example)
    if parallel.rank() == 0:
        torch.save(results, out / f"{parallel.world_size()}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
