"""What a published file holds, and which tensors of the biLM that is: maps that run both ways."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..errors import BiLMError

# Bytes of a file that are not numbers.
ELSE_AT_MOST = 2**20


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


def check_size(path: Path, stored: Sequence[Dataset], source: str) -> None:
    """Raises BiLMError where a file is far too small or too large for what it should hold.

    source: What says so.
    """
    expected = 4 * sum(math.prod(dataset.shape) for dataset in stored)
    found = path.stat().st_size
    # Numbers may be stored in half or double precision, names and the like take some space.
    if not expected / 2 <= found <= 2 * expected + ELSE_AT_MOST:
        raise BiLMError(
            f"{path} is {found} bytes, expected about {expected} according to {source}: they belong to "
            "different models, or the file is damaged, fetch both again."
        )
