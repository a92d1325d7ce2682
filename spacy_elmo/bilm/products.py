"""Products of rows with a weight that does not change: packed once, read many times.

Packing costs about as much as some hundred rows, and another copy of the weight, so that in float32 it
waits until as many have come.
"""

import functools
import time
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from .precision import Precision

# Rows that are read before a weight is packed: then packing has paid within about as many more.
ROWS_BEFORE_PACKING = 256


class Product(Protocol):
    def __call__(self, rows: Tensor, add: Tensor | None = None) -> Tensor:
        """rows times the transposed weight, plus its bias, plus add. *Shape:* (M, in) -> (M, out)."""
        ...


def pack(weight: Tensor, bias: Tensor | None, precision: Precision, *, doubled: int = 0) -> Product:
    """The fastest product of this precision on the weight's device; weight (out, in), bias (out,).

    doubled (int): How many of the last outputs are wanted twice as large.
    Raises ValueError where PyTorch cannot.
    """
    on_cpu = weight.device.type == "cpu"
    if precision == "float32" and on_cpu and weight.dtype == torch.float32 and has_onednn():
        return LateProduct(weight, bias, doubled)
    weight, bias = _double_last(weight, bias, doubled)
    if precision == "int8":
        if not (on_cpu and has_int8()):
            raise ValueError(
                f'precision = "int8" needs a CPU and a PyTorch with oneDNN, this is {weight.device.type} '
                f'and PyTorch {torch.__version__}; use "float32" or "bfloat16".'
            )
        return Int8Product(weight, bias)
    if precision == "bfloat16":
        fast = on_cpu and has_onednn() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        return (OneDnnProduct if fast else TorchProduct)(weight, bias, torch.bfloat16)
    return TorchProduct(weight, bias, weight.dtype)


def _double_last(weight: Tensor, bias: Tensor | None, doubled: int) -> tuple[Tensor, Tensor | None]:
    """Exact, for a number of two in binary."""
    if not doubled:
        return weight, bias
    factor = torch.ones_like(weight[:, 0])
    factor[-doubled:] = 2.0
    return weight * factor[:, None], None if bias is None else bias * factor


class TorchProduct:
    """By PyTorch's public functions, on every device and in every type."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self._weight = weight.to(dtype)
        self._bias = None if bias is None else bias.to(dtype)

    def __call__(self, rows: Tensor, add: Tensor | None = None) -> Tensor:
        product = functional.linear(rows.to(self._weight.dtype), self._weight, self._bias)
        product = product.to(rows.dtype)
        return product if add is None else product.add_(add)


class OneDnnProduct:
    """By oneDNN, its weight in oneDNN's own blocked layout. The operators are not public: has_onednn
    tells whether they are there.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype).contiguous(), None)
        self._bias = None if bias is None else bias.to(dtype)

    def __call__(self, rows: Tensor, add: Tensor | None = None) -> Tensor:
        linear = torch.ops.mkldnn._linear_pointwise
        low = rows.to(self._dtype)
        if add is not None and self._dtype == rows.dtype:
            return linear.binary(low, add, self._weight, self._bias, "add")
        product = linear(low, self._weight, self._bias, "none", [], "").to(rows.dtype)
        return product if add is None else product.add_(add)


class LateProduct:
    """In float32 on a CPU. First with the weight as it is, without a copy; after some rows by oneDNN, if
    that is faster.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, doubled: int) -> None:
        self._weight, self._bias, self._doubled = weight, bias, doubled
        self._plain = TorchProduct(weight, bias, weight.dtype)
        self._packed: OneDnnProduct | None = None
        self._rows = 0

    def __call__(self, rows: Tensor, add: Tensor | None = None) -> Tensor:
        if self._rows <= ROWS_BEFORE_PACKING:
            self._rows += len(rows)
            if self._rows > ROWS_BEFORE_PACKING and onednn_is_faster():
                weight, bias = _double_last(self._weight, self._bias, self._doubled)
                self._packed = OneDnnProduct(weight, bias, weight.dtype)
        if self._packed is not None:
            return self._packed(rows, add)
        product = self._plain(rows)
        if self._doubled:
            product[:, -self._doubled :].mul_(2.0)
        return product if add is None else product.add_(add)


class Int8Product:
    """Weights in 8 bits with a scale for each output, rows in 8 bits with a scale for each row, so that
    a result does not depend on the rows beside it. Sums are exact, in 32 bits.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 127
        quantized = (weight / self._scale[:, None]).round().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(quantized.contiguous(), None)
        self._zero = torch.zeros(len(weight), dtype=torch.int64)
        self._bias = bias

    def __call__(self, rows: Tensor, add: Tensor | None = None) -> Tensor:
        scale = rows.abs().amax(dim=1, keepdim=True).clamp_min_(1e-12).div_(127)
        low = (rows / scale).round_().add_(128).to(torch.uint8)
        product = torch.ops.onednn.qlinear_pointwise(
            low, 1.0, 128, self._weight, self._scale, self._zero, None, 1.0, 0, torch.float32,
            "none", [], "",
        )  # fmt: skip
        if self._bias is not None:
            product = torch.addcmul(self._bias, product, scale)
        else:
            product.mul_(scale)
        return product if add is None else product.add_(add)


def has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and all(
        hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )


def has_int8() -> bool:
    return torch.backends.mkldnn.is_available() and all(
        hasattr(torch.ops.onednn, name) for name in ("qlinear_prepack", "qlinear_pointwise")
    )


@functools.cache
def onednn_is_faster() -> bool:
    """Measured once a process, for some milliseconds: which library wins depends on the processor."""
    weight, rows = torch.randn(2048, 512), torch.randn(64, 512)
    seconds = []
    for product in (
        TorchProduct(weight, None, weight.dtype),
        OneDnnProduct(weight, None, weight.dtype),
    ):
        product(rows)
        tries = []
        for _ in range(5):
            start = time.perf_counter()
            product(rows)
            tries.append(time.perf_counter() - start)
        seconds.append(min(tries))
    return seconds[1] < seconds[0]
