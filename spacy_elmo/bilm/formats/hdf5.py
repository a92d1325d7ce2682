"""options.json + weights.hdf5: the layout of bilm-tf's `dump_weights`, in which ELMo was published."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..characters import N_CHARACTERS
from ..config import BiLMConfig
from ..errors import BiLMError
from .files import read_json, write_atomically

Array = NDArray[np.float32]
MARK = "char_embed"
# What h5py raises depends on the part of a file that is damaged.
DAMAGE = (OSError, RuntimeError, KeyError, ValueError)
REMEDY = "the weights and the options belong to different models, or the file is damaged"


@dataclass(frozen=True)
class Dataset:
    """One dataset of the file, and the tensors of the BiLM that it holds.

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


def is_weights(path: Path) -> bool:
    """Whether a file is HDF5 and holds a biLM's character table."""
    if not h5py.is_hdf5(path):
        return False
    try:
        with h5py.File(path, "r") as file:
            return MARK in file
    except DAMAGE:
        # Let `read` say so.
        return True


def inspect(options_path: Path, weights_path: Path) -> BiLMConfig:
    """Check the options, and every dataset and shape, without loading any.

    Raises BiLMError that names the file, the dataset, what was expected and what was found.
    """
    config = BiLMConfig.from_options(read_json(options_path), str(options_path))
    with _open(weights_path) as file:
        _check(file, list(datasets(config)), weights_path, options_path)
    return config


def read(options_path: Path, weights_path: Path) -> tuple[BiLMConfig, dict[str, Tensor]]:
    """Inspect, then load."""
    config = inspect(options_path, weights_path)
    tensors: dict[str, Tensor] = {}
    with _open(weights_path) as file:
        for dataset in datasets(config):
            arrays = dataset.split(_load(file, dataset, weights_path))
            for key, array in zip(dataset.keys, arrays, strict=True):
                tensors[key] = torch.from_numpy(np.ascontiguousarray(array))
    return config, tensors


def write(
    config: BiLMConfig, tensors: dict[str, Tensor], options_path: Path, weights_path: Path
) -> None:
    """Write a biLM so that bilm-tf, AllenNLP and `read` read it; whole files or none."""

    def write_weights(path: Path) -> None:
        with h5py.File(path, "w") as file:
            for dataset in datasets(config):
                arrays = [tensors[key].detach().cpu().float().numpy() for key in dataset.keys]
                file.create_dataset(dataset.name, data=dataset.join(*arrays), dtype="float32")

    write_atomically(weights_path, write_weights)
    text = json.dumps(config.to_options(), indent=2) + "\n"
    write_atomically(options_path, lambda path: path.write_text(text, encoding="utf8"))


def datasets(config: BiLMConfig) -> Iterator[Dataset]:
    """What a file of these sizes holds."""
    yield Dataset(
        MARK,
        (config.n_characters, config.char_dim),
        ("token_encoder.embedding.weight",),
        lambda stored: (stored,),
        lambda ours: ours,
    )
    for i, (width, n) in enumerate(config.filters):
        ours = f"token_encoder.convolutions.{i}"
        yield Dataset(
            f"CNN/W_cnn_{i}",
            (1, width, config.char_dim, n),
            (f"{ours}.weight",),
            lambda stored: (stored[0].transpose(2, 1, 0),),
            lambda ours: ours.transpose(2, 1, 0)[None],
        )
        yield _bias(f"CNN/b_cnn_{i}", n, f"{ours}.bias")
    for i in range(config.n_highway):
        for part in ("transform", "carry"):
            ours = f"token_encoder.highways.{i}.{part}"
            size = config.n_filters
            yield _matrix(f"CNN_high_{i}/W_{part}", (size, size), f"{ours}.weight")
            yield _bias(f"CNN_high_{i}/b_{part}", size, f"{ours}.bias")
    if config.projects_characters:
        shape = (config.n_filters, config.projection_dim)
        yield _matrix("CNN_proj/W_proj", shape, "token_encoder.projection.weight")
        yield _bias("CNN_proj/b_proj", config.projection_dim, "token_encoder.projection.bias")
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
        lambda read, recur: np.concatenate([_theirs(read).T, _theirs(recur).T]),
    )
    yield Dataset(
        f"{stored}/B",
        (4 * cells,),
        (f"{ours}.bias",),
        lambda stored: (_ours(stored),),
        lambda ours: _theirs(ours),
    )
    if config.projects_cells:
        yield _matrix(f"{stored}/W_P_0", (cells, inputs), f"{ours}.projection")


def _matrix(name: str, shape: tuple[int, int], key: str) -> Dataset:
    return Dataset(name, shape, (key,), lambda stored: (stored.T,), lambda ours: ours.T)


def _bias(name: str, size: int, key: str) -> Dataset:
    return Dataset(name, (size,), (key,), lambda stored: (stored,), lambda ours: ours)


def _ours(rows: Array) -> Array:
    """Gates from TensorFlow's order, i j f o, to i f o j."""
    i, j, f, o = np.split(rows, 4)
    return np.concatenate([i, f, o, j])


def _theirs(rows: Array) -> Array:
    i, f, o, j = np.split(rows, 4)
    return np.concatenate([i, j, f, o])


@contextmanager
def _open(path: Path) -> Iterator[h5py.File]:
    try:
        with h5py.File(path, "r") as file:
            yield file
    except BiLMError:
        raise
    except DAMAGE as error:
        raise BiLMError(
            f"{path} cannot be read as HDF5 ({error}): expected the weights of a biLM; "
            "the file is damaged or incomplete, fetch it again."
        ) from None


def _check(file: h5py.File, layout: list[Dataset], weights: Path, options: Path) -> None:
    stored = _shapes(file)
    for dataset in layout:
        if dataset.name not in stored:
            raise BiLMError(
                f"{weights} lacks the dataset '{dataset.name}', expected with shape {dataset.shape} "
                f"according to {options}: {REMEDY}."
            )
        shape, dtype = stored.pop(dataset.name)
        allowed = {dataset.shape}
        if dataset.name == MARK:
            allowed.add((N_CHARACTERS + 1, dataset.shape[1]))
        if shape not in allowed:
            raise BiLMError(
                f"{weights}: the dataset '{dataset.name}' has the shape {shape}, expected "
                f"{dataset.shape} according to {options}: {REMEDY}."
            )
        if dtype != np.float32:
            raise BiLMError(
                f"{weights}: the dataset '{dataset.name}' has the type {dtype}, expected float32: "
                "convert it to float32."
            )
    if stored:
        raise BiLMError(
            f"{weights} holds the dataset '{min(stored)}', of which {options} says nothing: {REMEDY}."
        )


def _shapes(file: h5py.File) -> dict[str, tuple[tuple[int, ...], Any]]:
    found: dict[str, tuple[tuple[int, ...], Any]] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = (item.shape, item.dtype)

    file.visititems(visit)
    return found


def _load(file: h5py.File, dataset: Dataset, path: Path) -> Array:
    array: Array = file[dataset.name][()]
    if dataset.name == MARK and len(array) == N_CHARACTERS + 1:
        return _without_mask_row(array, path)
    return array


def _without_mask_row(array: Array, path: Path) -> Array:
    """A table of 262 rows starts with the all-zero row that readers add for masked positions."""
    if array[0].any():
        raise BiLMError(
            f"{path}: '{MARK}' has 262 rows and its first is not zero, expected 261 rows, or 262 of "
            "which the first is the all-zero mask row: another table of characters cannot be read."
        )
    return array[1:]
