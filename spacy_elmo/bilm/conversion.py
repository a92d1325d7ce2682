"""A biLM from any layout into one that is written, and the proof that nothing was lost."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from .config import BiLMConfig
from .errors import BiLMError
from .formats import hdf5, native
from .formats.files import read_text, write_atomically
from .formats.source import Source, Tensors

HDF5_FILES = ("options.json", "weights.hdf5")


class Target(NamedTuple):
    """A layout that is written into a directory. files: Names of what it writes."""

    files: tuple[str, ...]
    write: Callable[[BiLMConfig, Tensors, Path], None]
    read: Callable[[Path], tuple[BiLMConfig, Tensors]]
    keeps_output: bool


def _write_hdf5(config: BiLMConfig, tensors: Tensors, place: Path) -> None:
    hdf5.write(config, tensors, *(place / name for name in HDF5_FILES))


def _read_hdf5(place: Path) -> tuple[BiLMConfig, Tensors]:
    return hdf5.read(*(place / name for name in HDF5_FILES))


TARGETS = {
    "native": Target((native.CONFIG, native.WEIGHTS), native.write, native.read, True),
    "hdf5": Target(HDF5_FILES, _write_hdf5, _read_hdf5, False),
}


def convert(
    source: Source, place: Path, to: str, *, vocabulary: Path | None = None, force: bool = False
) -> list[str]:
    """Write a biLM into a directory, read it back and compare every bit.

    to: "native", which keeps the output layer and its words where the source has them, or "hdf5".
    vocabulary: The output layer's words, one a line, where they are not beside the source.
    Gives what a reader should know of, in sentences. Raises BiLMError.
    """
    target = TARGETS[to]
    _check_free(place, source, target, force)
    config, tensors = source.read()
    target.write(config, tensors, place)
    _compare(config, tensors, *target.read(place), place)
    notes = []
    if source.read_token_cache is not None:
        if target.keeps_output:
            cache = source.read_token_cache(config)
            native.write_token_cache(cache, place)
            notes.append(f"Kept the token vectors of {len(cache)} words.")
        else:
            notes.append("The token vectors are left out: they are files of their own, copy them.")
    if source.read_output is None:
        return notes
    if not target.keeps_output:
        return [
            *notes,
            "The output layer is left out: options.json + weights.hdf5 has no place for it.",
        ]
    return [*notes, *_write_output(source.read_output(), vocabulary or source.vocabulary, place)]


def _check_free(place: Path, source: Source, target: Target, force: bool) -> None:
    if any(file.parent.resolve() == place.resolve() for file in source.files):
        raise BiLMError(
            f"{place} holds the source, and of two biLMs in one directory none can be named by it: "
            "give another directory."
        )
    if not force and (there := [name for name in target.files if (place / name).exists()]):
        raise BiLMError(f"{place} holds {there[0]} already: give another directory, or force it.")


def _compare(
    config: BiLMConfig, tensors: Tensors, config_read: BiLMConfig, read: Tensors, place: Path
) -> None:
    if config_read != config or read.keys() != tensors.keys():
        raise BiLMError(f"{place} reads back as another biLM: please report this.")
    for key, tensor in tensors.items():
        # As bits: numbers that are equal need not be the same, as 0 and -0.
        if not torch.equal(read[key].view(torch.int32), tensor.view(torch.int32)):
            raise BiLMError(
                f"{place}: the tensor '{key}' reads back with other values: the disk or the memory "
                "of this machine is damaged, or please report this."
            )


def _write_output(output: Tensors, vocabulary: Path | None, place: Path) -> list[str]:
    if vocabulary is not None:
        words = len(read_text(vocabulary).removesuffix("\n").split("\n"))
        if words != len(output["bias"]):
            raise BiLMError(
                f"{vocabulary} has {words} words, expected {len(output['bias'])}, the output "
                "layer's: give the vocabulary of its training."
            )
        if vocabulary != place / native.VOCABULARY:
            write_atomically(
                place / native.VOCABULARY, lambda path: shutil.copyfile(vocabulary, path)
            )
    native.write_output(output, place)
    if vocabulary is None:
        return [
            f"The output layer has {len(output['bias'])} words, but their list is not beside the "
            "source: give it, so that fine-tuning can go on with this layer."
        ]
    return [f"Kept the output layer of {len(output['bias'])} words."]
