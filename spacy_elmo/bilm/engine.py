"""The biLM for reading alone: what plain_reader.py computes, as fast as PyTorch lets it be on a CPU.

- The char CNN reads a word once, the first LSTM layer projects it once a batch.
- Nothing is padded. The states after `<S>` and `</S>`, from which sentences start, are computed once,
  and the boundary at a sentence's far end, which changes no word's vectors, is not read.
- Weights are packed for the products (products.py), gates computed in place (packed_lstm.py).
- The two directions run side by side, each with half of the threads.
"""

from collections.abc import Sequence
from functools import partial
from threading import Event, Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .lstm import LSTMState
from .model import BiLM, BiLMState
from .packed_lstm import PackedStack
from .packed_tokens import TokenTable
from .precision import Precision
from .side_by_side import one_after_the_other, side_by_side
from .token_cache import TokenCache

Words = Sequence[str]
# Rows of the boundaries in a table of token vectors, before those of words.
BEGIN, END = 0, 1


class Engine:
    """A biLM's present weights, packed once enough words have come. When they change, it is of no use.
    Threads of a server may share it: they read in turn, since each reading takes all cores.

    kept_words (int): Words whose token vectors are kept for later calls.
    """

    @torch.no_grad()
    def __init__(
        self, bilm: BiLM, precision: Precision, kept_words: int, token_cache: TokenCache | None
    ) -> None:
        self._device = bilm.device
        self._lock = Lock()
        # A GPU is one for both.
        self._both = side_by_side if bilm.device.type == "cpu" else one_after_the_other
        self._table = TokenTable(bilm, precision, kept_words, token_cache)
        self._stacks = [PackedStack(s, precision) for s in (bilm.forward_lm, bilm.backward_lm)]
        self._start = BiLMState(
            *(
                stack.read(
                    self._table.boundaries, self._tensor(np.array([row])), [1], zero, Event()
                )[1]
                for stack, row, zero in zip(
                    self._stacks, (BEGIN, END), bilm.zero_state(1), strict=True
                )
            )
        )

    @torch.no_grad()
    def read(self, sentences: list[Words]) -> list[Tensor]:
        """Layers of sentences, each read from the zero state. *Shape:* (layers, words, width) each."""
        with self._lock:
            tokens, rows = self._look_up(sentences)
            state = BiLMState(*(_expand(start, len(rows)) for start in self._start))
            return self._run(tokens, rows, state)[0]

    @torch.no_grad()
    def carry(self, sentences: list[Words], state: BiLMState) -> tuple[list[Tensor], BiLMState]:
        """Layers of sentences that start from states, and the states after them."""
        with self._lock:
            tokens, rows = self._look_up(sentences)
            framed = [np.concatenate([[BEGIN], row, [END]]) for row in rows]
            layers, state = self._run(tokens, framed, state)
        return [X[:, 1:-1].clone() for X in layers], state

    def _look_up(self, sentences: list[Words]) -> tuple[Tensor, list[NDArray[np.int64]]]:
        """A table of token vectors, and each sentence's rows in it."""
        distinct = dict.fromkeys(word for sentence in sentences for word in sentence)
        at = {word: row for row, word in enumerate(distinct, 2)}
        tokens = torch.cat([self._table.boundaries, self._table(list(at))])
        return tokens, [np.array([at[word] for word in s], dtype=np.int64) for s in sentences]

    def _run(
        self, tokens: Tensor, rows: list[NDArray[np.int64]], state: BiLMState
    ) -> tuple[list[Tensor], BiLMState]:
        """Layers of sequences, and the states after them; a sequence of nothing has no state."""
        width = tokens.shape[1]
        nothing = tokens.new_empty(1 + len(self._stacks[0].layers), 0, 2 * width)
        results = [nothing] * len(rows)
        # Longest first, as packing wants them.
        order = sorted((i for i, row in enumerate(rows) if len(row)), key=lambda i: -len(rows[i]))
        if not order:
            return results, state
        lengths = np.array([len(rows[i]) for i in order])
        index = self._tensor(np.concatenate([rows[i] for i in order]))
        layers = tokens.new_empty(len(nothing), len(index), 2 * width)
        layers[0] = tokens[index].repeat(1, 2)
        batch_sizes, ahead, behind = _pack(lengths)

        def read(direction: int, places: NDArray[np.int64], stop: Event) -> LSTMState:
            with torch.no_grad():  # which each thread decides for itself
                at, before = self._tensor(places), _pick(state[direction], order)
                stack = self._stacks[direction]
                outputs, after = stack.read(tokens, index[at], batch_sizes, before, stop)
                for layer, output in zip(layers[1:], outputs, strict=True):
                    layer[:, direction * width : (direction + 1) * width][at] = output
                return _pick(after, np.argsort(order).tolist())

        after = self._both(partial(read, 0, ahead), partial(read, 1, behind))
        # Copies, so that a short sentence does not keep the whole batch alive.
        for i, X in zip(order, layers.split(lengths.tolist(), dim=1), strict=True):
            results[i] = X.clone()
        return results, BiLMState(*after)

    def _tensor(self, values: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(self._device)


def _pack(lengths: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64], NDArray[np.int64]]:
    """Sequences alive at each time step, and where their words stand, read ahead and from behind."""
    starts = np.cumsum(lengths) - lengths
    batch_sizes = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left").tolist()
    ahead = [starts[:alive] + step for step, alive in enumerate(batch_sizes)]
    behind = [(starts + lengths - 1)[:alive] - step for step, alive in enumerate(batch_sizes)]
    return batch_sizes, np.concatenate(ahead), np.concatenate(behind)


def _pick(state: LSTMState, sequences: list[int]) -> LSTMState:
    return LSTMState(state.hidden[:, sequences], state.cell[:, sequences])


def _expand(state: LSTMState, sequences: int) -> LSTMState:
    return LSTMState(*(part.expand(-1, sequences, -1) for part in state))
