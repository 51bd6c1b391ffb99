"""Our decoder as an architecture that transformers has: Persimmon, with all biases 0.

Both put layer norms before attention and MLP and over each query and key, turn the pairs
(i, i + W/2) by their position, and have an MLP of two matrices; Persimmon's settings give the rest
(GELU, the whole head turned, one embedding for input and output). Its biases are 0.

Shapes: D model width, H heads, W head width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.model.transformer import NORM_EPSILON, ROTARY_BASE, Transformer

NAMES = {
    "attention_norm": "input_layernorm",
    "attention.query_norm": "self_attn.q_layernorm",
    "attention.key_norm": "self_attn.k_layernorm",
    "attention.qkv": "self_attn.query_key_value",
    "attention.out": "self_attn.dense",
    "mlp_norm": "post_attention_layernorm",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
}
"""Persimmon's name of each part of a block."""


def persimmon_config(shape: settings.Model, vocabulary: int, length: int) -> dict[str, Any]:
    """Content of `config.json`, but for the tokenizer's special pieces."""
    rotary = {"rope_theta": ROTARY_BASE, "partial_rotary_factor": 1.0}
    return {
        "architectures": ["PersimmonForCausalLM"],
        "model_type": "persimmon",
        "vocab_size": vocabulary,
        "hidden_size": shape.width,
        "intermediate_size": settings.MLP_RATIO * shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": _persimmon_heads(shape),
        "hidden_act": {"gelu": "gelu", "gelu-tanh": "gelu_pytorch_tanh"}[shape.activation],
        "layer_norm_eps": NORM_EPSILON,
        "qk_layernorm": True,
        "tie_word_embeddings": True,
        "max_position_embeddings": length,
        "rope_parameters": {"rope_type": "default", **rotary},
        **rotary,
        "dtype": "float32",
    }


def _persimmon_heads(shape: settings.Model) -> int:
    """Persimmon's heads fill the width: those that ours lacks are made of zeros."""
    if shape.width % shape.head_width or shape.heads * shape.head_width > shape.width:
        raise InputError(
            f"{shape.heads} heads of width {shape.head_width} do not fit into a model of width "
            f"{shape.width}: the architecture of transformers that computes the same "
            "(Persimmon) wants head_width to divide width and heads not to exceed it"
        )
    return shape.width // shape.head_width


def persimmon_weights(model: Transformer) -> dict[str, Tensor]:
    """The model's weights under Persimmon's names, in its order."""
    ours, shape = model.state_dict(), model.shape
    heads = _persimmon_heads(shape)
    result = {"model.embed_tokens.weight": ours["embedding.weight"]}
    result |= _with_zero_bias("model.final_layernorm", ours["norm.weight"])
    for layer in range(shape.layers):
        for name, theirs in NAMES.items():
            weight = ours[f"blocks.{layer}.{name}.weight"]
            if name == "attention.qkv":
                weight = _reorder_by_head_and_pad(weight, shape, heads)
            elif name == "attention.out":
                missing = heads * shape.head_width - weight.shape[1]
                weight = torch.nn.functional.pad(weight, (0, missing))
            result |= _with_zero_bias(f"model.layers.{layer}.{theirs}", weight)
    return {name: tensor.contiguous() for name, tensor in result.items()}


def _with_zero_bias(name: str, weight: Tensor) -> dict[str, Tensor]:
    return {f"{name}.weight": weight, f"{name}.bias": torch.zeros(len(weight))}


def _reorder_by_head_and_pad(qkv_3HWxD: Tensor, shape: settings.Model, padded_heads: int) -> Tensor:
    """Rows by head, then by query, key and value, with heads of zeros at the end."""
    own = qkv_3HWxD.view(3, shape.heads, shape.head_width, shape.width).transpose(0, 1)
    whole = own.new_zeros(padded_heads, *own.shape[1:])
    whole[: shape.heads] = own
    return whole.reshape(-1, shape.width)
