"""The machine's limit of matrix products, and the products that the engine makes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Any

import torch
from torch import Tensor

from spacy_elmo import BiLM
from spacy_elmo.bilm import packed_lstm, packed_tokens
from spacy_elmo.bilm.products import OneDnnProduct, Product, TorchProduct, has_onednn, pack
from spacy_elmo.bilm.side_by_side import side_by_side

ROWS = (64, 128, 256, 512, 1024)
SECONDS = 0.15


def peak(config: Any, rows: tuple[int, ...] = ROWS, seconds: float = SECONDS) -> dict[str, float]:
    """GFLOP/s of float32 products with the LSTMs' weights, the best of two libraries (PyTorch's own and
    oneDNN with packed weights) and two ways (all threads in one product, or half of them in each of
    two at once), each kept up for some time.
    """
    shapes = {
        (4 * config.cell_dim, config.projection_dim),
        (config.projection_dim, config.cell_dim),
    }
    libraries = [TorchProduct, *([OneDnnProduct] if has_onednn() else [])]
    rates = {
        f"[{m}, {k}] x [{k}, {n}]": max(
            max(_rate(pair, torch.randn(m, k), 2 * m * k * n, seconds))
            for library in libraries
            for pair in [[library(torch.randn(n, k), None, torch.float32) for _ in range(2)]]
        )
        for n, k in sorted(shapes)
        for m in rows
    }
    return {"GFLOP/s": max(rates.values()), **rates}


def _rate(products: list[Product], rows: Tensor, flops: int, seconds: float) -> tuple[float, float]:
    def repeat(product: Product, stop: Event) -> float:
        product(rows)
        start, times = time.perf_counter(), 0
        while (passed := time.perf_counter() - start) < seconds:
            product(rows)
            times += 1
        return times * flops / passed / 1e9

    one = repeat(products[0], Event())
    if torch.get_num_threads() < 2:
        return one, one
    first, second = (partial(repeat, product) for product in products)
    return one, sum(side_by_side(first, second))


class CountedProduct:
    def __init__(self, product: Product, weight: Tensor, counts: list[int]) -> None:
        self._product, self._each, self._counts = product, 2 * weight.numel(), counts

    def __call__(self, rows: Tensor, add: Tensor | None = None) -> Tensor:
        self._counts.append(len(rows) * self._each)
        return self._product(rows, add)


@contextmanager
def counted(bilm: BiLM) -> Iterator[list[int]]:
    """Floating-point operations of every product with a weight and every convolution, of the engines that
    are made and the text that is read meanwhile: a multiplication and an addition each.
    """
    counts: list[int] = []

    def counting_pack(weight: Tensor, *settings: Any, **more: Any) -> Product:
        return CountedProduct(pack(weight, *settings, **more), weight, counts)

    def count_convolution(module: torch.nn.Module, inputs: Any, output: Tensor) -> None:
        weight = module.weight
        counts.append(2 * output.numel() * weight[0].numel())  # type: ignore[index]

    hooks = [
        convolve.register_forward_hook(count_convolution)
        for convolve in bilm.token_encoder.convolutions
    ]
    packed_lstm.pack = packed_tokens.pack = counting_pack
    try:
        yield counts
    finally:
        packed_lstm.pack = packed_tokens.pack = pack
        for hook in hooks:
            hook.remove()
