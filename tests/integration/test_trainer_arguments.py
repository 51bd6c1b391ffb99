"""What a Trainer must not be told together with a mixing, in transformers and Lightning."""

import types

import pytest
import ways
from tiny import tokens

from pike_mixing import ADO, PiKE
from pike_mixing.errors import InputError
from pike_mixing.torch import MixedDataset, Mixing

pytestmark = pytest.mark.slow

DOMAINS = {n: [{"input_ids": row, "labels": row} for row in tokens(9)["labels"]] for n in "ab"}


def made(folder, model=None, **changed):
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    from tiny import llama

    options = {"output_dir": str(folder), "use_cpu": True, "report_to": [], "disable_tqdm": True}
    args = transformers.TrainingArguments(
        **(options | {"max_steps": 2, "per_device_train_batch_size": 4} | changed)
    )
    collate = transformers.default_data_collator
    options = {"data_collator": collate, "eval_dataset": DOMAINS["a"]}
    return transformers.Trainer(model or llama(), args, **options)


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
    from pike_mixing.transformers import attach

    with pytest.raises(InputError, match=said):
        attach(trainer, PiKE(zeta1=1.0, zeta2=1.0), DOMAINS)


@pytest.mark.parametrize(
    ("name", "kind"), [("tp", "tensor"), ("cp", "context"), ("sp", "sequence")]
)
def test_processes_that_share_rows(name, kind, tmp_path, monkeypatch):
    trainer = made(tmp_path)
    from pike_mixing.transformers import attach

    shared = types.SimpleNamespace(**{f"{name}_size": 2})
    monkeypatch.setattr(type(trainer.accelerator), "parallelism_config", shared)
    with pytest.raises(InputError, match=f"{name}_size=2: processes of {kind} parallelism see"):
        attach(trainer, "mix", DOMAINS)


def test_trainers_of_preferences(tmp_path):
    """With TRL's own class, whose rows are pairs."""
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    from tiny import llama
    from transformers import PreTrainedTokenizerFast

    from pike_mixing.transformers import attach

    pairs = [{"prompt": "a", "chosen": "b", "rejected": "c"}] * 8
    args = trl.DPOConfig(
        output_dir=str(tmp_path),
        max_steps=2,
        use_cpu=True,
        bf16=False,
        report_to=[],
        per_device_train_batch_size=2,
    )
    from tokenizers import Tokenizer, models

    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2, "[E]": 3}, unk_token="[E]"))
    trainer = trl.DPOTrainer(
        llama(),
        ref_model=llama(),
        args=args,
        train_dataset=datasets.Dataset.from_list(pairs),
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=words, eos_token="[E]", pad_token="[E]"
        ),
    )
    rows = list(trainer.train_dataset)
    with pytest.raises(InputError, match=r"DPOTrainer trains on pairs .*interleave_datasets"):
        attach(trainer, "mix", {"a": rows, "b": rows})


def test_a_second_method_and_a_checkpoint_without_a_mixing(tmp_path):
    trainer = made(tmp_path, save_steps=1)
    trainer.train_dataset = DOMAINS["a"]
    trainer.train()
    again = made(tmp_path, max_steps=3)
    from pike_mixing.transformers import attach

    attach(again, PiKE(zeta1=1.0, zeta2=1.0), DOMAINS)
    with pytest.raises(InputError, match="has a method already"):
        attach(again, PiKE(zeta1=1.0, zeta2=1.0), DOMAINS)
    with pytest.raises(InputError, match="holds no state of the mixing"):
        again.train(resume_from_checkpoint=True)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"text": "a"}], "does not take rows of text: ValueError: none is an argument"),
        ([{"input_ids": row} for row in tokens(9)["labels"]], "the batches have no `labels`"),
    ],
)
def test_rows_that_the_model_does_not_take(rows, said, tmp_path):
    trainer = made(tmp_path)
    from pike_mixing.transformers import attach

    attach(trainer, "famo", dict.fromkeys("ab", rows))
    with pytest.raises(InputError, match=said):
        trainer.train()


def test_columns_that_the_model_does_not_take_are_dropped_and_steps_stay(tmp_path):
    rows = [{**row, "id": 3} for row in DOMAINS["a"]]
    trainer = made(tmp_path)
    from pike_mixing.transformers import attach

    assert attach(trainer, "famo", dict.fromkeys("ab", rows)).step == 0
    trainer.args.max_steps = 3
    with pytest.raises(InputError, match="max_steps: 3, but attach found 2"):
        trainer.train()
    trainer.args.max_steps = 2
    trainer.train()


def test_the_trainers_own_loss_stays_where_the_method_only_looks(tmp_path):
    method = ADO(first=200, every=50, ignore=20, stride=5, window=31)
    trainer = made(tmp_path, max_steps=3, logging_steps=1)
    from pike_mixing.transformers import attach

    mixing = attach(trainer, method, DOMAINS)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert trainer.compute_loss_func is None
    assert len(logged) == 3
    # Equal rows: the mean over the domains' losses is the Trainer's loss.
    for entry in logged:
        mean = (entry["mixing/loss/a"] + entry["mixing/loss/b"]) / 2
        assert entry["loss"] == pytest.approx(mean, rel=1e-4)
    assert mixing.step == 3


def test_evaluation_beside_a_method_that_weighs_losses(tmp_path):
    from pike_mixing import FAMO

    trainer = made(tmp_path, max_steps=3, eval_steps=1, eval_strategy="steps")
    from pike_mixing.transformers import attach

    attach(trainer, FAMO(), DOMAINS)
    trainer.train()
    losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert len(losses) == 3
    expected = made(tmp_path, model=trainer.model).evaluate(DOMAINS["a"])["eval_loss"]
    assert losses[-1] == pytest.approx(expected, rel=1e-4)


def test_lightning_accumulates_what_a_step_has(tmp_path):
    pytest.importorskip("lightning")
    from pike_mixing.lightning import MixingDataModule

    way = ways.lightning_way(DOMAINS)
    mixing = Mixing(way.method, MixedDataset(DOMAINS, 8, micro_batch=4, steps=2))
    trainer = ways.lightning_trainer(way, mixing, tmp_path)
    with pytest.raises(InputError, match="accumulate_grad_batches: 1, but a step has 2"):
        trainer.fit(ways.lightning_module(way, mixing), datamodule=MixingDataModule(mixing))
    for changed, said in (
        ({"max_steps": 3}, "max_steps: the Trainer wants 3 steps, but MixedDataset ends after 2"),
        ({"max_steps": -1, "max_epochs": 2}, "max_epochs: the Trainer wants 4 steps"),
        ({"max_steps": -1, "max_epochs": -1}, "max_epochs: the Trainer wants inf steps"),
        ({"max_steps": 2, "limit_train_batches": 3}, "limit_train_batches: an epoch of 3 batches"),
    ):
        mixing = Mixing(way.method, MixedDataset(DOMAINS, 8, micro_batch=4, steps=2))
        options = {"accumulate_grad_batches": 2} | changed
        trainer = ways.lightning_trainer(way, mixing, tmp_path, **options)
        with pytest.raises(InputError, match=said):
            trainer.fit(ways.lightning_module(way, mixing), datamodule=MixingDataModule(mixing))
    mixing.step = 2
    trainer = ways.lightning_trainer(way, mixing, tmp_path, max_steps=2, accumulate_grad_batches=2)
    with pytest.raises(InputError, match="a new Mixing to each training"):
        trainer.fit(ways.lightning_module(way, mixing), datamodule=MixingDataModule(mixing))
    endless = Mixing(way.method, MixedDataset(DOMAINS, 8))
    with pytest.raises(InputError, match="steps: give MixedDataset the steps"):
        MixingDataModule(endless).train_dataloader()
