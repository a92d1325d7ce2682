"""Modules without weights: names and shapes at no cost, to check against or to put weights into."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .config import BiLMConfig
from .model import BiLM

# With which torch.nn.init fills a tensor.
FILLING = frozenset({"fill_", "normal_", "uniform_", "zero_"})


class _Unfilled(TorchFunctionMode):
    """Leaves tensors as they are made.

    On the meta device there is nothing to fill, but to find that out torch imports its compiler,
    which takes longer than to read a biLM.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in FILLING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@contextmanager
def without_weights() -> Iterator[None]:
    """Modules that are made meanwhile are on the meta device: they have shapes, but no values."""
    with torch.device("meta"), _Unfilled():
        yield


def shapes(config: BiLMConfig) -> dict[str, tuple[int, ...]]:
    """Of every tensor of a biLM, by its key."""
    with without_weights():
        return {key: tuple(tensor.shape) for key, tensor in BiLM(config).state_dict().items()}
