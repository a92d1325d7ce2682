"""Token vectors -> layers: the bidirectional language model."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .char_cnn import make_token_encoder
from .config import BiLMConfig
from .lstm import LSTMStack, LSTMState
from .spelling import make_spelling

if TYPE_CHECKING:
    from .token_cache import TokenCache


class BiLMState(NamedTuple):
    """Where both directions stand: hidden and cell, each (layers, sequences, ...)."""

    forward: LSTMState
    backward: LSTMState


class BiLMOutput(NamedTuple):
    """layers (n_layers + 1, sequences, positions, width), layer 0 first; the states after them."""

    layers: Tensor
    state: BiLMState


class BiLM(nn.Module):
    """The biLM of Peters et al. 2018, section 3: a token encoder and two stacks of LSTMs.

    It reads positions, boundaries included: `<S> w1 ... wn </S>` is n + 2 of them.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.spelling = make_spelling(config)
        self._token_cache: tuple[TokenCache | None, list[int]] = (None, [])
        self.token_encoder = make_token_encoder(config)
        self.forward_lm = LSTMStack(config)
        self.backward_lm = LSTMStack(config)

    @property
    def device(self) -> torch.device:
        return self.token_encoder.embedding.weight.device

    @property
    def token_cache(self) -> "TokenCache | None":
        """Words whose token vectors are known; None once the weights that they are of have changed."""
        cache, weights = self._token_cache
        return cache if weights == self._versions() else None

    @token_cache.setter
    def token_cache(self, cache: "TokenCache | None") -> None:
        self._token_cache = (cache, self._versions())

    def _versions(self) -> list[int]:
        """How often each weight of the token encoder was changed, as far as PyTorch knows."""
        return [weight._version for weight in self.token_encoder.parameters()]

    @property
    def n_layers(self) -> int:
        """Layers that a word has: the token layer and each LSTM layer."""
        return self.config.n_layers + 1

    def zero_state(self, sequences: int) -> BiLMState:
        config = self.config
        like = self.token_encoder.embedding.weight
        hidden = like.new_zeros(config.n_layers, sequences, config.projection_dim)
        cell = like.new_zeros(config.n_layers, sequences, config.cell_dim)
        return BiLMState(LSTMState(hidden, cell), LSTMState(hidden, cell))

    def encode_words(self, char_ids: Tensor) -> Tensor:
        """Token vectors, the same wherever a word stands.

        *Shape:* (words, max_characters) -> (words, projection_dim).
        """
        return self.token_encoder(char_ids)

    def contextualize(
        self, tokens: Tensor, index: Tensor, lengths: Tensor, state: BiLMState | None = None
    ) -> BiLMOutput:
        """Read sequences of tokens, given by their rows in a table of token vectors.

        tokens (rows, projection_dim): Of encode_words.
        index (sequences, positions): A row for each position; what follows a sequence is not read.
        lengths (sequences,): Positions of each sequence, at least one.
        state: Where each sequence starts from; None: zero.
        """
        state = state or self.zero_state(len(index))
        lengths = lengths.cpu()
        mirror = _mirror(index, lengths)
        ahead, forward = _read(self.forward_lm, tokens, index, lengths, state.forward)
        behind, backward = _read(
            self.backward_lm, tokens, index.gather(1, mirror), lengths, state.backward
        )
        turn = mirror[None, :, :, None].expand(len(behind), -1, -1, behind.shape[-1])
        both = torch.cat([ahead, behind.gather(2, turn)], dim=-1)
        token_layer = tokens[index].repeat(1, 1, 2)[None]
        return BiLMOutput(torch.cat([token_layer, both]), BiLMState(forward, backward))


def _mirror(index: Tensor, lengths: Tensor) -> Tensor:
    """Positions of each sequence from its end to its start; padding stays where it is."""
    positions = torch.arange(index.shape[1], device=index.device)[None]
    ends = lengths.to(index.device)[:, None]
    return torch.where(positions < ends, ends - 1 - positions, positions)


def _read(
    stack: LSTMStack, tokens: Tensor, index: Tensor, lengths: Tensor, state: LSTMState
) -> tuple[Tensor, LSTMState]:
    """Run a stack over padded sequences. *Shape:* (layers, sequences, positions, projection_dim)."""
    packed = pack_padded_sequence(index, lengths, batch_first=True, enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    assert order is not None and back is not None
    state = LSTMState(state.hidden[:, order], state.cell[:, order])
    outputs, last = stack(tokens[packed.data], packed.batch_sizes.tolist(), state)
    padded = [
        pad_packed_sequence(
            PackedSequence(output, packed.batch_sizes, order, back),
            batch_first=True,
            total_length=index.shape[1],
        )[0]
        for output in outputs
    ]
    return torch.stack(padded), LSTMState(last.hidden[:, back], last.cell[:, back])
