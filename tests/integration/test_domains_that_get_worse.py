"""Held-out losses that a training reports: which domains get worse, in every trainer."""

import json
import logging

import pytest
import tiny
import torch
import ways
from torch import nn

from pike_mixing import Fixed
from pike_mixing.torch import MixedDataset, Mixing, causal_losses

ONLY_A = Fixed(weights_by_domain={"a": 1.0, "b": 0.0})


def rows(token):
    """Rows of one token."""
    tokens = torch.full((8,), token)
    return [{"input_ids": tokens, "labels": tokens}] * 8


DOMAINS = {"a": rows(3), "b": rows(5)}


def told(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "pike_mixing"]


def test_a_rise_is_told_once_across_a_resume(caplog):
    dataset = MixedDataset({"a": [1.0, 2.0], "b": [3.0, 4.0]}, 2)
    mixing = Mixing("mix", dataset, nn.Linear(1, 1))
    assert mixing.check_validation_losses({"a": 2.0, "b": 3.0}) == []
    ((step, kind, domain, message),) = mixing.check_validation_losses({"b": 3.25})
    assert (step, kind, domain) == (0, "worse", "b")
    assert "its held-out loss is 3.250, 0.250 nats above that at step 0" in message
    assert told(caplog) == [f"step 0: {message}"]
    later = Mixing("mix", dataset, nn.Linear(1, 1))
    later.load_state_dict(json.loads(json.dumps(mixing.state_dict())))
    assert later.check_validation_losses({"b": 3.5}) == []
    assert [alarm.domain for alarm in later.check_validation_losses({"a": 2.0625})] == ["a"]
    # A model that diverged.
    assert later.check_validation_losses({"a": 2.0}) == []
    ((*_, domain, message),) = later.check_validation_losses({"a": float("nan")})
    assert domain == "a"
    assert "its held-out loss is inf" in message


@pytest.mark.slow
def test_the_trainer_tells_what_its_evaluations_by_domain_say(tmp_path, caplog):
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    from pike_mixing.transformers import attach

    looks = {"eval_strategy": "steps", "eval_steps": 5, "eval_on_start": True}
    training = {"max_steps": 20, "learning_rate": 0.05, "per_device_train_batch_size": 4}
    trainer = tiny.trainer(tmp_path, tiny.llama(), DOMAINS, **training, **looks)
    attach(trainer, ONLY_A, DOMAINS)
    with caplog.at_level(logging.WARNING, "pike_mixing"):
        trainer.train()
    losses = [e["eval_b_loss"] for e in trainer.state.log_history if "eval_b_loss" in e]
    assert losses[-1] > losses[0] + 0.05
    (message,) = told(caplog)
    assert "b gets worse" in message
    assert "above that at step 0" in message


@pytest.mark.slow
def test_lightning_tells_what_the_module_logs_by_domain(tmp_path, caplog):
    pytest.importorskip("lightning.pytorch")
    pytest.importorskip("transformers")
    from pike_mixing.lightning import MixingDataModule

    mixing = Mixing(ONLY_A, MixedDataset(DOMAINS, 4, steps=20), loss_fn=causal_losses)

    def validation_step(self, batch, index, dataloader_idx=0):
        name = f"val_loss/{tuple(DOMAINS)[dataloader_idx]}"
        self.log(name, self(**batch).loss, add_dataloader_idx=False)

    model = tiny.llama()
    module = ways.lightning_module(model, mixing, torch.optim.AdamW(model.parameters(), lr=0.05))
    type(module).validation_step = validation_step
    held_out = [torch.utils.data.DataLoader(each, batch_size=4) for each in DOMAINS.values()]
    trainer = ways.lightning_trainer(mixing, tmp_path, val_check_interval=5)
    loaders = MixingDataModule(mixing)
    loaders.val_dataloader = lambda: held_out
    with caplog.at_level(logging.WARNING, "pike_mixing"):
        trainer.validate(module, held_out, verbose=False)
        trainer.fit(module, datamodule=loaders)
    (message,) = told(caplog)
    assert "b gets worse" in message
    assert "above that at step 0" in message
