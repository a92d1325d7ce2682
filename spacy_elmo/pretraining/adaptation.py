"""Going on from a biLM that exists: its weights, and its output layer where it has one."""

import math

import torch

from ..bilm.config import BiLMConfig
from ..bilm.loading import build, find
from ..bilm.model import BiLM
from .checkpoint import read_output_layer
from .errors import PretrainingError
from .softmax import OutputLayer
from .vocabulary import SPECIAL, UNKNOWN, Vocabulary


def read_start(
    init_from: str, expected: BiLMConfig | None
) -> tuple[BiLM, OutputLayer | None, Vocabulary | None]:
    """Load a biLM, and its output layer and words if they are beside it, as published ones are not.

    expected: What the config's section [bilm] says, if anything.
    """
    source = find(init_from)
    bilm = build(*source.read())
    if expected is not None and expected != bilm.config:
        found, said = bilm.config.to_dict(), expected.to_dict()
        key = next(key for key in said | found if said.get(key) != found.get(key))
        raise PretrainingError(
            f"bilm.{key} is {said.get(key)}, but {init_from} has {found.get(key)}: leave the section "
            "[bilm] empty when pretraining.init_from is set."
        )
    if source.read_output is None:
        return bilm, None, None
    return bilm, *read_output_layer(source, bilm.config.projection_dim)


@torch.no_grad()
def extend(output: OutputLayer, old: Vocabulary, new: Vocabulary) -> OutputLayer:
    """An output layer for other words: those that it knows keep their rows.

    Words that are new were `<UNK>` so far: they start from its row, and share its probability.
    """
    rows = [*range(len(SPECIAL)), *old.ids(new.words[len(SPECIAL) :])]
    sharing = torch.tensor(rows) == UNKNOWN
    extended = OutputLayer(len(new), output.weight.shape[1])
    extended.weight.copy_(output.weight[rows])
    extended.bias.copy_(output.bias[rows] - sharing * math.log(int(sharing.sum())))
    return extended
