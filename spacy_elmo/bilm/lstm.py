"""The projected, clipped LSTM and its stack: states in, states out.

Sequences come packed, as in torch.nn.utils.rnn.PackedSequence: time step after time step, the longest
sequence first, so that `batch_sizes[t]` sequences are alive at step t and nothing is padded.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .config import BiLMConfig
from .lstm_function import ProjectedLSTMFunction, Window

# TensorFlow adds this to the forget gate at run time; the stored bias is without it.
FORGET_BIAS = 1.0
# Rows whose input gates are computed at once: enough for full speed, little for one long sequence.
GATE_ROWS = 4096


class LSTMState(NamedTuple):
    """hidden (..., sequences, projection_dim), cell (..., sequences, cell_dim)."""

    hidden: Tensor
    cell: Tensor


class ProjectedLSTM(nn.Module):
    """One layer, one direction (TensorFlow's LSTMCell with num_proj, cell_clip and proj_clip).

    The gates' rows stand in the order i, f, o, j (j: the new input), so that the three sigmoids are one.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        cells, projected = config.cell_dim, config.projection_dim
        self.cell_clip = config.cell_clip
        self.projection_clip = config.projection_clip
        self.input_weight = nn.Parameter(torch.empty(4 * cells, projected))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * cells, projected))
        self.bias = nn.Parameter(torch.empty(4 * cells))
        self.projection = (
            nn.Parameter(torch.empty(projected, cells)) if config.projects_cells else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform initialisation, TensorFlow's default, with a bias of zero."""
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.xavier_uniform_(weight)
            else:
                nn.init.zeros_(weight)

    def forward(
        self,
        inputs: Tensor,
        batch_sizes: list[int],
        state: LSTMState,
        resets: Sequence[Tensor | None] | None = None,
    ) -> tuple[Tensor, LSTMState]:
        """Read packed sequences from a state.

        resets: For each step the sequences whose state becomes zero before it, or None.
        *Shape:* (packed words, projection_dim) -> the same; states (sequences, ...).
        """
        if resets is None:
            resets = [None] * len(batch_sizes)
        needs_gradients = (inputs, *state, *self.parameters())
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in needs_gradients):
            window = Window(batch_sizes, resets, self.cell_clip, self.projection_clip)
            output, hidden, cell = ProjectedLSTMFunction.apply(
                inputs,
                self.input_weight,
                self.recurrent_weight,
                self.biased(),
                self.projection,
                *state,
                window,
            )
            return output, LSTMState(hidden, cell)
        return self._read(inputs, batch_sizes, state, resets)

    def _read(
        self,
        inputs: Tensor,
        batch_sizes: list[int],
        state: LSTMState,
        resets: Sequence[Tensor | None],
    ) -> tuple[Tensor, LSTMState]:
        """As forward, in operations that autograd knows; keeps nothing for a backward pass."""
        hidden, cell = state
        outputs: list[Tensor] = []
        ended: list[LSTMState] = []
        for gates, reset in zip(self._input_gates(inputs, batch_sizes), resets, strict=True):
            alive = len(gates)
            if alive < len(hidden):
                ended.append(LSTMState(hidden[alive:], cell[alive:]))
                hidden, cell = hidden[:alive], cell[:alive]
            if reset is not None:
                hidden = hidden.index_fill(0, reset, 0.0)
                cell = cell.index_fill(0, reset, 0.0)
            hidden, cell = self._step(gates, hidden, cell)
            outputs.append(hidden)
        ended.append(LSTMState(hidden, cell))
        # The shortest sequences ended first and stand last.
        hiddens, cells = zip(*reversed(ended), strict=True)
        return torch.cat(outputs), LSTMState(torch.cat(hiddens), torch.cat(cells))

    def _input_gates(self, inputs: Tensor, batch_sizes: list[int]) -> Iterator[Tensor]:
        """The input's share of the gates, a time step at a time: (alive, 4 * cell_dim)."""
        bias = self.biased()
        start = 0
        for block in blocks(batch_sizes, GATE_ROWS):
            rows = inputs[start : start + sum(block)]
            yield from functional.linear(rows, self.input_weight, bias).split(block)
            start += len(rows)

    def biased(self) -> Tensor:
        offset = torch.zeros_like(self.bias)
        cells = len(offset) // 4
        offset[cells : 2 * cells] = FORGET_BIAS
        return self.bias + offset

    def _step(self, input_gates: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        # Under autocast only products are in its precision.
        gates = torch.addmm(input_gates, hidden, self.recurrent_weight.t()).to(cell.dtype)
        cells = cell.shape[1]
        take, keep, show = torch.sigmoid(gates[:, : 3 * cells]).chunk(3, dim=1)
        cell = keep * cell + take * torch.tanh(gates[:, 3 * cells :])
        if self.cell_clip is not None:
            cell = cell.clamp(-self.cell_clip, self.cell_clip)
        hidden = show * torch.tanh(cell)
        if self.projection is not None:
            hidden = functional.linear(hidden, self.projection).to(cell.dtype)
            if self.projection_clip is not None:
                hidden = hidden.clamp(-self.projection_clip, self.projection_clip)
        return hidden, cell


class LSTMStack(nn.Module):
    """One direction of the biLM."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ProjectedLSTM(config) for _ in range(config.n_layers))
        self.skip_connections = config.skip_connections

    def forward(
        self,
        inputs: Tensor,
        batch_sizes: list[int],
        state: LSTMState,
        resets: Sequence[Tensor | None] | None = None,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], LSTMState]:
        """Every layer's output.

        resets: As ProjectedLSTM.forward takes them.
        dropout: On every layer's input, in training mode (bilm-tf, `DropoutWrapper`).
        *Shape:* each (packed words, projection_dim); states (layers, ...).
        """
        outputs: list[Tensor] = []
        states: list[LSTMState] = []
        for depth, layer in enumerate(self.layers):
            inputs = functional.dropout(inputs, dropout, self.training)
            before = LSTMState(state.hidden[depth], state.cell[depth])
            output, last = layer(inputs, batch_sizes, before, resets)
            if self.skip_connections and depth > 0:
                output = output + inputs
            outputs.append(output)
            states.append(last)
            inputs = output
        hiddens, cells = zip(*states, strict=True)
        return outputs, LSTMState(torch.stack(hiddens), torch.stack(cells))


def blocks(batch_sizes: list[int], most_rows: int) -> Iterator[list[int]]:
    """Consecutive time steps of at most so many rows together, or one step."""
    block: list[int] = []
    rows = 0
    for size in batch_sizes:
        if block and rows + size > most_rows:
            yield block
            block, rows = [], 0
        block.append(size)
        rows += size
    if block:
        yield block
