"""Why a path is not a biLM, in one sentence: what it is instead, and what to do."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import h5py

from .formats import hdf5, native, token_embeddings
from .formats.files import read_json, stand_in
from .formats.tensor_bundle import INDEX

EXPECTED = (
    "config.json + weights.safetensors, options.json + weights.hdf5, a checkpoint of bilm-tf, "
    "ELMoForManyLangs' files, or a zip archive of one of these"
)
DAMAGED = "is empty, damaged or cut short: fetch it again"
NO_HDF5 = f"is not HDF5, expected the weights of a biLM; it {DAMAGED}"
HDF5_SUFFIXES = (".hdf5", ".h5")
TAR = (".tar", ".tar.gz", ".tgz")
SAVED_MODEL = ("saved_model.pb", "tfhub_module.pb")


def explain(path: Path) -> str:
    """For a path in which no layout found its own."""
    return next(_reasons(path))


def _reasons(path: Path) -> Iterator[str]:
    """From the most to the least that can be said."""
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file())
    if config := _config_of(path):
        yield f"{config} describes {_kind(config)}."
    if path.name.endswith(TAR):
        yield (
            f"{path} is a tar archive, which is not read: unpack it and name what is in it (of an "
            "AllenNLP model, what its config.json calls weight_file)."
        )
    if any(file.name in SAVED_MODEL for file in files):
        yield (
            f"{path} is a SavedModel of TensorFlow, a program and not weights: the ELMo of TensorFlow "
            "Hub is published as weights too, `python -m spacy elmo download original`."
        )
    if inside := sorted(path.glob("*/bilm")):
        yield f"{path} is a pipeline, not a biLM: its biLM is {inside[0]}, name that."
    for file in files:
        if reason := _content(file):
            yield f"{file} {reason}."
    if path.is_file():
        yield f"{path} is not the weights of a biLM: expected {EXPECTED}."
    found = ", ".join(sorted(file.name for file in path.iterdir())[:8]) or "nothing"
    yield f"{path} is not a biLM: expected {EXPECTED}, found {found}."


def _config_of(path: Path) -> Path | None:
    """The config.json that should describe what is at path."""
    config = (path if path.is_dir() else path.parent) / native.CONFIG
    named = path.is_dir() or path.name == native.WEIGHTS
    return config if named and config.is_file() else None


def _kind(config: Path) -> str:
    """Of a config.json of another program, transformers' or AllenNLP's, or of another version."""
    parsed = read_json(config)
    if not isinstance(parsed, dict):
        return f"another model, not a biLM: expected {EXPECTED}"
    layout = str(parsed.get("layout"))
    if layout.startswith(native.LAYOUT.rstrip("0123456789")):
        return f"a biLM in the layout {layout!r}, expected {native.LAYOUT!r}: upgrade spacy-elmo"
    model = parsed.get("model")
    kind = parsed.get("model_type") or (model.get("type") if isinstance(model, dict) else None)
    text = f"a model of type {kind!r}, not a biLM" if kind else "another model, not a biLM"
    if weights := next(_values(parsed, "weight_file"), None):
        text += f", but its ELMo is {weights}, name that"
    return f"{text}: expected {EXPECTED}"


def _values(parsed: object, key: str) -> Iterator[object]:
    """Values of a key anywhere in parsed JSON."""
    if isinstance(parsed, dict):
        if key in parsed:
            yield parsed[key]
        parsed = list(parsed.values())
    if isinstance(parsed, list):
        for each in parsed:
            yield from _values(each, key)


def _content(file: Path) -> str | None:
    """What a file's first bytes, its name or its datasets say."""
    try:
        with file.open("rb") as opened:
            beginning = opened.read(4)
        if said := stand_in(file):
            return said
    except OSError as error:
        return f"cannot be read ({error.strerror}), expected a file of a biLM: allow reading it"
    if beginning == b"PK\3\4":
        return (
            "is a zip archive: unpack what holds it, then name it"
            if zipfile.is_zipfile(file)
            else DAMAGED
        )
    if file.suffix == INDEX and list(file.parent.glob(f"{file.stem}.data-*")):
        return DAMAGED
    if not beginning and file.suffix == ".zip":
        return DAMAGED
    if h5py.is_hdf5(file):
        return _datasets(file)
    return NO_HDF5 if file.suffix in HDF5_SUFFIXES else None


def _datasets(file: Path) -> str | None:
    """What an HDF5 file is that is no biLM of characters."""
    with hdf5.open_hdf5(file) as opened:
        if token_embeddings.MARK not in opened:
            return None
        if len(opened) == 1:
            return (
                "holds the token vectors of a vocabulary, not a biLM: put it and the vocabulary into the "
                "directory of the biLM that they were computed with, and name that"
            )
    return "is a biLM that reads whole words, not their characters, which is not supported"
