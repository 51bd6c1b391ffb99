"""Tiny models of each kind, rows for them, and the truth about their gradients."""

import logging

import torch
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves, tree_map

VOCABULARY, LENGTH = 24, 8

QUIET = {"use_cpu": True, "report_to": [], "disable_tqdm": True}
"""Arguments of every Trainer of transformers."""

logging.getLogger("transformers").setLevel(logging.ERROR)


def gpt2(**settings):
    """A GPT-2 whose output layer is its embedding (tied)."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    shape = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": LENGTH}
    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(
        GPT2Config(**({"vocab_size": VOCABULARY} | ends | shape | off | settings))
    )


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    size = {"vocab_size": VOCABULARY, "max_position_embeddings": LENGTH}
    return LlamaForCausalLM(LlamaConfig(**size, **shape, **heads, **ends))


def trainer(folder, model, rows=None, kind=None, optimizers=(None, None), **arguments):
    """A Trainer of transformers, or one of a class made from it, that evaluates on rows."""
    import transformers

    args = transformers.TrainingArguments(
        output_dir=str(folder), **({"save_strategy": "no"} | QUIET | arguments)
    )
    collate = transformers.default_data_collator
    return (kind or transformers.Trainer)(
        model, args, data_collator=collate, eval_dataset=rows, optimizers=optimizers
    )


def tokenizer():
    """Words w0, w1, ..., each a token; w0 is any other, and the end of a text."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, "w0"))
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w0", pad_token="w0")


def tokens(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(VOCABULARY, (count, LENGTH), generator=generator)
    return {"input_ids": rows, "labels": rows}


def language_loss(model, rows):
    """A mapping of tensors in, the mean loss out."""
    return model(**rows).loss


class CNN(nn.Module):
    """Convolution, BatchNorm, dropout."""

    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.convolution, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.dropout, self.out = nn.Dropout(dropout), nn.Linear(4, 5)

    def forward(self, images):
        hidden = functional.relu(self.norm(self.convolution(images)))
        return self.out(self.dropout(hidden.mean(dim=(2, 3))))


def images(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randn(count, 1, 6, 6, generator=generator)
    return pixels, torch.randint(5, (count,), generator=generator)


def image_losses(model, rows):
    """A tuple of tensors in, a loss per row out."""
    pixels, label = rows
    return functional.cross_entropy(model(pixels), label, reduction="none")


def single_gradients(model, loss_fn, rows):
    """Gradient of each row, R x P in float64, and the rows' losses."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    found, losses = [], []
    for one in singles(rows):
        loss = loss_fn(model, one).mean()
        parts = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        found.append(torch.cat([part.flatten().double() for part in parts]))
        losses.append(loss.item())
    return torch.stack(found), sum(losses) / len(losses)


def singles(rows):
    count = len(tree_leaves(rows)[0])
    return [tree_map(lambda part, i=i: part[i : i + 1], rows) for i in range(count)]


def halves(rows, rank):
    """The rows of one of two ranks: every second one."""
    return tree_map(lambda part: part[rank::2], rows)
