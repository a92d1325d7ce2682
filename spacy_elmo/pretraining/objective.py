"""The biLM's objective: forward and backward log likelihood together (Peters et al. 2018, 3.1)."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..bilm.lstm import LSTMStack, LSTMState
from ..bilm.model import BiLM, BiLMState
from ..bilm.packed_tokens import CHAR_CNN_WORDS
from .softmax import Candidates, OutputLayer
from .windows import Direction, TextWindow


class Losses(NamedTuple):
    """Negative log likelihoods, summed over a window, in nats, and the positions of a direction."""

    forward: Tensor
    backward: Tensor
    positions: int


class LanguageModel(nn.Module):
    """A biLM and the output layer that both of its directions share.

    dropout (float): In training mode, on each LSTM layer's input and on the top layer's output.
    """

    def __init__(self, bilm: BiLM, output: OutputLayer, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.bilm = bilm
        self.output = output
        self.dropout = dropout

    def forward(
        self, window: TextWindow, state: BiLMState, candidates: Candidates | None = None
    ) -> tuple[Tensor, BiLMState]:
        """The loss of a window that every stream fills, from a state; the states after it.

        Nats a prediction, the mean of both directions.
        """
        table = self.token_vectors(window.words)
        hiddens, states = [], []
        for stack, direction, before in self._sides(window, state):
            hidden, after = self._read(stack, table, direction, window.resets, before)
            hiddens.append(hidden)
            states.append(after)
        hidden = functional.dropout(torch.cat(hiddens), self.dropout, self.training)
        targets = torch.cat([window.forward.targets, window.backward.targets]).flatten()
        return self.output.loss(hidden, targets, candidates) / len(targets), BiLMState(*states)

    @torch.no_grad()
    def score(self, window: TextWindow, state: BiLMState) -> tuple[Losses, BiLMState]:
        """Each direction's loss by the full softmax. Streams that have ended are left out."""
        table = self.token_vectors(window.words)
        running = window.forward.targets[0] >= 0
        place = running.cumsum(0) - 1
        resets = [None if reset is None else place[reset] for reset in window.resets]
        losses, states = [], []
        for stack, direction, before in self._sides(window, state):
            short = LSTMState(before.hidden[:, running], before.cell[:, running])
            targets = direction.targets[:, running].flatten()
            inputs = Direction(direction.inputs[:, running], direction.targets)
            hidden, after = self._read(stack, table, inputs, resets, short)
            read = targets >= 0
            nll = self.output.negative_log_likelihood(hidden[read], targets[read])
            losses.append(nll.double().sum())
            at = running.nonzero().squeeze(1)
            # Copies: both directions' zero states are the same tensors.
            kept = (old.index_copy(1, at, new) for old, new in zip(before, after, strict=True))
            states.append(LSTMState(*kept))
        return Losses(losses[0], losses[1], int(read.sum())), BiLMState(*states)

    def token_vectors(self, words: list[str]) -> Tensor:
        """Of the boundaries and of distinct words, short ones first so that blocks of them are cropped.

        *Shape:* (2 + words, projection_dim).
        """
        spelling = self.bilm.spelling
        ids = np.concatenate([spelling.boundaries(), spelling.words(words)])
        blocks = torch.from_numpy(ids).to(self.bilm.device).split(CHAR_CNN_WORDS)
        vectors = torch.cat([self.bilm.encode_words(block) for block in blocks])
        # Under autocast they come in its precision, the LSTMs' gates want the weights' own.
        return vectors.to(self.output.weight.dtype)

    def _sides(
        self, window: TextWindow, state: BiLMState
    ) -> list[tuple[LSTMStack, Direction, LSTMState]]:
        return [
            (self.bilm.forward_lm, window.forward, state.forward),
            (self.bilm.backward_lm, window.backward, state.backward),
        ]

    def _read(
        self,
        stack: LSTMStack,
        table: Tensor,
        direction: Direction,
        resets: list[Tensor | None],
        state: LSTMState,
    ) -> tuple[Tensor, LSTMState]:
        """The top layer's output. *Shape:* (steps * streams, projection_dim)."""
        steps, streams = direction.inputs.shape
        # Its gradient is a dense sum over rows, which indexing would scatter one by one.
        inputs = functional.embedding(direction.inputs.flatten(), table)
        outputs, state = stack(inputs, [streams] * steps, state, resets, self.dropout)
        return outputs[-1], state


def detach(state: BiLMState) -> BiLMState:
    """Cut the graph between two windows: back-propagation through time is truncated here."""
    return BiLMState(*(LSTMState(s.hidden.detach(), s.cell.detach()) for s in state))
