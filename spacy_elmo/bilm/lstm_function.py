"""The projected, clipped LSTM over a whole window, with gradients of its own.

Autograd would record some fifteen small operations a step; here the forward pass keeps what the
backward pass needs in buffers for all steps, and the gradients of the weights are one product each.
Under torch.autocast the products are made in its precision, the gates and cells in that of the inputs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


class Window(NamedTuple):
    """What steers a pass and has no gradient.

    batch_sizes: Sequences alive at each step, as in torch.nn.utils.rnn.PackedSequence.
    resets: For each step the sequences whose state becomes zero before it, or None.
    cell_clip, projection_clip: Bounds of the cells and of the output.
    """

    batch_sizes: Sequence[int]
    resets: Sequence[Tensor | None]
    cell_clip: float | None
    projection_clip: float | None

    def steps(self) -> Iterator[tuple[slice, int, Tensor | None]]:
        """Packed rows, sequences alive, sequences reset."""
        start = 0
        for alive, reset in zip(self.batch_sizes, self.resets, strict=True):
            yield slice(start, start + alive), alive, reset
            start += alive


class ProjectedLSTMFunction(torch.autograd.Function):
    """(inputs, weights, state) -> (outputs, state): see ProjectedLSTM.forward for the shapes.

    bias holds the forget bias already; projection is None where cells are not projected.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        projection: Tensor | None,
        hidden: Tensor,
        cell: Tensor,
        window: Window,
    ) -> tuple[Tensor, Tensor, Tensor]:
        low = _product_dtype(inputs)
        rows, cells = len(inputs), cell.shape[1]
        x, recurrent = inputs.to(low), recurrent_weight.to(low).t()
        project = None if projection is None else projection.to(low).t()
        pre = functional.linear(x, input_weight.to(low), bias.to(low))
        gates = inputs.new_empty(rows, 4 * cells)
        cells_before, cells_tanh = inputs.new_empty(rows, cells), inputs.new_empty(rows, cells)
        shown = inputs.new_empty(rows, cells, dtype=low)
        hidden_before = inputs.new_empty(rows, hidden.shape[1], dtype=low)
        outputs = inputs.new_empty(rows, hidden.shape[1])
        unclipped = inputs.new_empty(rows, cells, dtype=torch.bool)
        last_hidden, last_cell = hidden.clone(), cell.clone()
        for at, alive, reset in window.steps():
            # Rows past `alive` keep the state in which their sequence ended.
            if reset is not None:
                last_hidden[reset] = 0.0
                last_cell[reset] = 0.0
            hidden_before[at] = last_hidden[:alive]
            cells_before[at] = last_cell[:alive]
            g = gates[at]
            g.copy_(torch.addmm(pre[at], hidden_before[at], recurrent))
            g[:, : 3 * cells].sigmoid_()
            g[:, 3 * cells :].tanh_()
            take, keep, show, new = g.chunk(4, dim=1)
            c = last_cell[:alive]
            c.mul_(keep).addcmul_(take, new)
            if window.cell_clip is not None:
                torch.lt(c.abs(), window.cell_clip, out=unclipped[at])
                c.clamp_(-window.cell_clip, window.cell_clip)
            torch.tanh(c, out=cells_tanh[at])
            shown[at] = show * cells_tanh[at]
            out = outputs[at]
            out.copy_(shown[at] if project is None else torch.mm(shown[at], project))
            if project is not None and window.projection_clip is not None:
                out.clamp_(-window.projection_clip, window.projection_clip)
            last_hidden[:alive] = out
        ctx.window = window
        ctx.save_for_backward(
            x, input_weight, recurrent_weight, projection, gates, cells_before, cells_tanh,
            unclipped, shown, hidden_before, outputs,
        )  # fmt: skip
        return outputs, last_hidden, last_cell

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_outputs: Tensor, grad_hidden: Tensor, grad_cell: Tensor
    ) -> tuple[Tensor | None, ...]:
        (
            x, input_weight, recurrent_weight, projection, gates, cells_before, cells_tanh,
            unclipped, shown, hidden_before, outputs,
        ) = ctx.saved_tensors  # fmt: skip
        window: Window = ctx.window
        low, cells = x.dtype, cells_before.shape[1]
        recurrent = recurrent_weight.to(low)
        project = None if projection is None else projection.to(low)
        d_gates = torch.empty_like(gates, dtype=low)
        d_outputs = torch.empty_like(outputs, dtype=low)
        d_hidden, d_cell = grad_hidden.clone(), grad_cell.clone()
        for at, alive, reset in reversed(list(window.steps())):
            dh = grad_outputs[at] + d_hidden[:alive]
            if project is not None and window.projection_clip is not None:
                dh.masked_fill_(outputs[at].abs() >= window.projection_clip, 0.0)
            d_outputs[at] = dh
            dm = dh if project is None else torch.mm(d_outputs[at], project).to(dh.dtype)
            g, tanh = gates[at], cells_tanh[at]
            take, keep, show, new = g.chunk(4, dim=1)
            dc = d_cell[:alive]
            d_shown = dm * show
            dc.add_(d_shown).addcmul_(d_shown * tanh, tanh, value=-1.0)
            if window.cell_clip is not None:
                dc.mul_(unclipped[at])
            d = torch.empty_like(g)
            torch.mul(dc, new, out=d[:, :cells])
            torch.mul(dc, cells_before[at], out=d[:, cells : 2 * cells])
            torch.mul(dm, tanh, out=d[:, 2 * cells : 3 * cells])
            torch.mul(dc, take, out=d[:, 3 * cells :])
            # The derivatives: s - s * s of a sigmoid s, 1 - t * t of a hyperbolic tangent t.
            sigmoids = g[:, : 3 * cells]
            d[:, : 3 * cells] *= torch.addcmul(sigmoids, sigmoids, sigmoids, value=-1.0)
            d_new = d[:, 3 * cells :]
            d_new.addcmul_(d_new * new, new, value=-1.0)
            d_gates[at] = d
            dc.mul_(keep)
            d_hidden[:alive] = torch.mm(d_gates[at], recurrent)
            if reset is not None:
                d_hidden[reset] = 0.0
                d_cell[reset] = 0.0
        high = outputs.dtype
        return (
            torch.mm(d_gates, input_weight.to(low)).to(high),
            torch.mm(d_gates.t(), x).to(high),
            torch.mm(d_gates.t(), hidden_before).to(high),
            d_gates.sum(dim=0, dtype=high),
            None if project is None else torch.mm(d_outputs.t(), shown).to(high),
            d_hidden,
            d_cell,
            None,
        )


def _product_dtype(inputs: Tensor) -> torch.dtype:
    kind = inputs.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else inputs.dtype
