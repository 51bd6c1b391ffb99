"""`delivered` in the loaders of other trainers, and as the option of each adapter of ours."""

import itertools
import random

import pytest
import tiny
import torch
import ways
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from pike_mixing import Delivered
from pike_mixing.errors import InputError
from pike_mixing.torch import MixedDataset, Mixing

pytestmark = pytest.mark.slow

PLAN = {"web": 0.6, "code": 0.3, "math": 0.1}
STEPS, BATCH, LENGTH = 90, 16, 40
MEAN_TOKENS = {"web": 6, "code": 24, "math": 12}


def rows_to_load():
    """Rows as planned, tokens not: LENGTH numbers each, of which the labels of some count."""
    draw, rows = random.Random(2), []
    for name in draw.choices(list(PLAN), list(PLAN.values()), k=STEPS * BATCH):
        count = min(LENGTH, 1 + round(draw.expovariate(1 / MEAN_TOKENS[name])))
        labels = [1] * count + [-100] * (LENGTH - count)
        domain = list(PLAN).index(name)
        rows.append({"domain": domain, "input_ids": [1] * LENGTH, "labels": labels})
    return rows


def as_tensors(row):
    return {name: torch.tensor(values) for name, values in row.items()}


class Stream(IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return map(as_tensors, self.rows)


class Model(nn.Module):
    """A loss of a number, which takes no domain."""

    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids, labels):
        return {"loss": self.one.square().sum() + 0 * input_ids.sum()}


def pop(batch):
    return batch.pop("domain")


def train(model, batches, backward=torch.Tensor.backward):
    """Steps of a loop of one's own."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in batches:
        backward(model(**batch)["loss"])
        optimizer.step()
        optimizer.zero_grad()


def in_plain_loop(rows, came, folder):
    train(Model(), came.watch(DataLoader(Stream(rows), BATCH), pop))


def in_accelerate(rows, came, folder):
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    model, loader = accelerator.prepare(Model(), DataLoader([*Stream(rows)], BATCH))
    train(model, came.watch(loader, pop), accelerator.backward)


def in_fabric(rows, came, folder):
    fabric = pytest.importorskip("lightning").Fabric(accelerator="cpu", devices=1)
    model, loader = Model(), fabric.setup_dataloaders(DataLoader([*Stream(rows)], BATCH))
    train(fabric.setup(model), came.watch(loader, pop), fabric.backward)


class Counting:
    """In front of a Trainer of transformers: its batches as they reach the model."""

    def training_step(self, model, inputs, *rest):
        self.came.add_batch(inputs, pop)
        return super().training_step(model, inputs, *rest)


ARGUMENTS = {"max_steps": STEPS, "per_device_train_batch_size": BATCH, "save_strategy": "no"}
ARGUMENTS |= {"remove_unused_columns": False} | tiny.QUIET


def in_transformers(rows, came, folder):
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    kind = type("Trainer", (Counting, transformers.Trainer), {"came": came})
    arguments = transformers.TrainingArguments(output_dir=str(folder), **ARGUMENTS)
    kind(Model(), arguments, train_dataset=Stream(rows)).train()


def in_trl(rows, came, folder):
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    kind = type("SFTTrainer", (Counting, trl.SFTTrainer), {"came": came})
    trainer = kind(
        tiny.llama(),
        trl.SFTConfig(output_dir=str(folder), bf16=False, max_length=LENGTH, **ARGUMENTS),
        train_dataset=datasets.Dataset.from_list(rows).to_iterable_dataset(),
        processing_class=tiny.tokenizer(),
    )
    # Its own collator keeps no column that it does not know.
    collate = trainer.data_collator
    trainer.data_collator = lambda rows: (
        collate(rows) | {"domain": torch.tensor([row["domain"] for row in rows])}
    )
    trainer.train()


def in_lightning(rows, came, folder):
    pytest.importorskip("lightning.pytorch")
    # Of the mixing, the number of steps alone.
    mixing = mixing_of(parts_of(LENGTH))
    model = Model()
    module = ways.lightning_module(model, mixing, torch.optim.SGD(model.parameters(), 0.1))
    module.training_step = lambda batch, batch_idx: module(**batch)["loss"]
    loader = came.watch(DataLoader([*Stream(rows)], BATCH), pop)
    ways.lightning_trainer(mixing, folder, callbacks=[]).fit(module, loader)


LOADERS = {
    name.removeprefix("in_"): run for name, run in list(globals().items()) if name.startswith("in_")
}


@pytest.mark.parametrize("loader", LOADERS)
def test_weights_on_documents_are_found_in_the_loader_of_every_trainer(loader, tmp_path):
    came = Delivered(PLAN)
    LOADERS[loader](rows_to_load(), came, tmp_path)
    report = came.report()
    assert (report.steps, report.rows_K.sum()) == (STEPS, STEPS * BATCH)
    assert [found.kind for found in report.findings] == ["documents-not-tokens"]


# The adapters of ours: rows of `b` have as many targets as those of `a`, or a fourth.
TARGETS = {None: LENGTH, "documents-not-tokens": LENGTH // 4}


def parts_of(count):
    labels = {"a": [1] * LENGTH, "b": [1] * count + [-100] * (LENGTH - count)}
    return {
        name: [as_tensors({"input_ids": [1] * LENGTH, "labels": row})] * BATCH
        for name, row in labels.items()
    }


def losses(model, rows):
    return model(**rows)["loss"] + 0 * rows["labels"].sum(dim=1)


def mixing_of(parts):
    return Mixing("mix", MixedDataset(parts, 8, steps=STEPS), loss_fn=losses, delivered=True)


def by_loop(parts, folder):
    mixing, model = mixing_of(parts), Model()
    for batch in mixing.data_loader():
        mixing.loss(model, batch).backward()
        mixing.end_step()
    return mixing.delivered


def by_lightning(parts, folder):
    pytest.importorskip("lightning.pytorch")
    from pike_mixing.lightning import MixingDataModule

    mixing, model = mixing_of(parts), Model()
    module = ways.lightning_module(model, mixing, torch.optim.SGD(model.parameters(), 0.1))
    trainer = ways.lightning_trainer(mixing, folder)
    trainer.fit(module, datamodule=MixingDataModule(mixing))
    return mixing.delivered


def by_transformers(parts, folder):
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    from pike_mixing.transformers import attach

    trainer = tiny.trainer(folder, Model(), max_steps=STEPS, per_device_train_batch_size=8)
    mixing = attach(trainer, "mix", parts, delivered=True)
    trainer.train()
    return mixing.delivered


def by_grain(parts, folder):
    grain = pytest.importorskip("grain")
    from pike_mixing.grain import MixedIterDataset

    sets = {name: grain.MapDataset.source(rows).repeat() for name, rows in parts.items()}
    mixed = MixedIterDataset(sets, "mix", batch_rows=8, delivered=True)
    assert len([*itertools.islice(mixed, 8 * STEPS)]) == 8 * STEPS
    # A second reading that goes on within a step counts what it reads.
    before, after = iter(mixed), iter(mixed)
    for _ in range(3):
        next(before)
    after.set_state(before.get_state())
    for _ in range(5):
        next(after)
    assert mixed.delivered.report().rows_K.sum() == 8 * STEPS + 5
    return mixed.delivered


ADAPTERS = {
    name.removeprefix("by_"): run for name, run in list(globals().items()) if name.startswith("by_")
}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("fault", TARGETS)
def test_one_option_counts_tokens_in_every_adapter(adapter, fault, tmp_path):
    report = ADAPTERS[adapter](parts_of(TARGETS[fault]), tmp_path).report()
    assert report.rows_K[0] == pytest.approx(4 * STEPS, abs=5)
    assert report.tokens_K.tolist() == (report.rows_K * [LENGTH, TARGETS[fault]]).tolist()
    assert [found.kind for found in report.findings] == ([] if fault is None else [fault])


def test_a_watched_loader_is_read_again_and_keeps_its_length():
    came = Delivered({"a": 1}, of="rows")
    loader = came.watch(DataLoader([{"domain": 0}] * 6, 2))
    assert (len(loader), loader.batch_size) == (3, 2)
    assert [len([*loader]), len([*loader])] == [3, 3]
    assert came.report().rows_K.tolist() == [12]
    with pytest.raises(InputError, match="no column 'domains'"):
        came.add_batch({"domain": [0]}, "domains")
