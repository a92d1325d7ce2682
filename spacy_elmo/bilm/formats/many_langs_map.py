"""Tensors of ELMoForManyLangs (`ConvTokenEmbedder`, `ElmobiLm`), and the biLM's in them."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..config import BiLMConfig
from ..lstm import FORGET_BIAS
from .mapping import Dataset, reorder, same

# The order of the gates in LstmCellWithProjection, and the kernel's.
THEIRS, OURS = "ifjo", "ifoj"


def token_embedder(config: BiLMConfig) -> Iterator[Dataset]:
    """What token_embedder.pkl holds."""
    lexicon, ours = config.lexicon, "token_encoder"
    assert lexicon is not None
    if lexicon.words:
        table = (len(lexicon.words), lexicon.word_dim)
        yield same("word_emb_layer.embedding.weight", table, f"{ours}.words.weight")
    table = (config.n_characters, config.char_dim)
    yield same("char_emb_layer.embedding.weight", table, f"{ours}.embedding.weight")
    for i, (width, n) in enumerate(config.filters):
        name = f"convolutions.{i}"
        yield same(f"{name}.weight", (n, config.char_dim, width), f"{ours}.{name}.weight")
        yield same(f"{name}.bias", (n,), f"{ours}.{name}.bias")
    size = config.n_filters
    for i in range(config.n_highway):
        for kind, shape in (("weight", (2 * size, size)), ("bias", (2 * size,))):
            keys = tuple(f"{ours}.highways.{i}.{part}.{kind}" for part in ("transform", "carry"))
            yield Dataset(f"highways._layers.{i}.{kind}", shape, keys, _split_gate, _join_gate)
    shape = (config.projection_dim, config.n_features)
    yield same("projection.weight", shape, f"{ours}.projection.weight")
    yield same("projection.bias", (config.projection_dim,), f"{ours}.projection.bias")


def encoder(config: BiLMConfig) -> Iterator[Dataset]:
    """What encoder.pkl holds."""
    inputs, gates = config.projection_dim, 4 * config.cell_dim
    for direction, stack in (("forward", "forward_lm"), ("backward", "backward_lm")):
        for i in range(config.n_layers):
            theirs, ours = f"{direction}_layer_{i}", f"{stack}.layers.{i}"
            yield _gates(
                f"{theirs}.input_linearity.weight", (gates, inputs), f"{ours}.input_weight"
            )
            state = f"{theirs}.state_linearity"
            yield _gates(f"{state}.weight", (gates, inputs), f"{ours}.recurrent_weight")
            yield Dataset(f"{state}.bias", (gates,), (f"{ours}.bias",), _split_bias, _join_bias)
            yield same(
                f"{theirs}.state_projection.weight", (inputs, config.cell_dim), f"{ours}.projection"
            )


def _gates(name: str, shape: tuple[int, ...], key: str) -> Dataset:
    return Dataset(
        name,
        shape,
        (key,),
        lambda stored: (reorder(stored, THEIRS, OURS),),
        lambda ours: reorder(ours, OURS, THEIRS),
    )


def _split_gate(stored: Tensor) -> tuple[Tensor, ...]:
    """Their gate multiplies what is carried, the kernel's what is transformed: 1 - s(x) = s(-x)."""
    transform, gate = stored.chunk(2)
    return transform, -gate


def _join_gate(transform: Tensor, carry: Tensor) -> Tensor:
    return torch.cat([transform, -carry])


def _split_bias(stored: Tensor) -> tuple[Tensor, ...]:
    """Their bias of the forget gate is whole, the kernel's without what is added at run time."""
    i, f, o, j = reorder(stored, THEIRS, OURS).chunk(4)
    return (torch.cat([i, f - FORGET_BIAS, o, j]),)


def _join_bias(ours: Tensor) -> Tensor:
    i, f, o, j = ours.chunk(4)
    return reorder(torch.cat([i, f + FORGET_BIAS, o, j]), OURS, THEIRS)
