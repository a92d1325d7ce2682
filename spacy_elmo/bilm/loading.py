"""A packaged model's name or a path -> BiLM, whatever the layout."""

from pathlib import Path

from torch import Tensor

from . import cache
from .config import BiLMConfig
from .errors import BiLMError
from .formats import archive, hdf5, many_langs, native, tf_checkpoint
from .formats.files import read_json
from .formats.source import Source
from .formats.tensor_bundle import INDEX
from .model import BiLM
from .skeleton import without_weights

PACKAGED = Path(__file__).parent.parent / "models"
EXPECTED = "config.json + weights.safetensors, or options.json + weights.hdf5"
# Each tells by what is in the files whether a path is of its layout.
LAYOUTS = (native.find, many_langs.find, hdf5.find, tf_checkpoint.find)


def load_bilm(name_or_path: str | Path, *, options: str | Path | None = None) -> BiLM:
    """Load a biLM, on the CPU, in evaluation mode.

    name_or_path: The name of a packaged or downloaded model, a directory, an archive, or a file of
        weights. The layout is told by what the files hold.
    options: The options.json of HDF5 weights, where it is not beside them.
    Raises BiLMError, in one sentence, for what is not a biLM or is damaged.
    """
    return build(*find(name_or_path, options=options).read())


def build(config: BiLMConfig, tensors: dict[str, Tensor]) -> BiLM:
    """A BiLM that takes over tensors, without a second copy of them."""
    with without_weights():
        bilm = BiLM(config)
    bilm.load_state_dict(tensors, assign=True)
    return bilm.eval()


def find(name_or_path: str | Path, *, options: str | Path | None = None) -> Source:
    """Tell the layout of a biLM from its files. Raises BiLMError where it is none that is known."""
    path = _resolve(name_or_path)
    if options is not None:
        if source := hdf5.find(path, Path(options)):
            return source
        raise BiLMError(f"{path} is not HDF5 weights, the one layout to which options are given.")
    return _find(path)


def _find(path: Path) -> Source:
    for find_layout in LAYOUTS:
        if source := find_layout(path):
            return source
    if archive.is_archive(path):
        return archive.find(path, _find)
    raise BiLMError(_refusal(path))


def _resolve(name_or_path: str | Path) -> Path:
    packaged = sorted(p for p in PACKAGED.iterdir() if p.is_dir()) if PACKAGED.is_dir() else []
    known = {path.name: path for path in packaged}
    if str(name_or_path) in known:
        return known[str(name_or_path)]
    path = Path(name_or_path)
    # A checkpoint is known by a name that none of its files has.
    for place in (path, path.with_name(path.name + INDEX) if path.name else path):
        if place.exists():
            return place
    if downloaded := cache.find(str(name_or_path)):
        return downloaded
    raise BiLMError(
        f"No biLM '{name_or_path}': expected the path of one ({EXPECTED})"
        + (f" or a packaged model's name ({', '.join(known)})" if known else "")
        + ", or the name of a published one after `python -m spacy elmo download NAME`."
    )


def _refusal(path: Path) -> str:
    """Why a path is not a biLM, in one sentence."""
    directory = path if path.is_dir() else path.parent
    config = directory / native.CONFIG
    if path.name in (directory.name, native.WEIGHTS) and config.is_file():
        parsed = read_json(config)
        kind = parsed.get("model_type") if isinstance(parsed, dict) else None
        what = f"a model of type {kind!r}" if kind else "another model"
        return f"{config} describes {what}, not a biLM: expected {EXPECTED}."
    if path.is_file():
        return f"{path} is not the weights of a biLM: expected {EXPECTED}."
    if inside := sorted(path.glob("*/bilm")):
        return f"{path} is a pipeline, not a biLM: its biLM is {inside[0]}, name that."
    found = ", ".join(sorted(file.name for file in path.iterdir())[:8]) or "nothing"
    return f"{path} is not a biLM: expected {EXPECTED}, found {found}."
