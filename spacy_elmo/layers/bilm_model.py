"""The biLM as a Thinc model: Docs -> layers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from spacy.tokens import Doc, Span
from thinc.api import Model, torch2xp, xp2torch
from thinc.types import Floats3d

from ..bilm.precision import PRECISIONS, Precision
from ..spans import SpanGetter
from .bilm_shim import BiLMShim
from .feature_cache import key_of

if TYPE_CHECKING:
    from torch import Tensor

InT = list[Doc]
OutT = list[Floats3d]


@dataclass(frozen=True)
class Reading:
    """How Docs are read: settings that stay what the config says, so not serialised with a model.

    get_spans: Tokens read as one sequence. batch_words (int): Words read at once. carry_state (bool):
    Whether a span starts from the state that the one before it in the Doc left. precision (str): Of the
    products with the weights.
    """

    get_spans: SpanGetter
    batch_words: int
    carry_state: bool
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        if self.batch_words < 1:
            raise ValueError(f"batch_words is {self.batch_words}, expected at least 1.")
        if self.precision not in PRECISIONS:
            expected = ", ".join(PRECISIONS)
            raise ValueError(f"precision is {self.precision!r}, expected one of {expected}.")


def bilm_model(name: str, *, trainable: bool, reading: Reading) -> Model[InT, OutT]:
    """Layers of each Doc, (layers, tokens, width), layer 0 first.

    Tokens in several spans get the average, whitespace tokens and tokens in no span zeros.
    """
    return Model(
        "bilm",
        forward,
        init=init,
        dims={"nL": None, "nO": None},
        attrs={"reading": reading},
        shims=[BiLMShim(name, trainable)],
    )


def get_shim(model: Model[InT, OutT]) -> BiLMShim:
    return cast(BiLMShim, model.shims[0])


def load(model: Model[InT, OutT]) -> None:
    """Make sure that the biLM is in memory and the model's dimensions are its own."""
    bilm = get_shim(model).bilm
    model.set_dim("nL", bilm.n_layers, force=True)
    model.set_dim("nO", bilm.config.width, force=True)


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    load(model)


def forward(
    model: Model[InT, OutT], docs: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], InT]]:
    import torch

    load(model)
    shim = get_shim(model)
    spans = model.attrs["reading"].get_spans(docs)
    if not shim.trainable:
        return _frozen_layers(model, docs, spans), lambda d_layers: []
    with torch.set_grad_enabled(is_train):
        tensors = _embed(model, docs, spans)
    layers = [cast(Floats3d, torch2xp(tensor.detach())) for tensor in tensors]

    def backprop(d_layers: OutT) -> InT:
        # A Doc without words has recorded nothing.
        learns = [i for i, tensor in enumerate(tensors) if tensor.requires_grad]
        torch.autograd.backward(
            [tensors[i] for i in learns],
            [xp2torch(d_layers[i], device=tensors[i].device) for i in learns],
        )
        return []

    return layers, backprop


def _frozen_layers(model: Model[InT, OutT], docs: InT, spans: list[list[Span]]) -> OutT:
    """Layers of each Doc, those that the cache has from there."""
    import torch

    reading: Reading = model.attrs["reading"]
    cache = get_shim(model).open_cache(f"{reading.carry_state} {reading.precision}")
    keys = [key_of(doc, its) if cache else b"" for doc, its in zip(docs, spans, strict=True)]
    found = {i: X for i, key in enumerate(keys) if cache and (X := cache.get(key)) is not None}
    missing = [i for i in range(len(docs)) if i not in found]
    with torch.no_grad():
        fresh = _embed(model, [docs[i] for i in missing], [spans[i] for i in missing])
    layers = {i: model.ops.asarray3f(cast(Floats3d, X)) for i, X in found.items()}
    for i, tensor in zip(missing, fresh, strict=True):
        if cache:
            cache.put(keys[i], tensor.cpu().numpy())
        layers[i] = cast(Floats3d, torch2xp(tensor))
    return [layers[i] for i in range(len(docs))]


def _embed(model: Model[InT, OutT], docs: InT, spans: list[list[Span]]) -> list["Tensor"]:
    """Layers of each Doc. *Shape:* (layers, tokens, width)."""
    reading: Reading = model.attrs["reading"]
    embedder = get_shim(model).embedder(reading.batch_words, reading.precision)
    # For each Doc and span the tokens that the biLM sees; a span of whitespace is none.
    seen = [
        [tokens for span in its if (tokens := [t.i for t in span if not t.is_space])]
        for its in spans
    ]
    words = [
        [[doc[i].text for i in tokens] for tokens in spans]
        for doc, spans in zip(docs, seen, strict=True)
    ]
    if reading.carry_state:
        layers = embedder.carry(words)
    else:
        flat = iter(embedder.tensors(sentence for document in words for sentence in document))
        layers = [[next(flat) for _ in document] for document in words]
    return [
        _place(model, len(doc), tokens, X)
        for doc, tokens, X in zip(docs, seen, layers, strict=True)
    ]


def _place(
    model: Model[InT, OutT], length: int, spans: list[list[int]], layers: list[Any]
) -> "Tensor":
    """Spans' layers where their tokens stand in the Doc; the average where they overlap."""
    import torch

    weight = next(get_shim(model).bilm.parameters())
    placed = weight.new_zeros(model.get_dim("nL"), length, model.get_dim("nO"))
    if not spans:
        return placed
    at = torch.tensor([token for tokens in spans for token in tokens], dtype=torch.int64)
    times = torch.bincount(at, minlength=length).clamp_min(1).to(placed)
    placed = placed.index_add(1, at.to(placed.device), torch.cat(layers, dim=1))
    return placed / times[None, :, None]
