"""config.json + char.dic + token_embedder.pkl + encoder.pkl: the layout of ELMoForManyLangs.

Reference: `elmoformanylangs`, `Embedder.get_model`. Its .pkl files hold tensors; they are read without
unpickling anything else, or refused.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from ..config import BiLMConfig
from ..errors import BiLMError
from .files import read_json, refuse_stand_in
from .many_langs_config import CHARACTERS, CONFIG, REMEDY, WORDS, is_config, read_config
from .many_langs_map import encoder, token_embedder
from .mapping import Dataset, check_finite, check_size
from .source import Source, Tensors

TOKEN_EMBEDDER, ENCODER = "token_embedder.pkl", "encoder.pkl"
LAYOUT = f"{CONFIG} + {TOKEN_EMBEDDER} + {ENCODER}"


def find(path: Path) -> Source | None:
    """A biLM of this layout, in a directory or given by one of its .pkl files."""
    directory = path if path.is_dir() else path.parent
    if path != directory and path.name not in (TOKEN_EMBEDDER, ENCODER):
        return None
    if not (directory / CONFIG).is_file() or not is_config(read_json(directory / CONFIG)):
        return None
    names = (CONFIG, CHARACTERS, WORDS, TOKEN_EMBEDDER, ENCODER)
    files = tuple(directory / name for name in names if (directory / name).is_file())
    return Source(
        LAYOUT,
        files,
        lambda: inspect(directory),
        lambda: read(directory),
        outline=lambda: outline(directory),
    )


def outline(directory: Path) -> BiLMConfig:
    """Check sizes and lexicons, and that the weights are about as large as they say. Raises BiLMError."""
    config = read_config(directory)
    for name, datasets in _files(config):
        path = directory / name
        if not path.is_file():
            _load(path)
        check_size(path, datasets, str(directory))
    return config


def inspect(directory: Path) -> BiLMConfig:
    """Check sizes, lexicons, and every tensor's shape.

    Raises BiLMError that names the file, the key, what was expected and what was found.
    """
    config = read_config(directory)
    for name, datasets in _files(config):
        _check(_load(directory / name), datasets, directory / name)
    return config


def read(directory: Path) -> tuple[BiLMConfig, Tensors]:
    """Load; each stored tensor goes as soon as the biLM has its own."""
    config = read_config(directory)
    tensors: Tensors = {}
    for name, datasets in _files(config):
        path = directory / name
        stored = _load(path)
        _check(stored, datasets, path)
        for dataset in datasets:
            values = stored.pop(dataset.name).float()
            check_finite(values, dataset.name, str(path))
            tensors |= dataset.to_tensors(values)
    return config, tensors


def _files(config: BiLMConfig) -> Iterator[tuple[str, list[Dataset]]]:
    yield TOKEN_EMBEDDER, list(token_embedder(config))
    yield ENCODER, list(encoder(config))


def _load(path: Path) -> dict[str, Tensor]:
    """Tensors by name; where the file can be mapped into memory it is."""
    try:
        mapped = zipfile.is_zipfile(path)
        stored = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:
        # What torch raises depends on the part of a file that is damaged or not allowed.
        refuse_stand_in(path)
        reason = str(error).split("\n")[0].split(". ")[0] or type(error).__name__
        raise BiLMError(
            f"{path} cannot be read as tensors and nothing else ({reason}): it is damaged, "
            "or holds code, of which none was executed; fetch it from its publisher."
        ) from None
    if not isinstance(stored, dict) or not all(isinstance(t, Tensor) for t in stored.values()):
        raise BiLMError(f"{path} holds no tensors by name, expected a state dict: {REMEDY}.")
    return dict(stored)


def _check(stored: dict[str, Tensor], datasets: list[Dataset], path: Path) -> None:
    expected = {dataset.name: dataset.shape for dataset in datasets}
    for name, shape in expected.items():
        if name not in stored:
            raise BiLMError(f"{path} lacks the tensor '{name}', expected {shape}: {REMEDY}.")
        found = stored[name]
        if tuple(found.shape) != shape or not found.is_floating_point():
            raise BiLMError(
                f"{path}: the tensor '{name}' is {tuple(found.shape)} of {found.dtype}, expected "
                f"{shape} of floats: {REMEDY}."
            )
    if extra := sorted(set(stored) - set(expected)):
        raise BiLMError(f"{path} holds the unknown tensor '{extra[0]}': {REMEDY}.")
