from dataclasses import replace

import pytest
import torch
from conftest import SMALL, random_bilm
from largest_tensor import LargestTensor

from spacy_elmo.bilm import lstm
from spacy_elmo.bilm.lstm import LSTMStack, LSTMState, ProjectedLSTM

TINY = replace(SMALL, projection_dim=2, cell_dim=3)
# Three sequences, of 4, 2 and 2 positions.
BATCH_SIZES = [3, 3, 1, 1]
CONFIGS = {
    "projected": TINY,
    "not projected": replace(TINY, cell_dim=2),
    "not clipped": replace(TINY, cell_clip=None, projection_clip=None),
    "clipped": replace(TINY, cell_clip=0.7, projection_clip=0.15),
}


def random_layer(config, seed=1) -> ProjectedLSTM:
    generator = torch.Generator().manual_seed(seed)
    layer = ProjectedLSTM(config).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=generator)
    return layer


def random_inputs(config, seed=2) -> tuple[torch.Tensor, LSTMState]:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    state = LSTMState(random(3, config.projection_dim), random(3, config.cell_dim))
    return random(sum(BATCH_SIZES), config.projection_dim), state


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_gradients_are_those_of_finite_differences(config):
    layer = random_layer(config)
    inputs, state = random_inputs(config)
    names = [name for name, _ in layer.named_parameters()]

    def run(inputs, hidden, cell, *weights):
        arguments = (inputs, BATCH_SIZES, LSTMState(hidden, cell))
        parameters = dict(zip(names, weights, strict=True))
        output, last = torch.func.functional_call(layer, parameters, arguments)
        return output, last.hidden, last.cell

    tensors = [t.detach().clone().requires_grad_() for t in (inputs, *state, *layer.parameters())]
    assert torch.autograd.gradcheck(run, tensors)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_recording_gradients_does_not_change_results(config):
    layer = random_layer(config)
    inputs, state = random_inputs(config)
    recorded, last = layer(inputs, BATCH_SIZES, state)
    assert recorded.requires_grad
    with torch.no_grad():
        plain, plain_last = layer(inputs, BATCH_SIZES, state)
    torch.testing.assert_close(recorded.detach(), plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(last.hidden.detach(), plain_last.hidden, rtol=0, atol=1e-12)
    torch.testing.assert_close(last.cell.detach(), plain_last.cell, rtol=0, atol=1e-12)


@torch.no_grad()
def test_cells_and_projection_are_clipped_at_their_bounds():
    config = CONFIGS["clipped"]
    inputs, state = random_inputs(config)
    output, last = random_layer(config)(inputs, BATCH_SIZES, state)
    assert last.cell.abs().max() == config.cell_clip > last.cell.abs().min()
    assert output.abs().max() == config.projection_clip > output.abs().min()


@torch.no_grad()
def test_the_projection_bound_is_of_the_projection_only():
    """TensorFlow ignores proj_clip where there is no num_proj."""
    config = replace(CONFIGS["not projected"], cell_clip=None, projection_clip=0.01)
    inputs, state = random_inputs(config)
    output, _ = random_layer(config)(inputs, BATCH_SIZES, state)
    assert output.abs().max() > 0.01


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_blocks_of_gates_do_not_change_results(rows, monkeypatch):
    layer = random_layer(TINY)
    inputs, state = random_inputs(TINY)
    whole, whole_last = layer(inputs, BATCH_SIZES, state)
    monkeypatch.setattr(lstm, "GATE_ROWS", rows)
    blocks, blocks_last = layer(inputs, BATCH_SIZES, state)
    torch.testing.assert_close(blocks, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(blocks_last.cell, whole_last.cell, rtol=0, atol=1e-12)


@torch.no_grad()
def test_blocks_of_gates_bound_memory(monkeypatch):
    """The gates of a thousand rows are never there at once, only their outputs."""
    layer, inputs = random_layer(TINY), torch.randn(1000, 2, dtype=torch.float64)
    state = LSTMState(inputs.new_zeros(1, 2), inputs.new_zeros(1, 3))
    monkeypatch.setattr(lstm, "GATE_ROWS", 10)
    with LargestTensor() as largest:
        layer(inputs, [1] * 1000, state)
    assert largest.elements == 1000 * TINY.projection_dim


@torch.no_grad()
def test_a_sequence_keeps_the_state_in_which_it_ended():
    """The packed rows 0, 3, 6, 7 are the first sequence, 1 and 4 the second, 2 and 5 the third."""
    layer = random_layer(TINY)
    inputs, state = random_inputs(TINY)
    output, last = layer(inputs, BATCH_SIZES, state)
    for k, rows in enumerate([[0, 3, 6, 7], [1, 4], [2, 5]]):
        start = LSTMState(state.hidden[k : k + 1], state.cell[k : k + 1])
        alone, end = layer(inputs[rows], [1] * len(rows), start)
        torch.testing.assert_close(output[rows], alone, rtol=0, atol=1e-12)
        torch.testing.assert_close(last.hidden[k : k + 1], end.hidden, rtol=0, atol=1e-12)
        torch.testing.assert_close(last.cell[k : k + 1], end.cell, rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("skip_connections", [False, True])
def test_a_skip_connection_adds_from_the_second_layer_on(skip_connections):
    config = replace(TINY, n_layers=3, skip_connections=skip_connections)
    stack: LSTMStack = random_bilm(config).forward_lm.double()
    inputs, (hidden, cell) = random_inputs(config)
    state = LSTMState(hidden.repeat(3, 1, 1), cell.repeat(3, 1, 1))
    outputs, _ = stack(inputs, BATCH_SIZES, state)
    first, second, third = (
        layer(x, BATCH_SIZES, LSTMState(hidden, cell))[0]
        for layer, x in zip(stack.layers, [inputs, outputs[0], outputs[1]], strict=True)
    )
    torch.testing.assert_close(outputs[0], first)
    torch.testing.assert_close(outputs[1], second + skip_connections * outputs[0])
    torch.testing.assert_close(outputs[2], third + skip_connections * outputs[1])


def test_fresh_layers_differ_and_have_no_bias():
    stack = LSTMStack(SMALL)
    assert not torch.equal(stack.layers[0].input_weight, stack.layers[1].input_weight)
    assert all(not layer.bias.any() for layer in stack.layers)
