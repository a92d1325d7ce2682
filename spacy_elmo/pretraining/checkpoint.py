"""The whole state of a run in one file, and the model that it gives."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.optim import Optimizer

from ..bilm.formats import native
from ..bilm.formats.files import write_atomically
from ..bilm.formats.source import Source
from ..bilm.loading import build, find
from ..bilm.skeleton import without_weights
from .errors import PretrainingError
from .objective import LanguageModel
from .softmax import OutputLayer
from .vocabulary import Vocabulary

CHECKPOINT = "checkpoint.safetensors"
META = "meta.json"
# Where the JSON part of a checkpoint stands among its tensors, compressed.
STATE = "state.json.zlib"


def write_checkpoint(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write tensors and JSON-able state into one file, whole or not at all."""
    packed = zlib.compress(json.dumps(state).encode("utf8", "surrogatepass"), 1)
    stored = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    stored[STATE] = torch.from_numpy(np.frombuffer(packed, dtype=np.uint8).copy())
    write_atomically(path, lambda temporary: safetensors.torch.save_file(stored, temporary))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what write_checkpoint wrote."""
    try:
        tensors = safetensors.torch.load_file(path)
        state = json.loads(zlib.decompress(tensors.pop(STATE).numpy().tobytes()))
    except (SafetensorError, OSError, KeyError, ValueError, zlib.error) as error:
        raise PretrainingError(
            f"{path} cannot be read as a checkpoint ({error}): delete it to start the run anew."
        ) from None
    return tensors, state


def pack_optimizer(optimizer: Optimizer) -> dict[str, Tensor]:
    """The tensors of its state, by 'number of the parameter/name'."""
    state = optimizer.state_dict()["state"]
    return {
        f"{number}/{name}": torch.as_tensor(value)
        for number, values in state.items()
        for name, value in values.items()
    }


def unpack_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def write_model(
    directory: Path, model: LanguageModel, vocabulary: Vocabulary, meta: dict[str, Any]
) -> None:
    """Write the biLM where load_bilm finds it, and beside it what predicts words.

    meta: How it was trained, for people.
    """
    native.write(model.bilm.config, model.bilm.state_dict(), directory)
    native.write_output(model.output.state_dict(), directory)
    vocabulary.write(directory / native.VOCABULARY)
    text = json.dumps(meta, indent=2) + "\n"
    write_atomically(directory / META, lambda path: path.write_text(text, encoding="utf8"))


def read_output_layer(source: Source, projection_dim: int) -> tuple[OutputLayer, Vocabulary]:
    """Read the output layer of a biLM and its words."""
    place = source.files[0].parent
    if source.read_output is None:
        raise PretrainingError(
            f"{place} holds no output layer: expected a biLM that `spacy elmo pretrain` wrote, or a "
            "TensorFlow checkpoint of bilm-tf (published weights come without their output layer)."
        )
    if source.vocabulary is None:
        raise PretrainingError(
            f"{place} holds an output layer, but not its words: put the vocabulary of its training "
            f"beside it as {native.VOCABULARY}, one word a line."
        )
    vocabulary = Vocabulary.read(source.vocabulary)
    with without_weights():
        output = OutputLayer(len(vocabulary), projection_dim)
    try:
        output.load_state_dict(source.read_output(), assign=True)
    except RuntimeError as error:
        raise PretrainingError(
            f"{place} holds an output layer that is not of this biLM and the {len(vocabulary)} words of "
            f"{source.vocabulary} ({error})."
        ) from None
    return output, vocabulary


def read_language_model(name_or_path: str | Path) -> tuple[LanguageModel, Vocabulary]:
    """Load a biLM together with its output layer, in evaluation mode."""
    source = find(name_or_path)
    bilm = build(*source.read())
    output, vocabulary = read_output_layer(source, bilm.config.projection_dim)
    return LanguageModel(bilm, output).eval(), vocabulary
