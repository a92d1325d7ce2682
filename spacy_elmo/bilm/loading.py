"""A packaged model's name or a path -> BiLM, whatever the layout."""

from dataclasses import replace
from pathlib import Path

from torch import Tensor

from . import cache
from .config import BiLMConfig
from .errors import BiLMError
from .formats import archive, hdf5, many_langs, native, tf_checkpoint, token_embeddings
from .formats.source import Source
from .formats.tensor_bundle import INDEX
from .model import BiLM
from .refusal import EXPECTED, explain
from .skeleton import without_weights
from .token_cache import check_token_cache

PACKAGED = Path(__file__).parent.parent / "models"
# Each tells by what is in the files whether a path is of its layout.
LAYOUTS = (native.find, many_langs.find, hdf5.find)


def load_bilm(name_or_path: str | Path, *, options: str | Path | None = None) -> BiLM:
    """Load a biLM, on the CPU, in evaluation mode.

    name_or_path: The name of a packaged or downloaded model, a directory, an archive, a file of
        weights, or "options.json,weights.hdf5", two files. The layout is told by what the files hold.
        Token vectors of a vocabulary in the biLM's directory become its token_cache.
    options: The options.json of HDF5 weights, where it is not beside them.
    Raises BiLMError, in one sentence, for what is not a biLM or is damaged.
    """
    source = find(name_or_path, options=options)
    bilm = build(*source.read())
    if source.read_token_cache is not None:
        cache = source.read_token_cache(bilm.config)
        check_token_cache(cache, bilm, str(source.files[0].parent))
        bilm.token_cache = cache
    return bilm


def build(config: BiLMConfig, tensors: dict[str, Tensor]) -> BiLM:
    """A BiLM that takes over tensors, without a second copy of them."""
    with without_weights():
        bilm = BiLM(config)
    bilm.load_state_dict(tensors, assign=True)
    return bilm.eval()


def find(name_or_path: str | Path, *, options: str | Path | None = None) -> Source:
    """Tell the layout of a biLM from its files. Raises BiLMError where it is none that is known."""
    if options is None and (pair := _pair(str(name_or_path))):
        options, name_or_path = pair
    path = _resolve(name_or_path)
    if options is not None:
        if source := hdf5.find(path, Path(options)):
            return source
        raise BiLMError(f"{path} is not HDF5 weights, the one layout to which options are given.")
    return _find(path)


def _find(path: Path) -> Source:
    found = [source for find_layout in LAYOUTS if (source := find_layout(path))]
    if len(found) > 1:
        names = ", ".join(source.files[-1].name for source in found)
        raise BiLMError(f"{path} holds several biLMs ({names}): name one of these files.")
    # bilm-tf dumps weights beside the checkpoint that they come from: the dump is what was published.
    if source := found[0] if found else tf_checkpoint.find(path):
        if path.is_dir() and (read := token_embeddings.find(path)):
            return replace(source, read_token_cache=read)
        return source
    if archive.is_archive(path):
        return archive.find(path, _find)
    raise BiLMError(explain(path))


def _pair(name: str) -> tuple[Path, Path] | None:
    """Options and weights, in whichever order their paths stand, parted by a comma; None: it is one name.

    Raises BiLMError where only one of them is there.
    """
    if "," not in name or Path(name).exists():
        return None
    missing = ""
    for comma in (i for i, character in enumerate(name) if character == ","):
        one, other = Path(name[:comma].strip()), Path(name[comma + 1 :].strip())
        if one.is_file() and other.is_file():
            return (other, one) if hdf5.is_weights(one) else (one, other)
        if one.is_file() or other.is_file():
            missing = str(other if one.is_file() else one)
    if not missing:
        return None
    raise BiLMError(
        f"No file '{missing}' of the two of '{name}', expected the paths of an options.json and of its "
        "HDF5 weights, parted by a comma: correct the path."
    )


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
