"""Two made-up domains and a tiny GPT-2 without a download, for the scripts beside this file."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def domains():
    """Rows of two domains: numbers that count up, and one number alone."""
    draw = torch.Generator().manual_seed(0)
    counting = (torch.randint(8, (96, 1), generator=draw) + torch.arange(16)) % 8
    alone = torch.full((64, 16), 8)
    texts = {"counting": counting, "alone": alone}
    return {n: [{"input_ids": t, "labels": t} for t in rows] for n, rows in texts.items()}


def tiny_model():
    """A GPT-2 of two layers."""
    torch.manual_seed(0)
    shape = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16}
    return GPT2LMHeadModel(GPT2Config(vocab_size=16, bos_token_id=0, eos_token_id=0, **shape))
