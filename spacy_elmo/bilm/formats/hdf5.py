"""options.json + weights.hdf5: the layout of bilm-tf's `dump_weights`, in which ELMo was published."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from ..characters import N_CHARACTERS
from ..config import REMEDY as OPTIONS_REMEDY
from ..config import BiLMConfig
from ..errors import BiLMError
from .bilm_tf import MARK, datasets
from .files import read_json, write_atomically
from .mapping import Dataset, check_finite, check_size
from .source import Source

LAYOUT = "options.json + weights.hdf5"
# What h5py raises depends on the part of a file that is damaged.
DAMAGE = (OSError, RuntimeError, KeyError, ValueError)
REMEDY = (
    f"they belong to different models, {OPTIONS_REMEDY}; or the file is damaged, fetch it again"
)


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


def find(path: Path, options: Path | None = None) -> Source | None:
    """A biLM of this layout, in a directory or given by its weights; None where there is none.

    options: The path of the options; None: they are beside the weights.
    Raises BiLMError where it is not clear which weights or which options.
    """
    if not path.is_dir():
        weights = [path] if is_weights(path) else []
    else:
        weights = [file for file in sorted(path.iterdir()) if file.is_file() and is_weights(file)]
    if not weights:
        return None
    if len(weights) > 1:
        names = ", ".join(file.name for file in weights)
        raise BiLMError(f"{path} holds several biLMs ({names}): name one of these files.")
    found, beside = weights[0], options or find_options(weights[0])
    return Source(
        LAYOUT,
        (beside, found),
        lambda: inspect(beside, found),
        lambda: read(beside, found),
        outline=lambda: outline(beside, found),
    )


def find_options(weights: Path) -> Path:
    """The options beside weights: of several models by what stands before "weights.hdf5"."""
    directory = weights.parent
    partner = directory / weights.name.replace("weights.hdf5", "options.json")
    named = [p for p in (partner, directory / "options.json") if p != weights and p.is_file()]
    options = named[:1] or sorted(directory.glob("*options.json"))
    if len(options) == 1:
        return options[0]
    names = ", ".join(path.name for path in options) or "none"
    raise BiLMError(
        f"{directory} has no options for {weights.name} (found {names}): "
        "expected one options.json, published with the weights, beside them."
    )


def outline(options_path: Path, weights_path: Path) -> BiLMConfig:
    """Check the options, and that the weights are about as large as they say. Raises BiLMError."""
    config = BiLMConfig.from_options(read_json(options_path), str(options_path))
    check_size(weights_path, list(datasets(config)), str(options_path))
    return config


def inspect(options_path: Path, weights_path: Path) -> BiLMConfig:
    """Check the options, and every dataset and shape, without loading any.

    The table of characters tells their number: 261 rows, more where it was trained so, and one
    more where the file holds the all-zero row that readers add for masked positions.
    Raises BiLMError that names the file, the dataset, what was expected and what was found.
    """
    config = BiLMConfig.from_options(read_json(options_path), str(options_path))
    with open_hdf5(weights_path) as file:
        config = _count_characters(config, file, weights_path)
        _check(file, list(datasets(config)), weights_path, options_path)
    return config


def read(options_path: Path, weights_path: Path) -> tuple[BiLMConfig, dict[str, Tensor]]:
    """Inspect, then load, one dataset after the other."""
    config = inspect(options_path, weights_path)
    tensors: dict[str, Tensor] = {}
    with open_hdf5(weights_path) as file:
        for dataset in datasets(config):
            stored = _load(file, dataset)
            check_finite(stored, dataset.name, str(weights_path))
            tensors |= dataset.to_tensors(stored)
    return config, tensors


def write(
    config: BiLMConfig, tensors: dict[str, Tensor], options_path: Path, weights_path: Path
) -> None:
    """Write a biLM so that bilm-tf, AllenNLP and `read` read it; whole files or none.

    Raises BiLMError for what this layout cannot hold.
    """
    options = config.to_options()

    def write_weights(path: Path) -> None:
        with h5py.File(path, "w") as file:
            for dataset in datasets(config):
                values = dataset.from_tensors(tensors).numpy()
                file.create_dataset(dataset.name, data=values, dtype="float32")

    write_atomically(weights_path, write_weights)
    text = json.dumps(options, indent=2) + "\n"
    write_atomically(options_path, lambda path: path.write_text(text, encoding="utf8"))


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open a file to read. Raises BiLMError where any part of it turns out to be damaged."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except BiLMError:
        raise
    except DAMAGE as error:
        raise BiLMError(
            f"{path} cannot be read as HDF5 ({error}), expected the weights of a biLM: "
            "it is damaged or incomplete, fetch it again."
        ) from None


def _count_characters(config: BiLMConfig, file: h5py.File, path: Path) -> BiLMConfig:
    """Set n_characters to what the table holds, where that agrees with the options."""
    table = file.get(MARK)
    if not isinstance(table, h5py.Dataset) or table.ndim != 2:
        return config
    rows = table.shape[0] - _mask_rows(table)
    if table.shape[0] == rows == N_CHARACTERS + 1 == config.n_characters + 1:
        raise BiLMError(
            f"{path}: '{MARK}' has 262 rows and its first is not zero, expected 261 rows, or 262 of "
            "which the first is the all-zero mask row: another table of characters cannot be read."
        )
    # Options count the mask row, or do not.
    larger = config.n_characters > N_CHARACTERS and rows == config.n_characters + 1
    return replace(config, n_characters=rows) if larger else config


def _mask_rows(table: h5py.Dataset) -> int:
    """1 where a table starts with the all-zero row that readers add for masked positions."""
    return int(len(table) > N_CHARACTERS and not table[0].any())


def _check(file: h5py.File, layout: list[Dataset], weights: Path, options: Path) -> None:
    stored = _shapes(file)
    for dataset in layout:
        if dataset.name not in stored:
            raise BiLMError(
                f"{weights} lacks the dataset '{dataset.name}', expected with shape {dataset.shape} "
                f"according to {options}: {REMEDY}."
            )
        shape, dtype = stored.pop(dataset.name)
        masked = _mask_rows(file[MARK]) if dataset.name == MARK and shape else 0
        if (shape[0] - masked, *shape[1:]) != dataset.shape if shape else dataset.shape != ():
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
            f"{weights} holds the dataset '{min(stored)}', expected only those of which {options} "
            f"tells: {REMEDY}."
        )


def _shapes(file: h5py.File) -> dict[str, tuple[tuple[int, ...], Any]]:
    found: dict[str, tuple[tuple[int, ...], Any]] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = (item.shape, item.dtype)

    file.visititems(visit)
    return found


def _load(file: h5py.File, dataset: Dataset) -> Tensor:
    stored = file[dataset.name]
    start = _mask_rows(stored) if dataset.name == MARK else 0
    return torch.from_numpy(stored[start:])
