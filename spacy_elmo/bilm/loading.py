"""A packaged model's name or a path -> BiLM, whatever the layout."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .config import BiLMConfig
from .errors import BiLMError
from .formats import hdf5, native
from .formats.files import read_json
from .model import BiLM

PACKAGED = Path(__file__).parent.parent / "models"
EXPECTED = "config.json + weights.safetensors, or options.json + weights.hdf5"


@dataclass(frozen=True)
class Source:
    """Where a biLM was found: its layout in words, its files, and how it is read.

    inspect: Checks it without loading tensors. read: Loads it. Both raise BiLMError.
    """

    layout: str
    files: tuple[Path, ...]
    inspect: Callable[[], BiLMConfig]
    read: Callable[[], tuple[BiLMConfig, dict[str, Tensor]]]


def load_bilm(name_or_path: str | Path) -> BiLM:
    """Load a biLM, on the CPU, in evaluation mode.

    name_or_path: The name of a packaged model, a directory, or a file of weights with its options
        beside it. The layout is told by what the files hold.
    Raises BiLMError, in one sentence, for what is not a biLM or is damaged.
    """
    return build(*find(name_or_path).read())


def build(config: BiLMConfig, tensors: dict[str, Tensor]) -> BiLM:
    """A BiLM that takes over tensors, without a second copy of them."""
    with torch.device("meta"):
        bilm = BiLM(config)
    bilm.load_state_dict(tensors, assign=True)
    return bilm.eval()


def find(name_or_path: str | Path) -> Source:
    """Tell the layout of a biLM from its files. Raises BiLMError where it is none that is known."""
    path = _resolve(name_or_path)
    if not path.is_dir():
        if hdf5.is_weights(path):
            return _hdf5(path.parent, path)
        if path.name == native.WEIGHTS:
            return _native(path.parent)
        raise BiLMError(f"{path} is not the weights of a biLM: expected {EXPECTED}.")
    if (path / native.CONFIG).is_file():
        return _native(path)
    weights = [file for file in sorted(path.iterdir()) if file.is_file() and hdf5.is_weights(file)]
    if len(weights) == 1:
        return _hdf5(path, weights[0])
    if weights:
        names = ", ".join(file.name for file in weights)
        raise BiLMError(f"{path} holds several biLMs ({names}): name one of these files.")
    if inside := sorted(path.glob("*/bilm")):
        raise BiLMError(f"{path} is a pipeline, not a biLM: its biLM is {inside[0]}, name that.")
    found = ", ".join(sorted(file.name for file in path.iterdir())[:8]) or "nothing"
    raise BiLMError(f"{path} is not a biLM: expected {EXPECTED}, found {found}.")


def _resolve(name_or_path: str | Path) -> Path:
    packaged = sorted(p for p in PACKAGED.iterdir() if p.is_dir()) if PACKAGED.is_dir() else []
    known = {path.name: path for path in packaged}
    if str(name_or_path) in known:
        return known[str(name_or_path)]
    path = Path(name_or_path)
    if path.exists():
        return path
    raise BiLMError(
        f"No biLM '{name_or_path}': expected the path of one ({EXPECTED})"
        + (f" or a packaged model's name ({', '.join(known)})." if known else ".")
    )


def _native(directory: Path) -> Source:
    path = directory / native.CONFIG
    parsed = read_json(path)
    if not native.is_config(parsed):
        kind = parsed.get("model_type") if isinstance(parsed, dict) else None
        what = f"a model of type {kind!r}" if kind else "another model"
        raise BiLMError(f"{path} describes {what}, not a biLM: expected {EXPECTED}.")
    files = (path, directory / native.WEIGHTS)
    return Source(
        "config.json + weights.safetensors",
        files,
        lambda: native.inspect(directory),
        lambda: native.read(directory),
    )


def _hdf5(directory: Path, weights: Path) -> Source:
    # Several models in one directory are told apart by what stands before "weights.hdf5".
    partner = directory / weights.name.replace("weights.hdf5", "options.json")
    named = [p for p in (partner, directory / "options.json") if p != weights and p.is_file()]
    options = named[:1] or sorted(directory.glob("*options.json"))
    if len(options) != 1:
        names = ", ".join(path.name for path in options) or "none"
        raise BiLMError(
            f"{directory} has no options for {weights.name} (found {names}): "
            "expected one options.json, published with the weights, beside them."
        )
    return Source(
        "options.json + weights.hdf5",
        (options[0], weights),
        lambda: hdf5.inspect(options[0], weights),
        lambda: hdf5.read(options[0], weights),
    )
