"""The parts of the decoder: norm, rotary positions, attention, block.

Shapes: B rows, L tokens, D model width, H heads, W head width, P tokens that all rows share,
S = P + L.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pike_mixing.torch import chunked_loss
from pipeline import settings
from pipeline.runtime import devices

NORM_EPSILON = 1e-6
ROTARY_BASE = 10_000.0

KeysValues = tuple[Tensor, Tensor]
"""What one block keeps of tokens, for later ones to attend to: each 1 x H x P x W."""


class Norm(nn.LayerNorm):
    """Layer norm without bias, (x - mean) / sqrt(variance + epsilon) times a gain."""

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=NORM_EPSILON, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The normalised tensor; XLA divides this form, and not its own, by rows over chips."""
        if not devices.compiles(x.device):
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
        self.query_norm = Norm(shape.head_width)
        self.key_norm = Norm(shape.head_width)

    def project(
        self, x_BxLxD: Tensor, rotation: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each B x H x L x W."""
        B, L, _ = x_BxLxD.shape
        qkv = self.qkv(x_BxLxD).view(B, L, 3, self.heads, self.head_width)
        q_BxHxLxW, k_BxHxLxW, v_BxHxLxW = qkv.permute(2, 0, 3, 1, 4)
        q_BxHxLxW = rotate(self.query_norm(q_BxHxLxW), rotation)
        k_BxHxLxW = rotate(self.key_norm(k_BxHxLxW), rotation)
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
        q_BxHxLxW, k_BxHxSxW, v_BxHxSxW = self.project(x_BxLxD, rotation)
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
        self.attention_norm = Norm(shape.width)
        self.attention = Attention(shape)
        self.mlp_norm = Norm(shape.width)
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


def turns(position: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotation of each pair, for heads of width W.

    To the positions, of any shape, a dimension of W/2 is added.
    """
    exponent = torch.arange(0, width, 2, device=position.device, dtype=torch.float32) / width
    angle = position[..., None].float() * ROTARY_BASE**-exponent
    return angle.cos(), angle.sin()


def rotate(x_BxHxLxW: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turns the pairs (i, i + W/2) by their position's angles (su2021roformer)."""
    cosine, sine = (part.to(x_BxHxLxW.dtype) for part in rotation)
    first, second = x_BxHxLxW.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
