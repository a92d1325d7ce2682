"""config.json + char.dic + token_embedder.pkl + encoder.pkl: the layout of ELMoForManyLangs.

Reference: `elmoformanylangs`, `Embedder.get_model`. Its .pkl files hold tensors; they are read without
unpickling anything else, or refused.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any

import torch
from torch import Tensor

from ..config import BiLMConfig
from ..errors import BiLMError
from ..lexicon import Lexicon
from .files import read_json, read_text
from .many_langs_map import encoder, token_embedder
from .mapping import Dataset, check_finite
from .source import Source, Tensors

CONFIG, CHARACTERS, WORDS = "config.json", "char.dic", "word.dic"
TOKEN_EMBEDDER, ENCODER = "token_embedder.pkl", "encoder.pkl"
LAYOUT = f"{CONFIG} + {TOKEN_EMBEDDER} + {ENCODER}"
REMEDY = "use the files of one directory as ELMoForManyLangs published it"
# Sizes that come with the reference program, not with the models that were published for it.
PUBLISHED_SIZES = "cnn_50_100_512_4096_sample.json"
PUBLISHED: dict[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}


def find(path: Path) -> Source | None:
    """A biLM of this layout, in a directory or given by one of its .pkl files."""
    directory = path if path.is_dir() else path.parent
    if path != directory and path.name not in (TOKEN_EMBEDDER, ENCODER):
        return None
    if not (directory / CONFIG).is_file() or not _is_config(read_json(directory / CONFIG)):
        return None
    names = (CONFIG, CHARACTERS, WORDS, TOKEN_EMBEDDER, ENCODER)
    files = tuple(directory / name for name in names if (directory / name).is_file())
    return Source(LAYOUT, files, lambda: inspect(directory), lambda: read(directory))


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


def read_config(directory: Path) -> BiLMConfig:
    """Sizes and lexicons."""
    sizes, source = _read_sizes(directory)
    embedder, stack = _section(sizes, "token_embedder", source), _section(sizes, "encoder", source)
    for section, kind, name in ((embedder, "cnn", "token_embedder"), (stack, "elmo", "encoder")):
        if str(section.get("name")).lower() != kind:
            raise BiLMError(
                f"{source}: {name}.name is {section.get('name')!r}, expected {kind!r}, as in all "
                "models that were published: another kind of network cannot be read."
            )
    word_dim = embedder.get("word_dim", 0)
    try:
        lexicon = Lexicon(
            read_lexicon(directory / CHARACTERS),
            read_lexicon(directory / WORDS) if word_dim else (),
            word_dim,
        )
        return BiLMConfig(
            char_dim=embedder["char_dim"],
            filters=tuple(tuple(pair) for pair in embedder["filters"]),
            n_highway=embedder["n_highway"],
            projection_dim=stack["projection_dim"],
            cell_dim=stack["dim"],
            n_layers=stack["n_layers"],
            max_characters=embedder["max_characters_per_token"],
            n_characters=len(lexicon.characters),
            activation=embedder["activation"],
            # Zero, as None, means no bound.
            cell_clip=stack.get("cell_clip") or None,
            projection_clip=stack.get("proj_clip") or None,
            skip_connections=True,
            always_project=True,
            lexicon=lexicon,
        )
    except KeyError as error:
        raise BiLMError(f"{source} lacks the field {error}: {REMEDY}.") from None
    except TypeError as error:
        raise BiLMError(f"{source} does not describe a biLM ({error}): {REMEDY}.") from None
    except BiLMError as error:
        if str(directory) in str(error):
            raise
        raise BiLMError(
            f"{source}, {directory}: {str(error).removesuffix('.')}; {REMEDY}."
        ) from None


def read_lexicon(path: Path) -> tuple[str, ...]:
    """Entries in the order of their ids. A line is an entry, a tab, and its id."""
    entries: dict[int, str] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line:
            continue
        entry, _, id_ = line.rpartition("\t")
        if not id_.strip().isdecimal() or int(id_) in entries:
            raise BiLMError(
                f"{path}: line {number} is {line!r}, expected an entry, a tab and a number that "
                f"no other line has: {REMEDY}."
            )
        # Whatever wrote the file may have lost an ideographic space at the start of its line.
        entries[int(id_)] = entry or "\u3000"
    if entries and max(entries) >= len(entries):
        raise BiLMError(
            f"{path} has {len(entries)} entries and the id {max(entries)}, expected ids without "
            f"gaps: {REMEDY}."
        )
    return tuple(entries[i] for i in range(len(entries)))


def _is_config(parsed: object) -> bool:
    return isinstance(parsed, dict) and "config_path" in parsed


def _read_sizes(directory: Path) -> tuple[dict[str, Any], Path]:
    """The file that config.json names, which may be where the model was trained, and its path."""
    config = directory / CONFIG
    parsed = read_json(config)
    given = parsed.get("config_path") if isinstance(parsed, dict) else None
    if not isinstance(given, str):
        raise BiLMError(f"{config}: config_path is {given!r}, expected a file's name: {REMEDY}.")
    # Only what lies in the directory is read, whatever the path says.
    path = directory / PureWindowsPath(given).name
    if path.is_file():
        sizes = read_json(path)
    elif path.name == PUBLISHED_SIZES:
        sizes = PUBLISHED
    else:
        raise BiLMError(
            f"{config} names the sizes '{given}', but {path} is not there: put the file beside it."
        )
    if not isinstance(sizes, dict):
        raise BiLMError(f"{path} is {sizes!r}, expected an object: {REMEDY}.")
    return sizes, path


def _section(sizes: dict[str, Any], name: str, source: Path) -> dict[str, Any]:
    section = sizes.get(name)
    if not isinstance(section, dict):
        raise BiLMError(f"{source}: {name} is {section!r}, expected an object: {REMEDY}.")
    return section


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
