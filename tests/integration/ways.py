"""One small run of the pipeline, repeated in other people's training loops on the same rows."""

import os
import warnings

import numpy as np
import tiny
import torch
from torch import nn
from torch.nn import functional

from pike_mixing import method_registry
from pike_mixing.torch import MixedDataset, Mixing, parallel
from pipeline import settings
from pipeline.data.shards import Corpus
from pipeline.model import adamw, checkpoint, learning_rate
from pipeline.model.transformer import initial_model
from pipeline.runtime import atomic_files
from pipeline.runtime.validate_settings import validate

STEPS, ROWS = 14, 8

DOMAINS = ("easy", "hard")
PIKE = {"zeta1": 0.5, "zeta2": 0.1, "every": 3, "first": 0, "rows": 3}
METHODS: dict[str, dict[str, object]] = {
    "pike": PIKE,
    "pike-training": PIKE | {"batch": "training", "rows": 2},
    "ado": {
        "first": 9,
        "every": 2,
        "ignore": 0,
        "stride": 1,
        "window": 5,
        "min_log_irreducible": -5.0,
    },
    "famo": {"rate": 0.5},
    "gradnorm": {"first": 1, "rate": 0.5},
    "doremi": {"reference": "mix", "rate": 2.0},
    "adatask": {},
    # A warm-up of 4 steps, a stage, a cool-down.
    "schedule": {
        "points": [{"easy": 1, "hard": 1}, *[{"easy": 4, "hard": 1}] * 2, {"easy": 1, "hard": 7}],
        "at": [0, 4, 9, 14],
        "unit": "steps",
        "between": "linear",
    },
}


def changes(rule):
    """What `write_run` takes to write the run of a rule."""
    training = {"rows": ROWS, "steps": STEPS, "checkpoint_every": STEPS, "resume_every": STEPS}
    rule_name = rule.removesuffix("-training")
    return {"rule": rule_name, "method": METHODS[rule], "training": training}


class Rows:
    """The rows of a corpus as a map-style data set."""

    def __init__(self, corpus, length):
        self.corpus, self.length = corpus, length

    def __len__(self):
        return self.corpus.row_count(self.length)

    def __getitem__(self, row):
        tokens = np.empty((1, self.length + 1), np.int64)
        self.corpus.read_rows_into(tokens, np.array([row]))
        tokens = torch.from_numpy(tokens[0])
        return {"input_ids": tokens, "labels": tokens}


class Net(nn.Module):
    """The pipeline's model with the face of transformers."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, input_ids, labels=None):
        found = {"logits": self.net(input_ids[:, :-1])}
        if labels is not None:
            found = {"loss": logits_losses(found, labels).mean()} | found
        return found


def token_losses(outputs, labels):
    return functional.cross_entropy(
        outputs["logits"].float().transpose(1, 2), labels[:, 1:], reduction="none"
    )


def logits_losses(outputs, labels):
    """Loss of each row, of the model's outputs."""
    return token_losses(outputs, labels).mean(dim=1)


def row_losses(model, batch):
    return logits_losses(model(input_ids=batch["input_ids"]), batch["labels"])


class Way:
    """What a training loop needs: model, optimizer, schedule, data, mixing."""

    def __init__(self, run, corpora, micro_batch_rows, folder, world=1, reference=None):
        """Reads a run.

        Args:
            run: Its `run.json`.
            corpora: Folder of the corpora.
            micro_batch_rows: Rows of a pass of one process.
            folder: Where a Trainer may write.
            world: Processes.
            reference: Folder of the checkpoint of the reference, for DoReMi.
        """
        work = validate(settings.Run, atomic_files.read_json(run), "run.json")
        self.recipe = recipe = work.training
        opened = {d: Corpus.open(corpora / d, "train", verify=False) for d in work.domains}
        pieces = next(iter(opened.values())).vocabulary
        net = initial_model(work.model, work.model.padded_vocabulary(pieces), work.seed)
        self.model = Net(net.configure(recipe))
        self.reference = reference and Net(checkpoint.load_model(reference))
        self.method = method_registry.build_method(work.rule, work.method, "run.json")
        self.has_moments = self.method.needs().moments_per_domain
        self.optimize()
        self.domains = {d: Rows(c, recipe.length) for d, c in opened.items()}
        self.seed, self.micro_batch_rows, self.world = work.seed, micro_batch_rows, world
        self.folder = folder
        self.accumulation = ROWS // micro_batch_rows // world
        self.seen = []

    def optimize(self):
        """Optimizer and schedule of the model's parameters."""
        recipe = self.recipe
        if self.has_moments:
            self.optimizer = adamw.build_per_domain_adamw(self.model, recipe, len(DOMAINS))
        else:
            self.optimizer = adamw.build_adamw(self.model, recipe)
        first = recipe.initial_learning_rate
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: learning_rate.learning_rate_at_step(step, recipe) / first
        )

    def mixing(self, model=None, **options):
        dataset = MixedDataset(
            self.domains, ROWS, seed=self.seed, micro_batch_rows=self.micro_batch_rows, steps=STEPS
        )
        return self.watched(
            Mixing(self.method, dataset, model, row_losses, **self.options(), **options)
        )

    def options(self):
        """What the method and the recipe want of a mixing."""
        size = self.recipe.statistics_microbatch
        made = {"statistics_micro_batch_rows": size, "excess_fn": self.reference and self.excess}
        if self.has_moments:
            made |= {"optimizer": self.optimizer, "max_norm": self.recipe.clip_norm}
        return made

    def excess(self, model, batch):
        """Of each row's losses over the reference's, clipped token by token."""
        ours, theirs = (
            token_losses(one(input_ids=batch["input_ids"]), batch["labels"])
            for one in (model, self.reference)
        )
        return (ours - theirs).clamp(min=0).mean(dim=1)

    def outcome(self):
        """Weights and counts of every step, and the trained model."""
        tensors = self.model.state_dict().items()
        names = (name.removeprefix("module.").removeprefix("net.") for name, _ in tensors)
        whole = (parallel.full_tensor(t.detach()).clone() for _, t in tensors)
        return self.seen, dict(zip(names, whole, strict=True))

    def watched(self, mixing):
        """Notes weights and counts of every step."""
        end = mixing.end_step

        def end_step():
            end()
            numbers = mixing.metrics()
            self.seen.append(
                [[numbers[f"mixing/{what}/{d}"] for d in self.domains] for what in WHAT]
            )

        mixing.end_step = end_step
        return mixing

    def clip(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)


WHAT = ("weight", "count")


def plain(way):
    mixing = way.mixing(way.model)
    for batch in mixing.data_loader():
        mixing.loss(way.model, batch).backward()
        if mixing.is_step_complete:
            way.clip()
            way.optimizer.step()
            way.schedule.step()
            way.optimizer.zero_grad()
            mixing.end_step()
    return way.outcome()


def trained(way):
    from pike_mixing.transformers import attach

    made = tiny.trainer(
        way.folder,
        way.model,
        optimizers=(way.optimizer, way.schedule),
        max_steps=STEPS,
        per_device_train_batch_size=way.micro_batch_rows,
        gradient_accumulation_steps=way.accumulation,
        max_grad_norm=way.recipe.clip_norm,
        seed=way.seed,
        logging_steps=1,
    )
    way.watched(attach(made, way.method, way.domains, row_losses=logits_losses, **way.options()))
    made.train()
    way.logged = [entry for entry in made.state.log_history if "loss" in entry]
    return way.outcome()


def lightning_module(model, mixing, optimizer, schedule=None):
    from lightning.pytorch import LightningModule

    from pike_mixing.lightning import mixing_loss

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *rows, **batch):
            return self.model(*rows, **batch)

        def training_step(self, batch, index):
            return mixing_loss(self, mixing, mixing.loss_fn(self, batch))

        def configure_optimizers(self):
            if schedule is None:
                return optimizer
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    return Module()


def lightning_trainer(mixing, folder, **changed):
    import logging

    from lightning.pytorch import Trainer

    from pike_mixing.lightning import MixingCallback

    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    options = {
        "max_steps": mixing.dataset.steps,
        "accumulate_grad_batches": mixing.dataset.micro_batches,
        "default_root_dir": folder,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "accelerator": "cpu",
        "devices": 1,
        "callbacks": [MixingCallback(mixing)],
    }
    return Trainer(**(options | changed))


def lightning(way, **changed):
    from pike_mixing.lightning import MixingDataModule

    mixing = way.mixing()
    module = lightning_module(way.model, mixing, way.optimizer, way.schedule)
    clipping = {"gradient_clip_val": way.recipe.clip_norm}
    made = lightning_trainer(mixing, way.folder, **clipping, **changed)
    made.fit(module, datamodule=MixingDataModule(mixing))
    return way.outcome()


TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "GROUP_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
"""The environment of a process that torchrun has started."""


def distributed_lightning(way):
    os.environ |= TORCHRUN
    return lightning(way, devices=2, strategy="ddp")


def fabric(way):
    from lightning.fabric import Fabric

    if way.world > 1:
        os.environ |= TORCHRUN
    made = Fabric(accelerator="cpu", devices=way.world, strategy="ddp" if way.world > 1 else "auto")
    made.launch()
    model, optimizer = made.setup(way.model, way.optimizer)
    mixing = way.mixing(model)
    for batch in mixing.data_loader():
        with made.no_backward_sync(model, enabled=not mixing.is_next_micro_batch_last):
            made.backward(mixing.loss(model, batch))
        if mixing.is_step_complete:
            way.clip()
            optimizer.step()
            way.schedule.step()
            optimizer.zero_grad()
            mixing.end_step()
    return way.outcome()


def accelerated(way):
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    # A Trainer with bf16 leaves its precision to every later Accelerator of the process.
    AcceleratorState._reset_state()
    accelerator = Accelerator(gradient_accumulation_steps=way.accumulation, cpu=True)
    model, optimizer = accelerator.prepare(way.model, way.optimizer)
    mixing = way.mixing(model)
    for batch in mixing.data_loader():
        with accelerator.accumulate(model):
            # Accelerate divides by the steps of accumulation.
            loss = mixing.loss(model, batch) * way.accumulation
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), way.recipe.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            way.schedule.step()
            mixing.end_step()
    return way.outcome()


def distributed_plain(way):
    from torch.nn.parallel import DistributedDataParallel

    inner = way.model
    way.model = DistributedDataParallel(inner)
    return plain(way)


def distributed_sharded(way):
    from torch.distributed.fsdp import fully_shard

    for block in way.model.net.blocks:
        fully_shard(block)
    fully_shard(way.model)
    way.optimize()
    return plain(way)
