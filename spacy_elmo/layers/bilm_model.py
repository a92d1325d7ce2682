"""The biLM as a Thinc model: Docs -> layers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from spacy.tokens import Doc, Span
from thinc.api import Model, torch2xp, xp2torch
from thinc.types import Floats3d

from ..bilm.precision import PRECISIONS, Precision
from ..spans import SpanGetter
from .bilm_shim import BiLMShim
from .feature_cache import key_of
from .portions import parts, portions

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
    load(model)
    spans = model.attrs["reading"].get_spans(docs)
    if is_train and get_shim(model).trainable:
        return _recorded(model, docs, spans)
    return _read(model, docs, spans), lambda d_layers: []


def read_in_parts(model: Model[InT, OutT], doc: Doc) -> Iterator[Floats3d]:
    """The layers of a Doc, part after part: what reads them need not have all at once."""
    load(model)
    (spans,) = model.attrs["reading"].get_spans([doc])
    for _, _, tensor in _parts(model, doc, spans):
        yield cast(Floats3d, torch2xp(tensor))


def _recorded(
    model: Model[InT, OutT], docs: InT, spans: list[list[Span]]
) -> tuple[OutT, Callable[[OutT], InT]]:
    import torch

    whole = [(0, len(doc), its) for doc, its in zip(docs, spans, strict=True)]
    with torch.enable_grad():
        tensors = _embed(model, docs, whole)
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


def _read(model: Model[InT, OutT], docs: InT, spans: list[list[Span]]) -> OutT:
    """Layers of each Doc, those that the cache has from there."""
    reading: Reading = model.attrs["reading"]
    shim = get_shim(model)
    cache = None
    if not shim.trainable:
        cache = shim.open_cache(f"{reading.carry_state} {reading.precision}")
    keys = [key_of(doc, its) if cache else b"" for doc, its in zip(docs, spans, strict=True)]
    found = {i: X for i, key in enumerate(keys) if cache and (X := cache.get(key)) is not None}
    layers = {i: model.ops.asarray3f(cast(Floats3d, X)) for i, X in found.items()}
    missing = (i for i in range(len(docs)) if i not in found)
    for at in portions(missing, lambda i: len(docs[i]), reading.batch_words):
        portion = [docs[i] for i in at]
        for i, tensor in zip(at, _portion(model, portion, [spans[i] for i in at]), strict=True):
            if cache:
                cache.put(keys[i], tensor.cpu().numpy())
            layers[i] = cast(Floats3d, torch2xp(tensor))
    return [layers[i] for i in range(len(docs))]


def _portion(model: Model[InT, OutT], docs: InT, spans: list[list[Span]]) -> list["Tensor"]:
    import torch

    if len(docs) > 1 or model.attrs["reading"].carry_state:
        whole = [(0, len(doc), its) for doc, its in zip(docs, spans, strict=True)]
        with torch.no_grad():
            return _embed(model, docs, whole)
    weight = next(get_shim(model).bilm.parameters())
    layers = weight.new_empty(model.get_dim("nL"), len(docs[0]), model.get_dim("nO"))
    for start, end, tensor in _parts(model, docs[0], spans[0]):
        layers[:, start:end] = tensor
    return [layers]


def _parts(
    model: Model[InT, OutT], doc: Doc, spans: list[Span]
) -> Iterator[tuple[int, int, "Tensor"]]:
    """Start, end and layers of the parts of a Doc that are read one after the other."""
    import torch

    reading: Reading = model.attrs["reading"]
    all_at_once = [(0, len(doc), spans)]
    cut = all_at_once if reading.carry_state else parts(doc, spans, reading.batch_words)
    for start, end, inside in cut:
        with torch.no_grad():
            (tensor,) = _embed(model, [doc], [(start, end, inside)])
        yield start, end, tensor


def _embed(
    model: Model[InT, OutT], docs: InT, regions: list[tuple[int, int, list[Span]]]
) -> list["Tensor"]:
    """Layers of a region of each Doc, from a start to an end, with the spans in it.

    *Shape:* (layers, tokens, width).
    """
    reading: Reading = model.attrs["reading"]
    embedder = get_shim(model).embedder(reading.batch_words, reading.precision)
    # For each Doc and span the tokens that the biLM sees; a span of whitespace is none.
    seen = [
        [tokens for span in its if (tokens := [t.i for t in span if not t.is_space])]
        for _, _, its in regions
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
        _place(model, start, end, tokens, X)
        for (start, end, _), tokens, X in zip(regions, seen, layers, strict=True)
    ]


def _place(
    model: Model[InT, OutT], start: int, end: int, spans: list[list[int]], layers: list[Any]
) -> "Tensor":
    """Spans' layers where their tokens stand between start and end; the average where they overlap."""
    import torch

    weight = next(get_shim(model).bilm.parameters())
    placed = weight.new_zeros(model.get_dim("nL"), end - start, model.get_dim("nO"))
    if not spans:
        return placed
    at = torch.tensor([token - start for tokens in spans for token in tokens], dtype=torch.int64)
    times = torch.bincount(at, minlength=end - start).clamp_min(1).to(placed)
    placed = placed.index_add(1, at.to(placed.device), torch.cat(layers, dim=1))
    return placed / times[None, :, None]
