"""checkpoint + NAME.index + NAME.data-... + options.json: where bilm-tf's training stopped.

Reference: bilm-tf, `train` and `load_options_latest_checkpoint`. The optimizer's slots are ignored.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ..config import BiLMConfig
from ..errors import BiLMError
from .bilm_tf import datasets
from .files import read_json, read_text
from .mapping import Dataset, check_finite
from .source import Source, Tensors
from .tensor_bundle import INDEX, Bundle, is_index, open_bundle

LAYOUT = "options.json + TensorFlow checkpoint"
OPTIONS, LATEST, VOCABULARY = "options.json", "checkpoint", "vocab.txt"
SCOPES = ("lm/", "")
# What TensorFlow called the parts of an LSTM, in the order of its versions.
CELL = re.compile(r"RNN_(\d)/RNN/MultiRNNCell/Cell(\d+)/LSTMCell/(\w+)")
PARTS = {
    "W_0": ("kernel", "weights"),
    "B": ("bias", "biases"),
    "W_P_0": ("projection/kernel", "projection/weights"),
}
SOFTMAX = {"weight": "softmax/W", "bias": "softmax/b"}


def find(path: Path) -> Source | None:
    """A biLM of this layout, in a directory or given by one of the checkpoint's files."""
    index = _latest(path) if path.is_dir() else _index_of(path)
    if index is None:
        return None
    directory, prefix = index.parent, index.with_name(index.name.removesuffix(INDEX))
    if not (directory / OPTIONS).is_file():
        raise BiLMError(
            f"{directory} has no {OPTIONS} for {index.name}: expected the one that bilm-tf's "
            "training wrote beside its checkpoints."
        )
    bundle, vocabulary = open_bundle(prefix), directory / VOCABULARY
    has_output = any(scope + SOFTMAX["weight"] in bundle.entries for scope in SCOPES)
    return Source(
        LAYOUT,
        (directory / OPTIONS, *bundle.files),
        lambda: inspect(bundle),
        lambda: read(bundle),
        (lambda: read_output(bundle)) if has_output else None,
        vocabulary if vocabulary.is_file() else None,
    )


def inspect(bundle: Bundle) -> BiLMConfig:
    """Check the options, and every tensor's shape and place, without loading any."""
    options = bundle.prefix.with_name(OPTIONS)
    config = BiLMConfig.from_options(read_json(options), str(options))
    bundle.check_files()
    known: set[str] = set()
    for name, dataset in _names(bundle, config):
        bundle.check(name, dataset.shape)
        known.add(name)
    for scope in SCOPES:
        known |= {scope + name for name in SOFTMAX.values()}
    for name in bundle.entries:
        # An optimizer's slots stand below the variable that they belong to.
        if name.startswith("lm/") and not any(n in known for n in (name, name.rpartition("/")[0])):
            raise BiLMError(
                f"{bundle.files[0]} holds the tensor '{name}', of which {options} says nothing: "
                "they belong to different models."
            )
    return config


def read(bundle: Bundle) -> tuple[BiLMConfig, Tensors]:
    """Inspect, then load, one tensor after the other."""
    config = inspect(bundle)
    tensors: Tensors = {}
    for name, dataset in _names(bundle, config):
        loaded = dataset.to_tensors(bundle.load(name))
        for tensor in loaded.values():
            check_finite(tensor, name, str(bundle.files[1]))
        tensors |= loaded
    return config, tensors


def read_output(bundle: Bundle) -> Tensors:
    """The softmax layer, which both directions share. *Shape:* weight (words, projection_dim),
    bias (words,).
    """
    tensors: Tensors = {}
    for key, theirs in SOFTMAX.items():
        name = next((s + theirs for s in SCOPES if s + theirs in bundle.entries), theirs)
        tensors[key] = bundle.load(name)
        check_finite(tensors[key], name, str(bundle.files[1]))
    return tensors


def spellings(name: str, n_layers: int) -> Iterator[str]:
    """The names that versions of TensorFlow gave to what bilm-tf's HDF5 calls name."""
    for scope in SCOPES:
        yield scope + name
        if match := CELL.fullmatch(name):
            direction, layer, part = match.groups()
            for leaf in PARTS[part]:
                yield f"{scope}RNN_{direction}/rnn/multi_rnn_cell/cell_{layer}/lstm_cell/{leaf}"
                if n_layers == 1:
                    yield f"{scope}RNN_{direction}/rnn/lstm_cell/{leaf}"


def _names(bundle: Bundle, config: BiLMConfig) -> Iterator[tuple[str, Dataset]]:
    """What the biLM's variables are called in this checkpoint."""
    for dataset in datasets(config):
        candidates = list(spellings(dataset.name, config.n_layers))
        found = [name for name in candidates if name in bundle.entries]
        if not found:
            expected = candidates[1] if len(candidates) > 2 else candidates[0]
            raise BiLMError(
                f"{bundle.files[0]} lacks the tensor '{expected}', expected {dataset.shape} "
                f"according to {bundle.prefix.with_name(OPTIONS)}: they belong to different models."
            )
        yield found[0], dataset


def _index_of(path: Path) -> Path | None:
    """Of the checkpoint that a file is part of."""
    name = re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path.name)
    index = path.with_name(name + INDEX)
    return index if name != path.name and is_index(index) else None


def _latest(directory: Path) -> Path | None:
    """The checkpoint that the file `checkpoint` names, or the only one."""
    found = [path for path in sorted(directory.glob(f"*{INDEX}")) if is_index(path)]
    if len(found) < 2:
        return found[0] if found else None
    if (directory / LATEST).is_file():
        text = read_text(directory / LATEST)
        if match := re.search(r'^model_checkpoint_path: "(?:.*[/\\])?([^/\\"]+)"', text, re.M):
            latest = directory / (match[1] + INDEX)
            if latest in found:
                return latest
    names = ", ".join(path.name for path in found)
    raise BiLMError(
        f"{directory} holds several checkpoints ({names}) and no file '{LATEST}' that names the "
        "latest: name one of these files."
    )
