"""The stack of LSTMs for reading alone: packed weights, gates computed in place, no autograd.

What lstm.py computes, in another order. Sequences come packed, as there.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from threading import Event

import torch
from torch import Tensor

from .lstm import LSTMStack, LSTMState, ProjectedLSTM, blocks
from .precision import Precision
from .products import pack

# Rows whose input gates are computed at once: enough for a product of full speed, and few enough that
# the time steps find them in the processor's cache.
GATE_ROWS = 256


class PackedLSTM:
    """One layer, one direction.

    tanh(x) = 2 sigmoid(2x) - 1, so with the new input's rows doubled one sigmoid does for all gates;
    PyTorch's takes a sixth of its tanh's time.
    """

    def __init__(self, lstm: ProjectedLSTM, precision: Precision) -> None:
        self.cell_clip, self.projection_clip = lstm.cell_clip, lstm.projection_clip
        new = len(lstm.bias) // 4
        self.enter = pack(lstm.input_weight, lstm.biased(), precision, doubled=new)
        self._recur = pack(lstm.recurrent_weight, None, precision, doubled=new)
        self._project = None if lstm.projection is None else pack(lstm.projection, None, precision)

    def read(
        self,
        input_gates: Iterable[Tensor],
        hidden: Tensor,
        cell: Tensor,
        outputs: Tensor,
        stop: Event,
    ) -> None:
        """Read from a state on, step by step, until a stop is asked for.

        input_gates: The input's share of the gates, a time step at a time.
        cell: Becomes that after the last step of each sequence. outputs: Is filled.
        *Shape:* input_gates (alive, 4 * cell_dim), state (sequences, ...), outputs (packed words,
        projection_dim).
        """
        start = 0
        for gates in input_gates:
            if stop.is_set():
                return
            alive = len(gates)
            hidden = self._step(gates, hidden[:alive], cell[:alive])
            outputs[start : start + alive] = hidden
            start += alive

    def _step(self, input_gates: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        gates = self._recur(hidden, input_gates).sigmoid_()
        take, keep, show, new = gates.chunk(4, dim=1)
        cell.mul_(keep).addcmul_(take, new, value=2.0).sub_(take)
        if self.cell_clip is not None:
            cell.clamp_(-self.cell_clip, self.cell_clip)
        hidden = (2.0 * cell).sigmoid_().mul_(2.0).sub_(1.0).mul_(show)
        if self._project is not None:
            hidden = self._project(hidden)
            if self.projection_clip is not None:
                hidden.clamp_(-self.projection_clip, self.projection_clip)
        return hidden


class PackedStack:
    """One direction of the biLM."""

    def __init__(self, stack: LSTMStack, precision: Precision) -> None:
        self.skip_connections = stack.skip_connections
        self.layers = [PackedLSTM(layer, precision) for layer in stack.layers]  # type: ignore[arg-type]

    def read(
        self,
        tokens: Tensor,
        index: Tensor,
        batch_sizes: list[int],
        state: LSTMState,
        stop: Event,
    ) -> tuple[list[Tensor], LSTMState]:
        """Every layer's output for packed sequences, given by their rows in a table of tokens.

        stop: Once it is set, the rest is not computed and nobody uses the result.

        *Shape:* tokens (rows, projection_dim), index (packed words,), outputs (packed words,
        projection_dim) each; states (layers, sequences, ...).
        """
        last = _last_rows(batch_sizes)
        cells = state.cell.clone()
        outputs: list[Tensor] = []
        hiddens: list[Tensor] = []
        for depth, layer in enumerate(self.layers):
            if depth == 0:
                # A word's share of the gates is the same wherever it stands.
                shares = layer.enter(tokens)
                gates: Iterable[Tensor] = (shares[rows] for rows in index.split(batch_sizes))
            else:
                gates = _input_gates(layer, outputs[-1], batch_sizes)
            output = tokens.new_empty(len(index), tokens.shape[1])
            layer.read(gates, state.hidden[depth], cells[depth], output, stop)
            hiddens.append(output[last])
            if self.skip_connections and depth > 0:
                output += outputs[-1]
            outputs.append(output)
        return outputs, LSTMState(torch.stack(hiddens), cells)


def _input_gates(layer: PackedLSTM, inputs: Tensor, batch_sizes: list[int]) -> Iterator[Tensor]:
    start = 0
    for block in blocks(batch_sizes, GATE_ROWS):
        rows = inputs[start : start + sum(block)]
        yield from layer.enter(rows).split(block)
        start += len(rows)


def _last_rows(batch_sizes: list[int]) -> list[int]:
    """Where each sequence's last word stands among the packed."""
    last = [0] * batch_sizes[0]
    for size, start in zip(batch_sizes, accumulate(batch_sizes, initial=0), strict=False):
        last[:size] = range(start, start + size)
    return last
