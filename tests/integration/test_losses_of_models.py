"""Losses of rows are the models' own, whatever kind they are and whoever trains them."""

import pytest
import tiny
import torch
from tiny import LENGTH, VOCABULARY, gpt2, llama, tokens
from torch import nn

from pike_mixing import ADO, FAMO, Fixed, PiKE
from pike_mixing.errors import InputError
from pike_mixing.torch import causal_losses
from pike_mixing.torch.losses import losses_of_outputs

pytestmark = pytest.mark.slow
pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

SMALL = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8, "d_ff": 16}
BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
BERT |= {"intermediate_size": 16, "vocab_size": VOCABULARY}
PIKE = PiKE(zeta1=0.1, zeta2=0.1, every=1, first=0, rows=2)
RULES = {
    "weighs": FAMO(),
    "combines": "mgda",
    "looks": ADO(first=200, every=50, ignore=20, stride=5, window=31),
    "measures": PIKE,
    "fixed": Fixed(weights_by_domain={"a": 1.0, "b": 1.0}),
}


def made(kind, **config):
    torch.manual_seed(0)
    if kind == "gpt2":
        return gpt2(**config)
    model = getattr(transformers, kind)
    if kind.startswith("T5"):
        start = {"decoder_start_token_id": 0, "pad_token_id": 0, "dropout_rate": 0.0}
        return model(transformers.T5Config(vocab_size=VOCABULARY, **SMALL, **start, **config))
    return model(transformers.BertConfig(**BERT, **config))


def rows_of(labels, count=12, seed=1):
    """Rows whose first one has padding and fewer targets, and whose second has none."""
    ids = tokens(count, seed)["input_ids"]
    found = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in ids]
    for number, row in enumerate(found):
        row["labels"] = labels(row["input_ids"])
        if row["labels"].ndim and row["labels"].dtype == torch.int64:
            row["labels"][: 4 * (number == 0)] = -100
            row["labels"][: LENGTH * (number == 1)] = -100
    return found


def masked(ids):
    return torch.where(ids % 3 == 0, ids, -100)


KINDS = {
    "gpt2": torch.clone,
    "T5ForConditionalGeneration": lambda ids: ids.flip(0),
    "BertForMaskedLM": masked,
    "BertForTokenClassification": lambda ids: ids % 2,
    "BertForSequenceClassification": lambda ids: ids[0] % 2,
}


TWO_STEPS = {
    "max_steps": 2,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
}


def trainer(folder, model, rows=None, kind=None, attached=None, rule=None, **changed):
    """A Trainer with a rule attached, where one is given."""
    from pike_mixing.transformers import attach

    found = tiny.trainer(folder, model, rows, kind, **TWO_STEPS | {"logging_steps": 1} | changed)
    if rule is not None:
        domains = {"a": rows, "b": rows[::-1]}
        found.mixing = attach(found, rule, domains, **(attached or {}))
    return found


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        *((kind, {}) for kind in KINDS),
        ("BertForSequenceClassification", {"num_labels": 5}),
    ],
)
def test_the_loss_of_each_row_is_that_of_the_model_alone(kind, config):
    model = made(kind, **config).eval()
    rows = [{n: p[None] for n, p in row.items()} for row in rows_of(KINDS[kind])]
    together = {name: torch.cat([row[name] for row in rows]) for name in rows[0]}
    own = torch.stack([model(**row)[0] for row in rows])
    # A row without targets.
    torch.testing.assert_close(
        causal_losses(model, together), own.nan_to_num(0), rtol=1e-4, atol=1e-5
    )


def test_a_tuple_of_outputs_has_the_losses_of_its_logits():
    rows = tokens(3)
    named = gpt2()(input_ids=rows["input_ids"])
    found, wanted = (losses_of_outputs(one, rows["labels"]) for one in (named.to_tuple(), named))
    assert found.equal(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_trains_with_the_trainers_own_evaluation(kind, tmp_path):
    rows = rows_of(KINDS[kind])
    found = trainer(tmp_path, made(kind), rows, rule=RULES["weighs"], label_names=["labels"])
    found.train()
    assert found.mixing.step == 2
    plain = trainer(tmp_path, found.model, rows, label_names=["labels"])
    assert found.evaluate()["eval_loss"] == plain.evaluate()["eval_loss"]


@pytest.mark.parametrize(("half", "rule"), [(False, "weighs"), (True, "looks"), (True, "measures")])
def test_half_precision_is_no_difference(rule, half, tmp_path):
    model = made("T5ForConditionalGeneration")
    if half:
        model = model.bfloat16()
    rows = rows_of(KINDS["T5ForConditionalGeneration"])
    found = trainer(tmp_path, model, rows, rule=RULES[rule], bf16=not half)
    found.train()
    assert found.mixing.step == 2


class Later(nn.Module):
    """A model whose labels are two tokens ahead."""

    def __init__(self):
        super().__init__()
        self.net = gpt2()

    def forward(self, input_ids, labels=None):
        found = {"logits": self.net(input_ids).logits}
        if labels is not None:
            loss = nn.functional.cross_entropy(found["logits"][:, :-2].mT, labels[:, 2:])
            found = {"loss": loss} | found
        return found


@pytest.mark.parametrize(
    ("why", "rule"),
    [
        ("model", "weighs"),
        ("smoothing", "looks"),
        ("compute_loss", "measures"),
        ("model", "combines"),
    ],
)
def test_other_losses_than_the_trainers_are_refused(why, rule, tmp_path):

    class Doubles(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            found = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
            return (2 * found[0], found[1]) if return_outputs else 2 * found[0]

    rows = [{"input_ids": row, "labels": row} for row in tokens(8)["labels"]]
    options = {"label_smoothing_factor": 0.2 * (why == "smoothing")}
    options |= {"kind": Doubles if why == "compute_loss" else None, "rule": RULES[rule]}
    model = Later() if why == "model" else gpt2()
    with pytest.raises(InputError, match="the loss of a row is"):
        trainer(tmp_path, model, rows, **options).train()
    given = {"row_losses": lambda outputs, labels: outputs["logits"].mean(dim=(1, 2))}
    found = trainer(tmp_path, model, rows, **options, attached=given)
    found.train()
    assert found.mixing.step == 2


class Fused(nn.Module):
    """As fused losses do: with labels, no logits."""

    def __init__(self):
        super().__init__()
        self.net = gpt2()

    def forward(self, input_ids, labels=None):
        found = self.net(input_ids, labels=labels)
        return {"loss": found.loss, "logits": None} if labels is not None else dict(found)


@pytest.mark.parametrize("rule", RULES)
def test_fused_losses_give_those_of_their_rows(rule, tmp_path):
    rows = [{"input_ids": row, "labels": row} for row in tokens(8)["labels"]]
    weights = []
    for model in (Fused(), gpt2()):
        found = trainer(tmp_path, model, rows, rule=RULES[rule])
        found.train()
        weights.append([found.mixing.metrics(), [p.clone() for p in model.parameters()]])
    assert weights[0][0] == pytest.approx(weights[1][0], rel=1e-3)
    torch.testing.assert_close(weights[0][1], weights[1][1], rtol=1e-3, atol=1e-4)


def test_rows_joined_to_one_go_one_by_one(tmp_path):
    collate = transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=True)
    rows = [{"input_ids": row.tolist()} for row in tokens(8)["labels"]]
    from pike_mixing.transformers import attach

    for size in (1, 2):
        found = trainer(tmp_path, llama(), per_device_train_batch_size=size)
        found.data_collator = collate
        found.args.remove_unused_columns = False
        mixing = attach(found, FAMO(), {"a": rows, "b": rows})
        if size == 1:
            found.train()
            assert mixing.step == 2
        else:
            with pytest.raises(InputError, match="1 where collate_fn joins rows"):
                found.train()


def sft(folder, rule, **changed):
    trl = pytest.importorskip("trl")
    datasets = pytest.importorskip("datasets")
    from pike_mixing.transformers import attach

    options = {"output_dir": str(folder), "save_strategy": "no", "bf16": False}
    options |= {"max_length": LENGTH} | tiny.QUIET | TWO_STEPS
    ready = datasets.Dataset.from_dict({"input_ids": tokens(8)["labels"].tolist()})
    made = trl.SFTTrainer(
        llama(),
        trl.SFTConfig(**(options | changed)),
        train_dataset=ready,
        eval_dataset=ready,
        processing_class=tiny.tokenizer(),
    )
    rows = made.train_dataset
    # It wants one that `attach` would not read.
    made.train_dataset = None
    made.mixing = attach(made, rule, {"a": rows, "b": rows})
    return made


@pytest.mark.parametrize(
    ("packing", "rule"),
    [("", "measures"), ("", "fixed"), ("wrapped", "weighs"), ("bfd", "looks")],
)
def test_supervised_fine_tuning_with_a_fused_head(packing, rule, tmp_path):
    options = {"per_device_train_batch_size": 1 if packing == "bfd" else 2}
    if packing:
        options |= {"packing": True, "packing_strategy": packing, "max_length": 2 * LENGTH}
    made = sft(tmp_path, RULES[rule], **options)
    made.train()
    assert made.mixing.step == 2
    # The first evaluation holds nothing of the comparison.
    first, second = made.evaluate(), made.evaluate()
    assert first["eval_loss"] == second["eval_loss"]
    assert first["eval_entropy"] == second["eval_entropy"]
