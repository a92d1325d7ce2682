"""Where a biLM was found: what every layout's `find` gives."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ..config import BiLMConfig
from ..token_cache import TokenCache

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Source:
    """A biLM's layout in words, its files, and how it is read. What it calls raises BiLMError.

    inspect: Checks it without loading tensors. read: Loads it.
    outline: As inspect, but does not look into the weights, only at their size; None: inspect needs
        no more than the beginnings of large files.
    read_output: Loads the output layer (weight and bias), where the layout holds one.
    vocabulary (Path | None): The output layer's words, one a line, where they are beside it.
    complete (bool): Whether inspect sees the name and shape of every tensor.
    read_token_cache: Loads the token vectors of a vocabulary, where they are beside it.
    """

    layout: str
    files: tuple[Path, ...]
    inspect: Callable[[], BiLMConfig]
    read: Callable[[], tuple[BiLMConfig, Tensors]]
    read_output: Callable[[], Tensors] | None = None
    vocabulary: Path | None = None
    outline: Callable[[], BiLMConfig] | None = None
    read_token_cache: Callable[[BiLMConfig], TokenCache] | None = None
    complete: bool = True
