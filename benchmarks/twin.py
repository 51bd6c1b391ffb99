"""Our model and tokenizer in the forms of Hugging Face's transformers: other code, same weights.

Persimmon has our model's architecture once its biases are zero: layer norms before attention and
MLP and on queries and keys, rotary positions of halves, GELU, one matrix for input and output.

Shapes: D model width, H heads, W head width.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import PersimmonConfig, PersimmonForCausalLM, PreTrainedTokenizer

from pike_mixing.errors import InputError
from pipeline.data.tokenizer import Tokenizer
from pipeline.model.transformer import NORM_EPSILON, ROTARY_BASE, Transformer


def persimmon(model: Transformer, *, length: int, eos: int) -> PersimmonForCausalLM:
    """The same function as a model of transformers, in float32 and ready for evaluation.

    Raises:
        InputError: the heads together are not as wide as the model, which Persimmon asks for.
    """
    shape = model.shape
    if shape.heads * shape.head_width != shape.width:
        raise InputError(
            f"{shape.heads} heads of width {shape.head_width} are not {shape.width} wide: "
            "Persimmon has no such model; choose another shape"
        )
    config = PersimmonConfig(
        vocab_size=model.vocabulary,
        hidden_size=shape.width,
        intermediate_size=4 * shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        hidden_act="gelu",
        max_position_embeddings=length,
        layer_norm_eps=NORM_EPSILON,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": ROTARY_BASE,
            "partial_rotary_factor": 1.0,
        },
        bos_token_id=eos,
        eos_token_id=eos,
    )
    twin = PersimmonForCausalLM(config).eval()
    weights = {name: value.clone() for name, value in _renamed(model)}
    biases = {
        name: torch.zeros_like(value)
        for name, value in twin.state_dict().items()
        if name not in weights and name.endswith(".bias")
    }
    twin.load_state_dict({**weights, **biases})
    return twin


def _renamed(model: Transformer) -> Any:
    """Our weights under Persimmon's names."""
    parts = {
        "attention_norm": "input_layernorm",
        "attention.out": "self_attn.dense",
        "attention.query_norm": "self_attn.q_layernorm",
        "attention.key_norm": "self_attn.k_layernorm",
        "mlp_norm": "post_attention_layernorm",
        "up": "mlp.dense_h_to_4h",
        "down": "mlp.dense_4h_to_h",
    }
    yield "model.embed_tokens.weight", model.embedding.weight.detach()
    yield "lm_head.weight", model.embedding.weight.detach()
    yield "model.final_layernorm.weight", model.norm.weight.detach()
    for number in range(model.shape.layers):
        ours, theirs = f"blocks.{number}", f"model.layers.{number}"
        for part, other in parts.items():
            weight = model.get_parameter(f"{ours}.{part}.weight").detach()
            yield f"{theirs}.{other}.weight", weight
        qkv = model.get_parameter(f"{ours}.attention.qkv.weight").detach()
        yield f"{theirs}.self_attn.query_key_value.weight", _by_head(qkv, model.shape.heads)


def _by_head(qkv_3HWxD: Tensor, heads: int) -> Tensor:
    """Rows ordered by head and then by query, key, value, instead of the other way round."""
    D = qkv_3HWxD.shape[1]
    return qkv_3HWxD.view(3, heads, -1, D).transpose(0, 1).reshape(-1, D)


class Pieces(PreTrainedTokenizer):
    """A SentencePiece model as a tokenizer of transformers; each token is its id in writing.

    The document start stands before a text wherever special tokens are asked for.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.pieces = tokenizer
        eos = str(tokenizer.eos)
        super().__init__(bos_token=eos, eos_token=eos, pad_token=eos, unk_token=eos)

    @property
    def vocab_size(self) -> int:
        """Pieces of the model."""
        return self.pieces.vocabulary

    def get_vocab(self) -> dict[str, int]:
        """Every token by name."""
        return {str(number): number for number in range(self.vocab_size)}

    def encode(self, text: str, add_special_tokens: bool = True, **_: Any) -> list[int]:
        """Ids of a text."""
        start = [self.pieces.eos] if add_special_tokens else []
        return start + self.pieces.encode([text])[0].tolist()

    def _convert_token_to_id(self, token: str) -> int:
        return int(token)

    def _convert_id_to_token(self, index: int) -> str:
        return str(index)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Text of tokens.

        The document start alone has a text too: where its text is empty, the harness takes every
        prompt to begin with it already and puts none in front.
        """
        text = self.pieces.decode([int(token) for token in tokens])
        return text if text or tokens != [self.bos_token] else "</s>"
