"""Which rows are read where a training loop and a mixed data set both could deal them to processes.

    torchrun --nproc-per-node N deal_job.py FOLDER

Writes `N.json`: for each way whether every row was read once, and what was refused.
"""

import collections
import itertools
import json
import random
import sys
import warnings
from functools import partial
from pathlib import Path

import datasets
import tiny
import torch
import torch.distributed as dist
import ways
from accelerate import Accelerator, DataLoaderConfiguration
from datasets.distributed import split_dataset_by_node
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from pike_mixing.lightning import MixingDataModule
from pike_mixing.torch import MixedDataset, Mixing, interleave_datasets
from pike_mixing.transformers import attach

ROWS, STEPS, SIZE = 12, 6, 2
"""Rows of a step, steps, and rows of a micro-batch; the rows of all steps are those of `ids`."""


def ids(name):
    first = {"a": 0, "b": 1000}[name]
    return list(range(first, first + ROWS * STEPS // 2))


def domains(kind="list"):
    if kind == "list":
        return {n: [{"ids": i, "labels": i} for i in ids(n)] for n in "ab"}
    made = {n: datasets.Dataset.from_dict({"ids": ids(n), "labels": ids(n)}) for n in "ab"}
    return {
        n: d.to_iterable_dataset(num_shards=6) if kind == "stream" else d for n, d in made.items()
    }


class Model(nn.Module):
    """Notes the rows that it is trained on."""

    def __init__(self, seen):
        super().__init__()
        self.w, self.seen = nn.Linear(1, 1), seen

    def forward(self, ids, labels=None):
        self.seen.extend(ids.tolist())
        logits = self.w(ids[:, None].float() / 1000)
        return {"loss": logits.square().mean(), "logits": logits}


def losses(model, rows):
    return model(ids=rows["ids"])["logits"][:, 0].square()


def mixed(**options):
    return MixedDataset(domains(), ROWS, micro_batch_rows=SIZE, steps=STEPS, **options)


def interleaved(kind="list", **options):
    return interleave_datasets(domains(kind), batch_rows=ROWS, steps=STEPS, **options)


def read(loader, model):
    for batch in loader:
        model(ids=batch["ids"])


def train(model, mixing, loader=None):
    for batch in loader or mixing.data_loader():
        mixing.loss(model, batch).backward()
        if mixing.is_step_complete:
            mixing.end_step()


def plain(model, rank, world):
    read(DataLoader(interleaved(), batch_size=SIZE), model)


def plain_of_streams_with_workers(model, rank, world):
    read(DataLoader(interleaved("stream", micro_batch_rows=SIZE), SIZE, num_workers=2), model)


def a_mixed_data_set_as_a_domain(model, rank, world):
    read(
        DataLoader(MixedDataset({"all": interleaved()}, ROWS, steps=STEPS), batch_size=SIZE), model
    )


def parts_that_are_mixed_by_process(model, rank, world):
    own = {n: split_dataset_by_node(d, rank, world) for n, d in domains("stream").items()}
    rows = interleave_datasets(own, batch_rows=ROWS // world, steps=STEPS, place=(0, 1))
    read(DataLoader(rows, batch_size=SIZE), model)


class Noisy(list):
    """Rows with augmentation: a number that is another at each reading, and two flips of a coin."""

    own = random.Random()

    def __getitem__(self, row):
        drawn = {"noise": random.random(), "coin": random.random() < 0.5}
        return super().__getitem__(row) | drawn | {"own": self.own.random() < 0.5}


def rows_that_are_drawn_at_random(model, rank, world):
    rows = {name: Noisy(given) for name, given in domains().items()}
    train(
        model,
        Mixing("mix", MixedDataset(rows, ROWS, micro_batch_rows=SIZE, steps=STEPS), model, losses),
    )


def distributed(model, rank, world):
    train(wrapped := DistributedDataParallel(model), Mixing("mix", mixed(), wrapped, losses))


def prepared(model, rank, world, rows=interleaved, workers=0, **options):
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
    loader = DataLoader(rows(), batch_size=SIZE, num_workers=workers)
    read(accelerator.prepare(loader), model)


def with_fixed_weights():
    return MixedDataset(domains("map"), ROWS, steps=STEPS, shuffle=True)


def accelerated(model, rank, world):
    model = Accelerator(cpu=True).prepare(model)
    train(model, Mixing("mix", mixed(), model, losses))


def accelerated_with_a_prepared_loader(model, rank, world):
    accelerator = Accelerator(cpu=True)
    mixing = Mixing("mix", mixed(), model, losses)
    train(model, mixing, accelerator.prepare(mixing.data_loader()))


def trainer(model, world, **arguments):
    rows = {"per_device_train_batch_size": SIZE}
    rows |= {"gradient_accumulation_steps": ROWS // SIZE // world}
    return tiny.trainer(sys.argv[1], model, **rows, **arguments)


def trainer_attached(model, rank, world):
    made = trainer(model, world, max_steps=STEPS)
    attach(made, "mix", domains())
    made.train()


def trainer_with_the_data_set(model, rank, world, **accelerator_config):
    # Its steps follow from the length of the data set.
    made = trainer(model, world, num_train_epochs=1, accelerator_config=accelerator_config)
    made.train_dataset = interleaved()
    made.train()
    assert made.state.global_step == STEPS, made.state.global_step


def lightning(model, rank, world):
    mixing = Mixing("mix", mixed(), loss_fn=losses)
    module = ways.lightning_module(model, mixing, torch.optim.SGD(model.parameters()))
    made = ways.lightning_trainer(mixing, sys.argv[1], devices=world, strategy="ddp")
    made.fit(module, datamodule=MixingDataModule(mixing))


def lightning_with_the_data_set(model, rank, world):
    mixing = Mixing("mix", mixed(), loss_fn=losses)
    module = ways.lightning_module(model, mixing, torch.optim.SGD(model.parameters()))

    def training_step(batch, batch_idx):
        return losses(module, batch).mean()

    module.training_step = training_step
    made = ways.lightning_trainer(mixing, sys.argv[1], devices=world, strategy="ddp", callbacks=[])
    made.fit(module, DataLoader(interleaved(), batch_size=SIZE))


WAYS = {
    "plain": plain,
    "plain, of streams with workers": plain_of_streams_with_workers,
    "a mixed data set as a domain": a_mixed_data_set_as_a_domain,
    "parts that are mixed by process": parts_that_are_mixed_by_process,
    "rows that are drawn at random": rows_that_are_drawn_at_random,
    "distributed": distributed,
    "prepared, of fixed weights": partial(prepared, rows=with_fixed_weights),
    "prepared, dispatching": partial(prepared, dispatch_batches=True),
    "prepared, not dispatching": partial(prepared, dispatch_batches=False),
    "prepared, with workers": partial(prepared, workers=2, dispatch_batches=True),
    "prepared, with workers, not dispatching": partial(prepared, workers=2, dispatch_batches=False),
    "accelerated": accelerated,
    "accelerated, with a prepared loader": accelerated_with_a_prepared_loader,
    "trainer, attached": trainer_attached,
    "trainer with the data set": trainer_with_the_data_set,
    "trainer that does not dispatch": partial(trainer_with_the_data_set, dispatch_batches=False),
    "lightning": lightning,
    "lightning with the data set": lightning_with_the_data_set,
}


class ByHand:
    """A part of the rows, which begins like all others: with a row for the header."""

    def __init__(self, rows, rank, world):
        self.rows, self.part = rows, (rank, None, world)

    def __iter__(self):
        return itertools.chain(self.rows[:1], itertools.islice(self.rows, *self.part))


def cut(kind, how, rank, world):
    """Domains of which each process has a part."""
    parts = {
        "node": lambda d: split_dataset_by_node(d, rank, world),
        "shard": lambda d: d.shard(world, rank),
        "slice": lambda d: d[rank::world],
        "order": lambda d: d.shuffle(seed=rank),
        "noisy": lambda d: Noisy(d[rank::world]),
        "islice": lambda d: ByHand(d, rank, world),
        "filter": lambda d: d.filter(lambda row: row["ids"] % world == rank),
    }
    return {n: parts[how](d) for n, d in domains(kind).items()}


def told(read):
    """What is said of a reading."""
    try:
        read()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def cut_before(rank, world):
    """What every process says of streams that were cut before they were mixed."""

    def mixing(rows):
        next(iter(Mixing("mix", rows).data_loader()))

    def prepared(rows):
        next(iter(Accelerator(cpu=True).prepare(DataLoader(rows, batch_size=SIZE))))

    said = {}
    for how, read in [("shard", mixing), ("node", mixing), ("node", iter), ("node", prepared)]:
        rows = MixedDataset(cut("stream", how, rank, world), ROWS, steps=STEPS)
        said[f"{how} {read.__name__}"] = told(lambda rows=rows, read=read: read(rows))
    given = MixedDataset(domains(), ROWS, steps=STEPS, place=(rank, world))
    return said | {"place": told(lambda: prepared(given))}


def cut_before_without_a_method(rank, world):
    """What the process says that comes last, one after the other."""
    said = {}
    for kind, how in [
        *(("list", "slice"), ("map", "node"), ("map", "shard"), ("map", "order")),
        *(("stream", "shard"), ("stream", "filter"), ("list", "islice"), ("list", "noisy")),
    ]:
        text = None
        for turn in range(world):
            if rank == turn:
                text = told(
                    lambda kind=kind, how=how: iter(
                        MixedDataset(cut(kind, how, rank, world), ROWS, steps=STEPS)
                    )
                )
            dist.barrier()
        said[f"{kind} {how}"] = text
    return said


def counts(seen):
    """Whether each row was read once, over all processes."""
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, seen)
    found = collections.Counter(i for own in every for i in own)
    wrong = {i: found[i] for i in {*ids("a"), *ids("b"), *found} if found[i] != 1}
    return f"{len(wrong)} rows not once: {dict(list(wrong.items())[:4])}" if wrong else "once"


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    Accelerator(cpu=True)
    rank, world = dist.get_rank(), dist.get_world_size()
    result = {"ways": {}}
    for name, way in WAYS.items():
        seen = []
        said = told(lambda seen=seen, way=way: way(Model(seen), rank, world))
        result["ways"][name] = said if said != "read" else counts(seen)
    if world > 1:
        result |= {"cut": cut_before(rank, world)}
        last = [None] * world
        dist.all_gather_object(last, cut_before_without_a_method(rank, world))
        result["last"] = last[-1]
    if rank == 0:
        (Path(sys.argv[1]) / f"{world}.json").write_text(json.dumps(result, indent=1))
    dist.barrier()
    # Left to the end of the process, gloo's threads abort it now and then.
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
