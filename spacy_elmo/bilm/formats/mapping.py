"""What a published file holds, and which tensors of the biLM that is: maps that run both ways."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BiLMError

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Dataset:
    """One array of a file, and the tensors of the BiLM that it holds.

    name (str): Its place in the file.
    shape (tuple[int, ...]): As stored.
    keys (tuple[str, ...]): Of the BiLM's state dict, in the order in which `split` gives them.
    split: The stored array to those tensors. join: back again.
    """

    name: str
    shape: tuple[int, ...]
    keys: tuple[str, ...]
    split: Callable[[Array], tuple[Array, ...]]
    join: Callable[..., Array]

    def to_tensors(self, stored: Array) -> dict[str, Tensor]:
        """The biLM's tensors, by their keys, in memory of their own."""
        parts = zip(self.keys, self.split(stored), strict=True)
        return {key: torch.from_numpy(np.array(part, order="C")) for key, part in parts}

    def from_tensors(self, tensors: dict[str, Tensor]) -> Array:
        """The array to store."""
        return self.join(*(tensors[key].detach().cpu().float().numpy() for key in self.keys))


def same(name: str, shape: tuple[int, ...], key: str) -> Dataset:
    """Stored as the biLM holds it."""
    return Dataset(name, shape, (key,), lambda stored: (stored,), lambda ours: ours)


def transposed(name: str, shape: tuple[int, int], key: str) -> Dataset:
    """A matrix stored with inputs as rows."""
    return Dataset(name, shape, (key,), lambda stored: (stored.T,), lambda ours: ours.T)


def reorder(rows: Array, stored: str, wanted: str) -> Array:
    """Put the four gates, stacked along the first axis, into another order (as "ijfo", "ifoj")."""
    gates = dict(zip(stored, np.split(rows, 4), strict=True))
    return np.concatenate([gates[gate] for gate in wanted])


def check_finite(values: Tensor, name: str, source: str) -> None:
    """Raises BiLMError where values hold NaN or infinity."""
    # A sum allocates nothing and stays finite for finite weights; only if not, look at each.
    if not torch.isfinite(values.sum()) and not torch.isfinite(values).all():
        raise BiLMError(
            f"{source}: '{name}' holds NaN or infinite values, expected finite weights: "
            "its training diverged or the file is damaged, use another one."
        )
