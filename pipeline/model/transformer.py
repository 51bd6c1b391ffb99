"""The paper's decoder (Section `Model Architecture`), whole.

Pre-norm, qk-layernorm, no biases, layer-norm epsilon 1e-6, rotary positions, GELU MLP of width 4D,
one embedding for input and output.

Shapes: B rows, L tokens, D model width, H heads, W head width, V vocabulary, F = 4D,
P tokens that all rows share, S = P + L.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pike_mixing.errors import InputError
from pike_mixing.torch import chunked_loss
from pipeline import settings
from pipeline.runtime import devices, xla_chips

NORM_EPSILON = 1e-6
ROTARY_BASE = 10_000.0

KeysValues = tuple[Tensor, Tensor]
"""What one block keeps of tokens, for later ones to attend to: each 1 x H x P x W."""


class LayerNormWithoutBias(nn.LayerNorm):
    """Layer norm without bias, (x - mean) / sqrt(variance + epsilon) times a gain."""

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=NORM_EPSILON, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The normalised tensor; XLA divides this form, and not its own, by rows over chips."""
        if not devices.is_xla(x.device):
            # That of a model in shards may be bfloat16 in a pass; the norm is computed in float32.
            gain = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32))
            return F.layer_norm(x, self.normalized_shape, gain, None, self.eps)
        centred = x.float() - x.float().mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        return centred * torch.rsqrt(variance + self.eps) * self.weight


class Attention(nn.Module):
    """Causal self-attention with normalised queries and keys."""

    def __init__(self, shape: settings.Model) -> None:
        super().__init__()
        self.heads, self.head_width = shape.heads, shape.head_width
        inner = shape.heads * shape.head_width
        self.qkv = chunked_loss.Linear(shape.width, 3 * inner)
        self.out = chunked_loss.Linear(inner, shape.width)
        self.query_norm = LayerNormWithoutBias(shape.head_width)
        self.key_norm = LayerNormWithoutBias(shape.head_width)

    def queries_keys_values(
        self, x_BxLxD: Tensor, rotation: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each B x H x L x W."""
        B, L, _ = x_BxLxD.shape
        qkv = self.qkv(x_BxLxD).view(B, L, 3, self.heads, self.head_width)
        q_BxHxLxW, k_BxHxLxW, v_BxHxLxW = qkv.permute(2, 0, 3, 1, 4)
        q_BxHxLxW = apply_rotary(self.query_norm(q_BxHxLxW), rotation)
        k_BxHxLxW = apply_rotary(self.key_norm(k_BxHxLxW), rotation)
        return q_BxHxLxW, k_BxHxLxW, v_BxHxLxW

    def forward(
        self,
        x_BxLxD: Tensor,
        rotation: tuple[Tensor, Tensor],
        seen_Bx1xLxS: Tensor | None = None,
        shared: KeysValues | None = None,
    ) -> Tensor:
        """Attends from each position to itself and those before it, or to those it is let see."""
        B, L, _ = x_BxLxD.shape
        q_BxHxLxW, k_BxHxSxW, v_BxHxSxW = self.queries_keys_values(x_BxLxD, rotation)
        if shared is not None:
            k_1xHxPxW, v_1xHxPxW = shared
            k_BxHxSxW = torch.cat([k_1xHxPxW.expand(B, -1, -1, -1), k_BxHxSxW], dim=2)
            v_BxHxSxW = torch.cat([v_1xHxPxW.expand(B, -1, -1, -1), v_BxHxSxW], dim=2)
        # As torch.autocast has it on most devices, not on XLA's.
        q_BxHxLxW, k_BxHxSxW = q_BxHxLxW.to(v_BxHxSxW.dtype), k_BxHxSxW.to(v_BxHxSxW.dtype)
        y_BxHxLxW = F.scaled_dot_product_attention(
            q_BxHxLxW, k_BxHxSxW, v_BxHxSxW, seen_Bx1xLxS, is_causal=seen_Bx1xLxS is None
        )
        return self.out(y_BxHxLxW.transpose(1, 2).reshape(B, L, -1))


class Block(nn.Module):
    """Attention, then an MLP, each behind its own norm and added to the stream."""

    def __init__(self, shape: settings.Model) -> None:
        super().__init__()
        self.attention_norm = LayerNormWithoutBias(shape.width)
        self.attention = Attention(shape)
        self.mlp_norm = LayerNormWithoutBias(shape.width)
        self.up = chunked_loss.Linear(shape.width, settings.MLP_RATIO * shape.width)
        self.down = chunked_loss.Linear(settings.MLP_RATIO * shape.width, shape.width)
        self.approximate = "tanh" if shape.activation == "gelu-tanh" else "none"

    def forward(
        self,
        x_BxLxD: Tensor,
        rotation: tuple[Tensor, Tensor],
        seen_Bx1xLxS: Tensor | None = None,
        shared: KeysValues | None = None,
    ) -> Tensor:
        """One block's step on the residual stream."""
        x_BxLxD = x_BxLxD + self.attention(
            self.attention_norm(x_BxLxD), rotation, seen_Bx1xLxS, shared
        )
        inner_BxLxF = F.gelu(self.up(self.mlp_norm(x_BxLxD)), approximate=self.approximate)
        return x_BxLxD + self.down(inner_BxLxF)


def rotary_cosines_and_sines(position: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotation of each pair, for heads of width W.

    To the positions, of any shape, a dimension of W/2 is added.
    """
    exponent = torch.arange(0, width, 2, device=position.device, dtype=torch.float32) / width
    angle = position[..., None].float() * ROTARY_BASE**-exponent
    return angle.cos(), angle.sin()


def apply_rotary(x_BxHxLxW: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turns the pairs (i, i + W/2) by their position's angles (su2021roformer)."""
    cosine, sine = (part.to(x_BxHxLxW.dtype) for part in rotation)
    first, second = x_BxHxLxW.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class AttentionLayout:
    """Where tokens stand and what they see, for rows that are not read from left to right."""

    position_BxL: Tensor
    """Place of each token in its text, which the shared tokens begin."""
    seen_BxLxS: Tensor
    """Whether each token attends to each of the shared tokens and then of its own row."""
    shared: list[KeysValues] | None = None
    """Keys and values of the tokens that all rows share, one pair per block."""


class Transformer(nn.Module):
    """Decoder-only language model with tied embeddings."""

    takes_layouts = True
    """Whether rows may hold several texts side by side, as an `AttentionLayout` says."""

    def __init__(self, shape: settings.Model, vocabulary: int) -> None:
        super().__init__()
        self.shape, self.vocabulary = shape, vocabulary
        # Made so, torch draws no weights of its own: on the meta device that imports its compiler.
        weight_VxD = torch.empty(vocabulary, shape.width)
        self.embedding = nn.Embedding.from_pretrained(weight_VxD, freeze=False)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = LayerNormWithoutBias(shape.width)
        self.precision = torch.float32
        """What matrices are multiplied in; the stream and the norms stay float32."""
        self.recomputes = False
        """Whether a block's inner values are made again in the backward pass."""

    def configure(self, recipe: settings.Training) -> Self:
        """The same model, computing as a recipe says; models are made to compute plainly."""
        self.precision = PRECISIONS[recipe.precision]
        self.recomputes = recipe.activation_checkpointing
        if recipe.compile and not devices.is_xla(self.device):
            devices.use_torch_compile_cache()
            for block in self.blocks:
                # One compilation serves all blocks; their parameters are its arguments.
                block.compile()
        return self

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.output_weight.device

    @property
    def output_weight(self) -> Tensor:
        """V x D, what makes logits of hidden states: here the embedding."""
        return self.embedding.weight

    def refuse_other_tokenizer(self, pieces: int, pieces_from: Path, checkpoint: Path) -> Self:
        """The same model, if the embedding is one of so many pieces, which `pieces_from` brings."""
        if self.shape.padded_vocabulary(pieces) != self.vocabulary:
            raise InputError(
                f"{checkpoint} has an embedding of {self.vocabulary:,} pieces, which is not that "
                f"of {pieces_from} ({pieces:,} pieces): give the tokenizer that it was trained with"
            )
        return self

    def hidden_states(self, tokens_BxL: Tensor, layout: AttentionLayout | None = None) -> Tensor:
        """The stream after the last norm, BxLxD; logits are its products with the embedding.

        Without `layout`, tokens stand in the row's order and see those before them.
        """
        if self.precision == torch.float32:
            return self._hidden_states(tokens_BxL, layout)
        with torch.autocast(tokens_BxL.device.type, self.precision):
            return self._hidden_states(tokens_BxL, layout).float()

    def _hidden_states(self, tokens_BxL: Tensor, layout: AttentionLayout | None) -> Tensor:
        x_BxLxD = self.embedding(tokens_BxL)
        position = torch.arange(tokens_BxL.shape[1], device=tokens_BxL.device)
        seen: Tensor | None = None
        shared: Sequence[KeysValues | None] = [None] * len(self.blocks)
        if layout is not None:
            position, seen = layout.position_BxL[:, None], layout.seen_BxLxS[:, None]
            shared = layout.shared or shared
        rotation = rotary_cosines_and_sines(position, self.shape.head_width)
        for block, keys_values in zip(self.blocks, shared, strict=True):
            given = (x_BxLxD, rotation, seen, keys_values)
            if self.recomputes and torch.is_grad_enabled():
                x_BxLxD = devices.activation_checkpoint(block, *given)
            else:
                x_BxLxD = block(*given)
        return self.norm(x_BxLxD)

    def prefix_keys_values(self, tokens_P: Tensor) -> list[KeysValues]:
        """What each block keeps of a text's beginning, for `AttentionLayout.shared`."""
        position_P = torch.arange(len(tokens_P), device=tokens_P.device)
        rotation = rotary_cosines_and_sines(position_P, self.shape.head_width)
        x_1xPxD = self.embedding(tokens_P[None])
        kept = []
        for block in cast("Sequence[Block]", self.blocks):
            _, *keys_values = block.attention.queries_keys_values(
                block.attention_norm(x_1xPxD), rotation
            )
            kept.append((keys_values[0], keys_values[1]))
            x_1xPxD = block(x_1xPxD, rotation)
        return kept

    def forward(self, tokens_BxL: Tensor) -> Tensor:
        """Logits of each next token, BxLxV."""
        return self.hidden_states(tokens_BxL) @ self.output_weight.T


def initial_model(shape: settings.Model, vocabulary: int, seed: int) -> Transformer:
    """A model with initial weights that depend on shape, vocabulary and seed alone.

    The embedding is normal with variance 1 / D, so that logits of a normalised stream start with
    variance 1. Matrices are by `shape.initial_weights`

    - `scaled-normal`: normal with variance 1 / fan-in, those that write to the residual stream
      divided by sqrt(2 * layers) besides;
    - `xavier-uniform`: uniform within sqrt(6 / (fan-in + fan-out)), where queries, keys and values
      are a matrix each (nanodo/model.py).
    """
    model = Transformer(shape, vocabulary)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim < 2:
                continue
            fan_in = shape.width if name == "embedding.weight" else weight.shape[1]
            if shape.initial_weights == "xavier-uniform" and name != "embedding.weight":
                fan_out = len(weight) // (3 if name.endswith("qkv.weight") else 1)
                bound = math.sqrt(6 / (fan_in + fan_out))
                weight.copy_((2 * torch.rand(weight.shape, generator=generator) - 1) * bound)
                continue
            residual = name.endswith(("attention.out.weight", "down.weight"))
            scale = fan_in**-0.5 / (math.sqrt(2 * shape.layers) if residual else 1.0)
            weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
    return model


def token_losses(model: Transformer, tokens_BxL1: Tensor) -> Tensor:
    """Nats of each next token, B x L in float32, for rows of L + 1 tokens."""
    hidden, target = _hidden_states_and_targets(model, tokens_BxL1)
    weight, shared = model.output_weight, xla_chips.chip_count(model.device)
    nll = chunked_loss.token_cross_entropies(hidden, weight, target, model.precision, shared)
    return nll.view(tokens_BxL1.shape[0], -1)


def weighted_sum_and_row_losses(
    model: Transformer, tokens_BxL1: Tensor, weight_B: Tensor
) -> tuple[Tensor, Tensor]:
    """The rows' mean losses summed by weight, a scalar; and those losses, B, without gradient."""
    hidden, target = _hidden_states_and_targets(model, tokens_BxL1)
    B, L = len(tokens_BxL1), tokens_BxL1.shape[1] - 1
    weight = (weight_B / L)[:, None].expand(B, L).reshape(target.shape)
    total, nll = chunked_loss.weighted_sum_and_losses(
        hidden,
        model.output_weight,
        target,
        weight,
        model.precision,
        xla_chips.chip_count(model.device),
    )
    return total, nll.view(B, L).mean(dim=1)


def _hidden_states_and_targets(model: Transformer, tokens_BxL1: Tensor) -> tuple[Tensor, Tensor]:
    """The stream at each token that predicts, N x D, and the N tokens that follow.

    On a device that compiles, B x L x D and B x L: its chips share the rows.
    """
    hidden_BxLxD, target_BxL = model.hidden_states(tokens_BxL1[:, :-1]), tokens_BxL1[:, 1:]
    if devices.is_xla(model.device):
        return hidden_BxLxD, target_BxL
    return hidden_BxLxD.flatten(0, 1), target_BxL.flatten()


def trainable_parameter_count(model: nn.Module) -> int:
    """Number of trainable numbers, each counted once."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
