"""Trainings that are killed while workers draw ahead, and go on: the same rows, the same bits."""

import multiprocessing
import os
import signal

import pytest
import tiny
import torch
from faults import CONTEXT
from torch import nn
from torch.nn import functional
from ways import lightning_module, lightning_trainer

from pike_mixing import AdaTask, PiKE
from pike_mixing.torch import MixedDataset, Mixing, PerDomainAdamW

pytestmark = pytest.mark.slow

STEPS, MICRO, ACCUMULATION, WORKERS, LATENCY, SAVED, BROKEN = 12, 3, 2, 2, 2, 5, 8
VOCABULARY, LENGTH = 16, 6

METHODS = {
    "pike": PiKE(zeta1=0.2, zeta2=0.02, every=2, first=0, rows=2),
    # With moments in its optimizer.
    "adatask": AdaTask(),
}


def die():
    """The power fails."""
    os.kill(os.getpid(), signal.SIGKILL)


def domains():
    """Rows whose first number is their id; three shapes of text."""
    generator = torch.Generator().manual_seed(4)
    made = {}
    for k, (name, size) in enumerate({"a": 31, "b": 17, "c": 11}.items()):
        text = torch.randint(4 * k, 4 * k + 3 * k + 1, (size, LENGTH), generator=generator)
        ids = 1000 * k + torch.arange(size)[:, None]
        made[name] = [{"input_ids": row, "labels": row} for row in torch.cat([ids, text], dim=1)]
    return made


class Net(nn.Module):
    """Next number from the one before; it notes the rows that it is trained with."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Embedding(VOCABULARY, 8), nn.Dropout(0.1), nn.Linear(8, 16))
        self.seen = []

    def forward(self, input_ids, labels=None):
        found = {"logits": self.net(input_ids[:, 1:-1])}
        if labels is not None:
            self.seen.append(input_ids[:, 0].tolist())
            found = {"loss": losses(found, labels).mean()} | found
        return found


def losses(outputs, labels):
    logits = outputs["logits"].transpose(1, 2)
    return functional.cross_entropy(logits, labels[:, 2:], reduction="none").mean(dim=1)


def row_losses(model, batch):
    return losses(model(batch["input_ids"]), batch["labels"])


def optimizer_of(method, model):
    if method.needs().moments_per_domain:
        return PerDomainAdamW(model.parameters(), 3, lr=0.01)
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def mixing_of(method, model, optimizer):
    dataset = MixedDataset(
        domains(), MICRO * ACCUMULATION, seed=1, micro_batch_rows=MICRO, steps=STEPS
    )
    return Mixing(method, dataset, model, row_losses, latency=LATENCY, optimizer=optimizer)


def plain(method, folder, breaks, goes_on):
    """A loop of one's own, with one file as its checkpoint."""
    model = Net()
    optimizer = optimizer_of(method, model)
    mixing = mixing_of(method, model, optimizer)
    parts = {"model": model, "optimizer": optimizer, "mixing": mixing}
    if goes_on:
        saved = torch.load(folder / "checkpoint.pt", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        torch.set_rng_state(saved["random"])
    else:
        torch.manual_seed(5)
    for batch in mixing.data_loader(num_workers=WORKERS):
        model.seen.append(batch["input_ids"][:, 0].tolist())
        mixing.loss(model, batch).backward()
        if not mixing.is_step_complete:
            continue
        optimizer.step()
        optimizer.zero_grad()
        mixing.end_step()
        if breaks and mixing.step == SAVED:
            saved = {name: part.state_dict() for name, part in parts.items()}
            torch.save(saved | {"random": torch.get_rng_state()}, folder / "checkpoint.pt")
        if breaks and mixing.step == BROKEN:
            die()
    return model, mixing


def accelerated(method, folder, breaks, goes_on):
    from accelerate import Accelerator

    torch.manual_seed(5)
    accelerator = Accelerator(gradient_accumulation_steps=ACCUMULATION, cpu=True)
    inner = Net()
    own = optimizer_of(method, inner)
    model, optimizer = accelerator.prepare(inner, own)
    mixing = mixing_of(method, model, own)
    accelerator.register_for_checkpointing(mixing)
    if goes_on:
        accelerator.load_state(str(folder / "checkpoint"))
    for batch in mixing.data_loader(num_workers=WORKERS):
        inner.seen.append(batch["input_ids"][:, 0].tolist())
        with accelerator.accumulate(model):
            accelerator.backward(mixing.loss(model, batch) * ACCUMULATION)
            optimizer.step()
            optimizer.zero_grad()
        if not accelerator.sync_gradients:
            continue
        mixing.end_step()
        if breaks and mixing.step == SAVED:
            accelerator.save_state(str(folder / "checkpoint"))
        if breaks and mixing.step == BROKEN:
            die()
    return inner, mixing


def trainer(method, folder, breaks, goes_on):
    from transformers import TrainerCallback

    from pike_mixing.transformers import attach

    class Breaks(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_save = breaks and state.global_step == SAVED
            if breaks and state.global_step == BROKEN:
                die()

    model = Net()
    optimizer = optimizer_of(method, model)
    made = tiny.trainer(
        folder,
        model,
        optimizers=(optimizer, None),
        max_steps=STEPS,
        per_device_train_batch_size=MICRO,
        gradient_accumulation_steps=ACCUMULATION,
        dataloader_num_workers=WORKERS,
        dataloader_prefetch_factor=2,
        seed=1,
        restore_callback_states_from_checkpoint=goes_on,
    )
    made.add_callback(Breaks())
    mixing = attach(made, method, domains(), row_losses=losses, optimizer=optimizer)
    assert mixing.latency == LATENCY
    made.train(resume_from_checkpoint=str(folder / f"checkpoint-{SAVED}") if goes_on else None)
    return model, mixing


def lightning_breaks(breaks):
    """Notes rows, ends the training, and keeps the random numbers, which Lightning does not."""
    from lightning.pytorch import Callback

    class Breaks(Callback):
        random = None

        def on_train_batch_start(self, trainer, module, batch, index):
            module.model.seen.append(batch["input_ids"][:, 0].tolist())

        def on_train_batch_end(self, trainer, *args):
            if breaks and trainer.global_step == BROKEN:
                die()

        def state_dict(self):
            return {"random": torch.get_rng_state()}

        def load_state_dict(self, state):
            self.random = state["random"]

        def on_train_start(self, *args):
            if self.random is not None:
                torch.set_rng_state(self.random)

    return Breaks()


def lightning(method, folder, breaks, goes_on):
    from lightning.pytorch.callbacks import ModelCheckpoint

    from pike_mixing.lightning import MixingCallback, MixingDataModule

    torch.manual_seed(5)
    net = Net()
    optimizer = optimizer_of(method, net)
    mixing = mixing_of(method, None, optimizer)

    keeps = ModelCheckpoint(folder, "{step}", every_n_train_steps=SAVED, save_top_k=-1)
    callbacks = [MixingCallback(mixing), lightning_breaks(breaks), keeps]
    made = lightning_trainer(mixing, folder, callbacks=callbacks, enable_checkpointing=True)
    module = lightning_module(net, mixing, optimizer)
    data = MixingDataModule(mixing, num_workers=WORKERS)
    made.fit(module, datamodule=data, ckpt_path=folder / f"step={SAVED}.ckpt" if goes_on else None)
    return net, mixing


LOOPS = {
    "plain": (plain, "torch"),
    "transformers": (trainer, "transformers"),
    "lightning": (lightning, "lightning"),
    "accelerate": (accelerated, "accelerate"),
}


def _breaking(train, method, folder):
    # Readers of rows that a fork server has started see no parent die, and would stay for ever.
    multiprocessing.set_start_method("fork", force=True)
    train(method, folder, breaks=True, goes_on=False)


@pytest.mark.parametrize(
    ("loop", "rule"),
    [
        *(("plain", rule) for rule in METHODS),
        *((loop, "pike") for loop in LOOPS if loop != "plain"),
    ],
)
def test_the_rows_that_follow_are_those_of_the_unbroken_training(loop, rule, tmp_path):
    train, package = LOOPS[loop]
    pytest.importorskip(package)
    whole, unbroken = train(METHODS[rule], tmp_path / "whole", breaks=False, goes_on=False)
    rows = whole.seen
    assert len(rows) == STEPS * ACCUMULATION
    counts = [sum(len([i for i in ids if i // 1000 == k]) for ids in rows) for k in range(3)]
    assert unbroken.positions_K.tolist() == counts
    assert rule == "adatask" or max(unbroken.weights.values()) > 0.35
    (tmp_path / "broken").mkdir()
    killed = CONTEXT.Process(target=_breaking, args=(train, METHODS[rule], tmp_path / "broken"))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    model, mixing = train(METHODS[rule], tmp_path / "broken", breaks=False, goes_on=True)
    assert model.seen == rows[SAVED * ACCUMULATION :]
    assert mixing.weights == unbroken.weights
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), whole.parameters(), strict=True)
    )
