"""config.json + weights.safetensors: the layout of this package."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from .. import skeleton
from ..config import OUR_REMEDY, BiLMConfig
from ..errors import BiLMError
from ..model import BiLM
from ..token_cache import TokenCache
from .files import read_json, refuse_stand_in, write_atomically
from .mapping import check_finite
from .source import Source

CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
# Where pretraining kept them: what predicts words, and the words.
OUTPUT_LAYER = "output_layer.safetensors"
VOCABULARY = "vocab.txt"
TOKEN_CACHE = "token_cache.safetensors"
LAYOUT = "spacy-elmo.bilm.v1"
VERSION_REMEDY = "if a newer version of spacy-elmo wrote it, upgrade, else name another biLM"


def is_config(parsed: object) -> bool:
    """Whether a parsed config.json is of this layout."""
    return isinstance(parsed, dict) and parsed.get("layout") == LAYOUT


def config_to_json(config: BiLMConfig) -> dict[str, Any]:
    return {"layout": LAYOUT, **config.to_dict()}


def config_from_json(parsed: object, source: str) -> BiLMConfig:
    """Raises BiLMError where parsed is not a config of this layout."""
    if not isinstance(parsed, dict) or not is_config(parsed):
        found = parsed.get("layout") if isinstance(parsed, dict) else parsed
        raise BiLMError(
            f"{source} does not describe a biLM that this version reads: its layout is {found!r}, "
            f"expected {LAYOUT!r}; {VERSION_REMEDY}."
        )
    return BiLMConfig.from_dict({k: v for k, v in parsed.items() if k != "layout"}, source)


def find(path: Path) -> Source | None:
    """A biLM of this layout, in a directory or given by its weights; None where there is none."""
    directory = path if path.is_dir() else path.parent
    config, output = directory / CONFIG, directory / OUTPUT_LAYER
    if (path != directory and path.name != WEIGHTS) or not config.is_file():
        return None
    if not is_config(read_json(config)):
        return None
    vocabulary = directory / VOCABULARY
    return Source(
        f"{CONFIG} + {WEIGHTS}",
        (config, directory / WEIGHTS),
        lambda: inspect(directory),
        lambda: read(directory),
        (lambda: read_output(output)) if output.is_file() else None,
        vocabulary if vocabulary.is_file() else None,
        read_token_cache=(lambda config: read_token_cache(cache, config))
        if (cache := directory / TOKEN_CACHE).is_file()
        else None,
    )


def inspect(directory: Path) -> BiLMConfig:
    """Check the config, and every tensor's shape, without loading any.

    Raises BiLMError that names the file, the tensor, what was expected and what was found.
    """
    config = config_from_json(read_json(directory / CONFIG), str(directory / CONFIG))
    path = directory / WEIGHTS
    with _reading(path), safe_open(path, framework="pt") as header:
        shapes = {key: tuple(header.get_slice(key).get_shape()) for key in header.keys()}
    check(config, shapes, str(path))
    return config


def read(directory: Path) -> tuple[BiLMConfig, dict[str, Tensor]]:
    """Inspect, then map the weights into memory: pages are read when they are used, and shared with
    other processes. Weights stored in half precision come back in float32.
    """
    config = inspect(directory)
    path = directory / WEIGHTS
    with _reading(path):
        tensors = safetensors.torch.load_file(path)
    for key, tensor in tensors.items():
        check_finite(tensor, key, str(path))
    return config, _in_float32(tensors, str(path))


def read_output(path: Path) -> dict[str, Tensor]:
    """Map an output layer into memory. *Shape:* weight (words, projection_dim), bias (words,)."""
    with _reading(path):
        tensors = safetensors.torch.load_file(path)
    if set(tensors) != {"weight", "bias"}:
        raise BiLMError(f"{path} holds {sorted(tensors)}, expected weight and bias: it is damaged.")
    return _in_float32(tensors, str(path))


def read_token_cache(path: Path, config: BiLMConfig) -> TokenCache:
    """Load the token vectors of a vocabulary. Raises BiLMError where they do not fit."""
    with _reading(path):
        stored = path.read_bytes()
    return token_cache_from_bytes(stored, config, str(path))


def write_token_cache(cache: TokenCache, directory: Path) -> None:
    """Write token vectors beside the biLM that they are of."""
    stored = token_cache_to_bytes(cache)
    write_atomically(directory / TOKEN_CACHE, lambda path: path.write_bytes(stored))


def token_cache_to_bytes(cache: TokenCache) -> bytes:
    """As safetensors, the words in its header."""
    words = cache.words
    vectors = cache.lookup(words, torch.device("cpu")).contiguous()
    return safetensors.torch.save({"vectors": vectors}, metadata={"words": json.dumps(words)})


def token_cache_from_bytes(stored: bytes, config: BiLMConfig, source: str) -> TokenCache:
    """Read what token_cache_to_bytes gave. Raises BiLMError."""
    with _reading(source):
        tensors = safetensors.torch.load(stored)
    try:
        size = int.from_bytes(stored[:8], "little")
        words = json.loads(json.loads(stored[8 : 8 + size])["__metadata__"]["words"])
    except (ValueError, KeyError, TypeError):
        words = []
    expected = {"vectors": (len(words), config.projection_dim)}
    if (found := {key: tuple(tensor.shape) for key, tensor in tensors.items()}) != expected:
        raise BiLMError(
            f"{source} holds {found}, expected {expected}, a row for each of its words: it is damaged or "
            "of another biLM, take it out or save it again."
        )
    vectors = _in_float32(tensors, source)["vectors"]
    check_finite(vectors, "vectors", source)
    return TokenCache(words, vectors)


@contextmanager
def _reading(source: Path | str) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError) as error:
        if isinstance(source, Path):
            refuse_stand_in(source)
        raise BiLMError(
            f"{source} cannot be read as safetensors ({error}), expected the weights of a biLM: it is "
            "damaged or missing, fetch or save it again."
        ) from None


def write(config: BiLMConfig, tensors: dict[str, Tensor], directory: Path) -> None:
    """Write a biLM into a directory; each file is written whole or not at all."""
    stored = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    text = json.dumps(config_to_json(config), indent=2) + "\n"
    write_atomically(directory / WEIGHTS, lambda path: safetensors.torch.save_file(stored, path))
    write_atomically(directory / CONFIG, lambda path: path.write_text(text, encoding="utf8"))


def write_output(output: dict[str, Tensor], directory: Path) -> None:
    """Write an output layer beside a biLM, as pretraining does."""
    stored = {key: tensor.detach().cpu().contiguous() for key, tensor in output.items()}
    path = directory / OUTPUT_LAYER
    write_atomically(path, lambda place: safetensors.torch.save_file(stored, place))


def check(config: BiLMConfig, shapes: dict[str, tuple[int, ...]], source: str) -> None:
    """Raises BiLMError unless the tensors are exactly those of a biLM of this config."""
    expected = skeleton.shapes(config)
    remedy = f"the weights and the config belong to different biLMs, {OUR_REMEDY}"
    for key, shape in expected.items():
        if key not in shapes:
            raise BiLMError(f"{source} lacks the tensor '{key}', expected {shape}: {remedy}.")
        if shapes[key] != shape:
            raise BiLMError(
                f"{source}: the tensor '{key}' has the shape {shapes[key]}, expected {shape}: {remedy}."
            )
    if extra := sorted(set(shapes) - set(expected)):
        raise BiLMError(
            f"{source} holds the tensor '{extra[0]}', expected only those of its config: {remedy}."
        )


def to_bytes(bilm: BiLM) -> tuple[dict[str, Any], bytes]:
    """The config as JSON values and the tensors as safetensors, both in memory."""
    tensors = {key: t.detach().cpu().contiguous() for key, t in bilm.state_dict().items()}
    return config_to_json(bilm.config), safetensors.torch.save(tensors)


def from_bytes(config: object, weights: bytes) -> tuple[BiLMConfig, dict[str, Tensor]]:
    """Read what to_bytes gave."""
    source = "the serialised biLM"
    parsed = config_from_json(config, source)
    with _reading(source):
        tensors = safetensors.torch.load(weights)
    check(parsed, {key: tuple(tensor.shape) for key, tensor in tensors.items()}, source)
    return parsed, _in_float32(tensors, source)


def _in_float32(tensors: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    for key, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise BiLMError(
                f"{source}: the tensor '{key}' has the type {tensor.dtype}, expected a float's: "
                "quantised weights cannot be read."
            )
    return {key: tensor.float() for key, tensor in tensors.items()}
