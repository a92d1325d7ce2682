"""What a published file holds, and which tensors of the biLM that is: maps that run both ways."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import BiLMError


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
    split: Callable[[Tensor], tuple[Tensor, ...]]
    join: Callable[..., Tensor]

    def to_tensors(self, stored: Tensor) -> dict[str, Tensor]:
        """The biLM's tensors, by their keys; what is stored as it is wanted is not copied."""
        parts = zip(self.keys, self.split(stored), strict=True)
        return {key: part.contiguous() for key, part in parts}

    def from_tensors(self, tensors: dict[str, Tensor]) -> Tensor:
        """The array to store."""
        return self.join(*(tensors[key].detach().cpu().float() for key in self.keys)).contiguous()


def same(name: str, shape: tuple[int, ...], key: str) -> Dataset:
    """Stored as the biLM holds it."""
    return Dataset(name, shape, (key,), lambda stored: (stored,), lambda ours: ours)


def transposed(name: str, shape: tuple[int, int], key: str) -> Dataset:
    """A matrix stored with inputs as rows."""
    return Dataset(name, shape, (key,), lambda stored: (stored.T,), lambda ours: ours.T)


def reorder(rows: Tensor, stored: str, wanted: str) -> Tensor:
    """Put the four gates, stacked along the first axis, into another order (as "ijfo", "ifoj")."""
    gates = dict(zip(stored, rows.chunk(4), strict=True))
    return torch.cat([gates[gate] for gate in wanted])


def check_finite(values: Tensor, name: str, source: str) -> None:
    """Raises BiLMError where values hold NaN or infinity."""
    # A sum allocates nothing and stays finite for finite weights; only if not, look at each.
    if not torch.isfinite(values.sum()) and not torch.isfinite(values).all():
        raise BiLMError(
            f"{source}: '{name}' holds NaN or infinite values, expected finite weights: "
            "its training diverged or the file is damaged, use another one."
        )
