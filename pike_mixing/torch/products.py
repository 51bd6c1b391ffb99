"""Matrix products in float32 on a processor with AVX-512, by oneDNN.

torch gives such products to MKL, which computes with AVX2 on processors that are not Intel's.
oneDNN is part of torch, too, and uses AVX-512 wherever it is: 2.0 to 2.6 times as fast on AMD's
Zen 5, as fast on Zen 4, in the same precision. In any other case these functions are torch's own.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ONEDNN = torch.backends.mkldnn.is_available() and (
    torch.backends.cpu.get_cpu_capability() == "AVX512"
)
"""Whether oneDNN is there and may have instructions that MKL does not use."""


class Linear(nn.Linear):
    """A linear map without bias, y = x W^T."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__(inner, outer, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The map's value; x has any number of dimensions before the last."""
        return of_rows(x, self.weight)


def of_rows(a: Tensor, b_NxK: Tensor) -> Tensor:
    """The products of A's rows (... x K) with B's, A B^T (... x N)."""
    if ONEDNN and _takes(a) and _takes(b_NxK):
        result: Tensor = _OfRows.apply(a, b_NxK)  # type: ignore[no-untyped-call]
        return result
    return F.linear(a, b_NxK)


def of_columns(a_MxI: Tensor, b_MxJ: Tensor) -> Tensor:
    """The products of A's columns with B's, A^T B (I x J)."""
    # oneDNN copies its first factor if its rows are no rows of memory: it gets the smaller one.
    if a_MxI.shape[1] <= b_MxJ.shape[1]:
        return of_rows(a_MxI.T, b_MxJ.T)
    return of_rows(b_MxJ.T, a_MxI.T).T


def _takes(factor: Tensor) -> bool:
    """Whether oneDNN takes it, in float32: it has numbers, on a CPU, and none is to be cast."""
    exact = factor.is_cpu and factor.dtype == torch.float32 and factor.numel() > 0
    return exact and factor.ndim > 1 and not torch.is_autocast_enabled("cpu")


def _by_onednn(a: Tensor, b_NxK: Tensor) -> Tensor:
    factors = _dense(a), _dense(b_NxK)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(*factors, None, "none", [], "")
    return result


def _dense(factor: Tensor) -> Tensor:
    """The factor in one piece of memory; oneDNN takes a hundred times as long for one with gaps."""
    whole = factor.is_contiguous() or factor.mT.is_contiguous()
    return factor if whole else factor.contiguous()


# torch.compile would look into oneDNN's product, and fails where the weights change.
_opaque = torch.library.custom_op("pike_mixing::of_rows", _by_onednn, mutates_args=())


@_opaque.register_fake
def _(a: Tensor, b_NxK: Tensor) -> Tensor:
    return a.new_empty(*a.shape[:-1], len(b_NxK))


class _OfRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b_NxK: Tensor) -> Tensor:
        ctx.save_for_backward(a, b_NxK)
        return _opaque(a, b_NxK) if torch.compiler.is_compiling() else _by_onednn(a, b_NxK)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b_NxK = ctx.saved_tensors
        of_a = of_rows(slope, b_NxK.T) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_a, None
        return of_a, of_columns(slope.flatten(0, -2), a.flatten(0, -2))
