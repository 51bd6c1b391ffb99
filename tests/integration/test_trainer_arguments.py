"""What a Trainer must not be told together with a mixing, in transformers and Lightning."""

import types

import pytest
import tiny
import torch
import ways

from pike_mixing import ADO, Fixed, PiKE
from pike_mixing.errors import InputError
from pike_mixing.torch import MixedDataset, Mixing

pytestmark = pytest.mark.slow

DOMAINS = {n: [{"input_ids": row, "labels": row} for row in tiny.tokens(9)["labels"]] for n in "ab"}


def made(folder, model=None, **changed):
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    options = {"max_steps": 2, "per_device_train_batch_size": 4} | changed
    return tiny.trainer(folder, model or tiny.llama(), DOMAINS["a"], **options)


def attach(trainer, method, domains=DOMAINS):
    from pike_mixing import transformers

    return transformers.attach(trainer, method, domains)


def mixing_of(domains=DOMAINS):
    """Two steps of two micro-batches."""
    return Mixing("mix", MixedDataset(domains, 8, micro_batch_rows=4, steps=2))


def fit(mixing, folder, **changed):
    """A training by Lightning of a model that is of no matter."""
    from pike_mixing.lightning import MixingDataModule

    model = torch.nn.Linear(2, 2)
    module = ways.lightning_module(model, mixing, torch.optim.SGD(model.parameters()))
    trainer = ways.lightning_trainer(mixing, folder, **changed)
    trainer.fit(module, datamodule=MixingDataModule(mixing))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"max_steps": -1}, "max_steps: set it"),
        ({"auto_find_batch_size": True}, "auto_find_batch_size"),
        ({"train_sampling_strategy": "group_by_length"}, "leave group_by_length"),
    ],
)
def test_arguments_that_do_not_fit(arguments, said, tmp_path):
    trainer = made(tmp_path, **arguments)
    with pytest.raises(InputError, match=said):
        attach(trainer, PiKE(zeta1=1.0, zeta2=1.0))


def test_processes_that_share_rows(tmp_path, monkeypatch):
    trainer = made(tmp_path)
    shared = types.SimpleNamespace(cp_size=2)
    monkeypatch.setattr(type(trainer.accelerator), "parallelism_config", shared)
    with pytest.raises(InputError, match="cp_size=2: processes of context parallelism see"):
        attach(trainer, "mix")


def test_trainers_of_preferences(tmp_path):
    """With TRL's own class, whose rows are pairs."""
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    trainer = trl.DPOTrainer(
        tiny.llama(),
        ref_model=tiny.llama(),
        args=trl.DPOConfig(output_dir=str(tmp_path), max_steps=2, bf16=False, **tiny.QUIET),
        train_dataset=datasets.Dataset.from_dict(
            {"prompt": ["w1"], "chosen": ["w2"], "rejected": ["w3"]}
        ),
        processing_class=tiny.tokenizer(),
    )
    rows = list(trainer.train_dataset)
    with pytest.raises(InputError, match=r"DPOTrainer has a loss .*interleave_datasets"):
        attach(trainer, "mix", {"a": rows, "b": rows})


def test_a_second_method_and_a_checkpoint_without_a_mixing(tmp_path):
    trainer = made(tmp_path, save_strategy="steps", save_steps=1)
    trainer.train_dataset = DOMAINS["a"]
    trainer.train()
    again = made(tmp_path, max_steps=3)
    attach(again, PiKE(zeta1=1.0, zeta2=1.0))
    with pytest.raises(InputError, match="has a method already"):
        attach(again, PiKE(zeta1=1.0, zeta2=1.0))
    with pytest.raises(InputError, match="holds no state of the mixing"):
        again.train(resume_from_checkpoint=True)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"text": "a"}], "does not take rows of text: ValueError: none is an argument"),
        ([{"input_ids": row} for row in tiny.tokens(9)["labels"]], "the batches have no `labels`"),
    ],
)
def test_rows_that_the_model_does_not_take(rows, said, tmp_path):
    trainer = made(tmp_path)
    attach(trainer, "famo", dict.fromkeys("ab", rows))
    with pytest.raises(InputError, match=said):
        trainer.train()


ROW = DOMAINS["a"][0]["labels"]
UNEQUAL = {"a": DOMAINS["a"], "b": [{"input_ids": ROW[:5], "labels": ROW[:5]}]}
UNLIKE = r"column 'labels': integers of shape \(8,\) in 'a'; integers of shape \(5,\) in 'b'"


def test_rows_of_domains_that_do_not_fit_each_other(tmp_path):
    """Before step 0, though the first micro-batch has rows of one domain alone."""
    trainer = made(tmp_path)
    attach(trainer, Fixed(weights_by_domain={"a": 1, "b": 0}), UNEQUAL)
    with pytest.raises(InputError, match=UNLIKE):
        trainer.train()
    assert trainer.state.global_step == 0


def test_rows_of_domains_that_do_not_fit_each_other_in_lightning(tmp_path):
    pytest.importorskip("lightning")
    with pytest.raises(InputError, match=UNLIKE):
        fit(mixing_of(UNEQUAL), tmp_path)


def test_a_data_set_that_nobody_would_read(tmp_path):
    trainer = made(tmp_path)
    trainer.train_dataset = list(DOMAINS["a"])
    with pytest.raises(InputError, match=r"trainer.train_dataset = None"):
        attach(trainer, "mix")
    # One that is a domain, too, is read.
    trainer.train_dataset = DOMAINS["b"]
    assert attach(trainer, "mix").step == 0


def test_a_trainer_that_trains_twice(tmp_path):
    trainer = made(tmp_path)
    attach(trainer, "mix")
    trainer.train()
    with pytest.raises(InputError, match=r"begins at step 0, but the mixing stands at step 2.*new"):
        trainer.train()


def test_columns_that_the_model_does_not_take_are_dropped_and_steps_stay(tmp_path):
    rows = [{**row, "id": 3} for row in DOMAINS["a"]]
    trainer = made(tmp_path)
    assert attach(trainer, "famo", {"a": rows, "b": DOMAINS["b"]}).step == 0
    trainer.args.max_steps = 3
    with pytest.raises(InputError, match="max_steps: 3, but attach found 2"):
        trainer.train()
    trainer.args.max_steps = 2
    trainer.train()


def test_the_trainers_own_loss_stays_where_the_method_only_looks(tmp_path):
    method = ADO(first=200, every=50, ignore=20, stride=5, window=31)
    trainer = made(tmp_path, max_steps=3, logging_steps=1)
    mixing = attach(trainer, method)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert trainer.compute_loss_func is None
    assert len(logged) == 3
    # Equal rows: the mean over the domains' losses is the Trainer's loss.
    for entry in logged:
        mean = (entry["mixing/loss/a"] + entry["mixing/loss/b"]) / 2
        assert entry["loss"] == pytest.approx(mean, rel=1e-4)
    assert mixing.step == 3


@pytest.mark.parametrize(
    ("changed", "step", "said"),
    [
        ({"accumulate_grad_batches": 1}, 0, "accumulate_grad_batches: 1, but a step has 2"),
        ({"max_steps": 3}, 0, "the Trainer wants 3 steps, but MixedDataset ends after 2"),
        ({"max_steps": -1, "max_epochs": 2}, 0, "max_epochs: the Trainer wants 4 steps"),
        ({"limit_train_batches": 3}, 0, "limit_train_batches: an epoch of 3 batches"),
        ({}, 2, "a new Mixing to each training"),
    ],
)
def test_steps_that_are_not_those_of_the_mixing(changed, step, said, tmp_path):
    pytest.importorskip("lightning")
    mixing = mixing_of()
    mixing.step = step
    with pytest.raises(InputError, match=said):
        fit(mixing, tmp_path, **changed)


def test_a_module_that_steps_its_optimizers_itself(tmp_path):
    pytest.importorskip("lightning")
    from pike_mixing.lightning import MixingDataModule, mixing_loss

    model, mixing = torch.nn.Linear(2, 2), mixing_of()
    optimizers, seen = [torch.optim.SGD([p]) for p in model.parameters()], []
    module = ways.lightning_module(model, mixing, optimizers)
    module.automatic_optimization = False

    def training_step(batch, batch_idx):
        module.manual_backward(mixing_loss(module, mixing, model.bias[:1].expand(4)))
        if batch_idx % 2:
            seen.append(model.bias.grad[0].item())
            for optimizer in module.optimizers():
                optimizer.step()
                optimizer.zero_grad()

    module.training_step = training_step
    trainer = ways.lightning_trainer(mixing, tmp_path, accumulate_grad_batches=1, max_steps=4)
    trainer.fit(module, datamodule=MixingDataModule(mixing))
    assert mixing.step == 2
    # The mean over the rows of both micro-batches.
    assert seen == [1.0, 1.0]


def test_lightning_needs_the_number_of_steps():
    pytest.importorskip("lightning")
    from pike_mixing.lightning import MixingDataModule

    with pytest.raises(InputError, match="steps: give MixedDataset the steps"):
        MixingDataModule(Mixing("mix", MixedDataset(DOMAINS, 8))).train_dataloader()
