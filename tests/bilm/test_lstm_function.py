"""The window's own gradients against those of plain operations, which autograd finds."""

import pytest
import torch
from torch import Tensor

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.lstm import LSTMStack, LSTMState, ProjectedLSTM

SIZES = [
    # projection_dim, cell_dim, cell_clip, projection_clip
    (3, 5, 0.3, 0.2),
    (3, 5, None, None),
    (4, 4, 0.3, None),
]


def make(projection_dim: int, cell_dim: int, cell_clip: float | None, clip: float | None):
    torch.manual_seed(0)
    config = BiLMConfig(
        char_dim=2,
        filters=((1, 3),),
        n_highway=0,
        projection_dim=projection_dim,
        cell_dim=cell_dim,
        n_layers=1,
        cell_clip=cell_clip,
        projection_clip=clip,
    )
    layer = ProjectedLSTM(config).double()
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    return layer


def make_inputs(layer: ProjectedLSTM, rows: int, sequences: int) -> tuple[Tensor, LSTMState]:
    width, cells = layer.input_weight.shape[1], layer.bias.shape[0] // 4
    inputs = torch.randn(rows, width, dtype=torch.double, requires_grad=True)
    hidden = torch.randn(sequences, width, dtype=torch.double).clamp(-0.2, 0.2)
    cell = torch.randn(sequences, cells, dtype=torch.double).clamp(-0.25, 0.25)
    return inputs, LSTMState(hidden.requires_grad_(), cell.requires_grad_())


WINDOWS = [
    ([4, 4, 4], [None, None, None]),
    ([4, 4, 3, 1], [None, torch.tensor([1, 3]), torch.tensor([0]), None]),
    ([2], [torch.tensor([0])]),
]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("batch_sizes", "resets"), WINDOWS)
def test_gradients_are_those_of_plain_operations(sizes, batch_sizes, resets) -> None:
    layer = make(*sizes)
    inputs, state = make_inputs(layer, sum(batch_sizes), batch_sizes[0])
    wanted = (inputs, *state, *layer.parameters())
    results = []
    for read in (layer, layer._read):
        output, last = read(inputs, batch_sizes, state, resets)
        values = (output, *last)
        torch.manual_seed(1)
        total = sum((value * torch.randn_like(value)).sum() for value in values)
        results.append((*values, *torch.autograd.grad(total, wanted)))
    for own, plain in zip(*results, strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-9, atol=1e-11)


def test_gradients_are_those_of_finite_differences() -> None:
    layer = make(2, 3, None, None)
    inputs, state = make_inputs(layer, 5, 3)
    resets = [None, torch.tensor([1])]

    def run(inputs: Tensor, hidden: Tensor, cell: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        output, last = layer(inputs, [3, 2], LSTMState(hidden, cell), resets)
        return (output, *last)

    assert torch.autograd.gradcheck(run, (inputs, *state, *layer.parameters()))


def test_a_window_in_two_parts_gives_the_same_outputs() -> None:
    layer = make(3, 5, 0.3, 0.2)
    inputs, state = make_inputs(layer, 12, 2)
    whole, last = layer(inputs, [2] * 6, state)
    first, between = layer(inputs[:4], [2, 2], state)
    second, end = layer(inputs[4:], [2] * 4, between)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(end.cell, last.cell)


def test_without_gradients_nothing_is_kept() -> None:
    layer = make(3, 5, 0.3, 0.2)
    inputs, state = make_inputs(layer, 4, 2)
    with torch.no_grad():
        output, _ = layer(inputs, [2, 2], state)
    assert output.grad_fn is None
    again, _ = layer(inputs, [2, 2], state)
    assert "ProjectedLSTMFunction" in type(again.grad_fn).__name__
    torch.testing.assert_close(again, output)


def test_autocast_makes_products_in_low_precision_only() -> None:
    layer = make(3, 5, 3.0, 3.0).float()
    inputs, state = (x.float().detach() for x in make_inputs(layer, 8, 4)), None
    inputs = next(inputs)
    state = LSTMState(torch.zeros(4, 3), torch.zeros(4, 5))
    plain, _ = layer(inputs, [4, 4], state)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, last = layer(inputs, [4, 4], state)
    assert mixed.dtype == last.cell.dtype == torch.float32
    assert not torch.equal(mixed, plain)
    torch.testing.assert_close(mixed, plain, rtol=0.05, atol=0.05)
    mixed.sum().backward()
    assert all(weight.grad.dtype == torch.float32 for weight in layer.parameters())
    # Frozen, where the weights need no gradient, it reads the same.
    layer.requires_grad_(False)
    with torch.autocast("cpu", torch.bfloat16):
        frozen, after = layer(inputs, [4, 4], state)
    assert frozen.dtype == after.hidden.dtype == after.cell.dtype == torch.float32
    torch.testing.assert_close(frozen, mixed, rtol=0.02, atol=0.02)


def test_dropout_is_on_the_inputs_in_training_only() -> None:
    config = BiLMConfig(
        char_dim=2, filters=((1, 3),), n_highway=0, projection_dim=8, cell_dim=16, n_layers=2
    )
    stack = LSTMStack(config)
    inputs = torch.randn(6, 8)
    state = LSTMState(torch.zeros(2, 3, 8), torch.zeros(2, 3, 16))
    stack.train()
    with torch.no_grad():
        plain, _ = stack(inputs, [3, 3], state)
        torch.manual_seed(0)
        dropped, _ = stack(inputs, [3, 3], state, dropout=0.5)
        torch.manual_seed(0)
        masked = torch.nn.functional.dropout(inputs, 0.5)
        first, _ = stack.layers[0](masked, [3, 3], LSTMState(state.hidden[0], state.cell[0]))
        stack.eval()
        evaluated, _ = stack(inputs, [3, 3], state, dropout=0.5)
    torch.testing.assert_close(dropped[0], first)
    torch.testing.assert_close(evaluated[1], plain[1])
