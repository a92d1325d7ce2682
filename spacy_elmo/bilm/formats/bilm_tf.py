"""The variables of bilm-tf's training graph (`bilm/training.py`), and the biLM's tensors in them."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..config import BiLMConfig
from .mapping import Dataset, reorder, same, transposed

MARK = "char_embed"
# TensorFlow's order of the gates, and the kernel's.
THEIRS, OURS = "ijfo", "ifoj"


def datasets(config: BiLMConfig) -> Iterator[Dataset]:
    """What a file of a biLM of these sizes holds, by the names of its HDF5 (`dump_weights`)."""
    table = (config.n_characters, config.char_dim)
    yield same(MARK, table, "token_encoder.embedding.weight")
    for i, (width, n) in enumerate(config.filters):
        ours = f"token_encoder.convolutions.{i}"
        yield Dataset(
            f"CNN/W_cnn_{i}",
            (1, width, config.char_dim, n),
            (f"{ours}.weight",),
            lambda stored: (stored[0].permute(2, 1, 0),),
            lambda ours: ours.permute(2, 1, 0)[None],
        )
        yield same(f"CNN/b_cnn_{i}", (n,), f"{ours}.bias")
    size = config.n_filters
    for i in range(config.n_highway):
        for part in ("transform", "carry"):
            ours = f"token_encoder.highways.{i}.{part}"
            yield transposed(f"CNN_high_{i}/W_{part}", (size, size), f"{ours}.weight")
            yield same(f"CNN_high_{i}/b_{part}", (size,), f"{ours}.bias")
    if config.projects_characters:
        ours = "token_encoder.projection"
        yield transposed("CNN_proj/W_proj", (size, config.projection_dim), f"{ours}.weight")
        yield same("CNN_proj/b_proj", (config.projection_dim,), f"{ours}.bias")
    for direction, stack in enumerate(("forward_lm", "backward_lm")):
        for i in range(config.n_layers):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{i}/LSTMCell"
            yield from _lstm(config, cell, f"{stack}.layers.{i}")


def _lstm(config: BiLMConfig, stored: str, ours: str) -> Iterator[Dataset]:
    inputs, cells = config.projection_dim, config.cell_dim
    yield Dataset(
        f"{stored}/W_0",
        (2 * inputs, 4 * cells),
        (f"{ours}.input_weight", f"{ours}.recurrent_weight"),
        lambda stored: (_ours(stored[:inputs].T), _ours(stored[inputs:].T)),
        lambda read, recur: torch.cat([_theirs(read).T, _theirs(recur).T]),
    )
    yield Dataset(
        f"{stored}/B", (4 * cells,), (f"{ours}.bias",), lambda stored: (_ours(stored),), _theirs
    )
    if config.projects_cells:
        yield transposed(f"{stored}/W_P_0", (cells, inputs), f"{ours}.projection")


def _ours(rows: Tensor) -> Tensor:
    return reorder(rows, THEIRS, OURS)


def _theirs(rows: Tensor) -> Tensor:
    return reorder(rows, OURS, THEIRS)
