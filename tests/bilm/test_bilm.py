from dataclasses import replace

import pytest
import torch
from conftest import SMALL, random_bilm

from spacy_elmo.bilm.lstm import LSTMState
from spacy_elmo.bilm.model import BiLM, BiLMState

LENGTHS = torch.tensor([3, 7, 1, 5, 7])


@pytest.fixture(scope="module")
def bilm() -> BiLM:
    """In float64, where a difference is a mistake and not rounding."""
    return random_bilm().double()


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(20, SMALL.projection_dim, generator=generator, dtype=torch.float64)


@pytest.fixture(scope="module")
def index() -> torch.Tensor:
    return torch.randint(20, (5, 7), generator=torch.Generator().manual_seed(4))


@pytest.fixture(scope="module")
def state() -> BiLMState:
    generator = torch.Generator().manual_seed(5)

    def random() -> LSTMState:
        shape = SMALL.n_layers, len(LENGTHS)
        return LSTMState(
            torch.randn(*shape, SMALL.projection_dim, generator=generator, dtype=torch.float64),
            torch.randn(*shape, SMALL.cell_dim, generator=generator, dtype=torch.float64),
        )

    return BiLMState(random(), random())


def pick(state: BiLMState, k: int) -> BiLMState:
    return BiLMState(*(LSTMState(s.hidden[:, [k]], s.cell[:, [k]]) for s in state))


def assert_same(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("zero", [True, False], ids=["zero state", "random state"])
def test_a_sequence_is_read_the_same_in_any_batch(bilm, tokens, index, state, zero):
    start = None if zero else state
    together = bilm.contextualize(tokens, index, LENGTHS, start)
    for k, length in enumerate(LENGTHS.tolist()):
        mine = None if zero else pick(state, k)
        alone = bilm.contextualize(tokens, index[[k], :length], LENGTHS[[k]], mine)
        assert_same(together.layers[:, [k], :length], alone.layers)
        for both, one in zip(pick(together.state, k), alone.state, strict=True):
            assert_same(both.hidden, one.hidden)
            assert_same(both.cell, one.cell)


@torch.no_grad()
def test_order_in_the_batch_does_not_matter(bilm, tokens, index, state):
    order = [3, 1, 4, 0, 2]
    moved = BiLMState(*(LSTMState(s.hidden[:, order], s.cell[:, order]) for s in state))
    straight = bilm.contextualize(tokens, index, LENGTHS, state)
    turned = bilm.contextualize(tokens, index[order], LENGTHS[order], moved)
    assert_same(turned.layers, straight.layers[:, order])
    assert_same(turned.state.backward.cell, straight.state.backward.cell[:, order])


@torch.no_grad()
def test_what_follows_a_sequence_is_not_read(bilm, tokens, index, state):
    other = index.clone()
    for row, length in zip(other, LENGTHS.tolist(), strict=True):
        row[length:] = 19 - row[length:]
    a = bilm.contextualize(tokens, index, LENGTHS, state)
    b = bilm.contextualize(tokens, other, LENGTHS, state)
    for k, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(a.layers[:, k, :length], b.layers[:, k, :length])
    assert torch.equal(a.state.backward.hidden, b.state.backward.hidden)


@torch.no_grad()
@pytest.mark.parametrize("cut", [1, 3, 6])
def test_two_pieces_with_the_state_carried_are_one_sequence(bilm, tokens, index, state, cut):
    """Forward the first piece comes first, backward the second."""
    index, state, width = index[[1]], pick(state, 1), SMALL.projection_dim
    whole = bilm.contextualize(tokens, index, torch.tensor([7]), state)

    def read(start: int, end: int, state: BiLMState):
        return bilm.contextualize(tokens, index[:, start:end], torch.tensor([end - start]), state)

    first = read(0, cut, state)
    second = read(cut, 7, first.state)
    assert_same(torch.cat([first.layers, second.layers], 2)[..., :width], whole.layers[..., :width])
    assert_same(second.state.forward.cell, whole.state.forward.cell)

    second = read(cut, 7, state)
    first = read(0, cut, second.state)
    assert_same(torch.cat([first.layers, second.layers], 2)[..., width:], whole.layers[..., width:])
    assert_same(first.state.backward.cell, whole.state.backward.cell)


@torch.no_grad()
def test_the_zero_state_is_the_default(bilm, tokens, index):
    default = bilm.contextualize(tokens, index, LENGTHS)
    given = bilm.contextualize(tokens, index, LENGTHS, bilm.zero_state(5))
    assert torch.equal(default.layers, given.layers)


@torch.no_grad()
def test_a_state_is_not_changed_by_its_use(bilm, tokens, index, state):
    before = [tensor.clone() for direction in state for tensor in direction]
    bilm.contextualize(tokens, index, LENGTHS, state)
    after = [tensor for direction in state for tensor in direction]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@torch.no_grad()
def test_each_direction_reads_one_side(bilm, tokens, index):
    """The forward half of a position depends on what stands before it, the backward half on the rest."""
    other = index.clone()
    other[:, 3] = 19 - other[:, 3]
    lengths = torch.full((5,), 7)
    a = bilm.contextualize(tokens, index, lengths).layers[1:]
    b = bilm.contextualize(tokens, other, lengths).layers[1:]
    forward = (a != b)[..., : SMALL.projection_dim].any(dim=-1)
    backward = (a != b)[..., SMALL.projection_dim :].any(dim=-1)
    assert not forward[..., :3].any() and forward[..., 3:].all()
    assert not backward[..., 4:].any() and backward[..., :4].all()


@torch.no_grad()
def test_layer_zero_is_the_tokens_twice(bilm, tokens, index):
    layers = bilm.contextualize(tokens, index, LENGTHS).layers
    assert layers.shape == (bilm.n_layers, 5, 7, SMALL.width)
    assert torch.equal(layers[0], torch.cat([tokens[index], tokens[index]], dim=-1))


@pytest.mark.parametrize("changes", [{}, {"cell_dim": 8, "n_highway": 0}, {"n_layers": 3}])
def test_gradients_reach_every_parameter(changes):
    config = replace(SMALL, **changes)
    bilm = random_bilm(config)
    char_ids = torch.randint(261, (6, 50), generator=torch.Generator().manual_seed(6))
    tokens = bilm.encode_words(char_ids)
    index = torch.arange(6).reshape(2, 3)
    output = bilm.contextualize(tokens, index, torch.tensor([3, 2]))
    # Of the top layer only: all below must be reached through it.
    output.layers[-1].square().sum().backward()
    for name, parameter in bilm.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


def test_gradients_are_those_of_finite_differences():
    """Along one random direction of all parameters, from characters to layers."""
    bilm = random_bilm().double()
    generator = torch.Generator().manual_seed(7)
    char_ids = torch.randint(261, (6, 50), generator=generator)
    index, lengths = torch.arange(6).reshape(2, 3), torch.tensor([3, 2])

    def random_like(tensor: torch.Tensor) -> torch.Tensor:
        return torch.randn(tensor.shape, generator=generator, dtype=torch.float64)

    def read() -> torch.Tensor:
        return bilm.contextualize(bilm.encode_words(char_ids), index, lengths).layers

    weights = random_like(read())
    (read() * weights).sum().backward()
    direction = {parameter: random_like(parameter) for parameter in bilm.parameters()}
    slope = sum((parameter.grad * step).sum() for parameter, step in direction.items())

    def moved(distance: float) -> torch.Tensor:
        with torch.no_grad():
            for parameter, step in direction.items():
                parameter.add_(step, alpha=distance)
            return (read() * weights).sum()

    difference = (moved(1e-6) - moved(-2e-6)) / 2e-6
    torch.testing.assert_close(slope, difference, rtol=1e-6, atol=1e-6)


def test_gradients_reach_a_carried_state(bilm, tokens, index, state):
    leaves = [tensor.clone().requires_grad_() for direction in state for tensor in direction]
    start = BiLMState(LSTMState(*leaves[:2]), LSTMState(*leaves[2:]))
    bilm.contextualize(tokens, index, LENGTHS, start).layers.sum().backward()
    assert all(leaf.grad is not None and leaf.grad.any() for leaf in leaves)
